"""What people write on a Host with a reason, and take off again: `quarantine` and `retire`."""

from typing import TYPE_CHECKING, Literal

from paddock.cli.connections import Problem, Reached
from paddock.cli.exit_codes import DECLINED
from paddock.cli.output import confirmed, say

if TYPE_CHECKING:
    from paddock.hosts.api import ScalewayAppleSiliconHost
    from paddock.views.finding import Mac

__all__ = ["host_of", "mark_host"]


def host_of(mac: "Mac", name: str) -> "ScalewayAppleSiliconHost":
    """The Mac's Host; Problem where it has none yet."""
    if mac.host is None:
        raise Problem(f"machine {name} has no host yet: `paddock why machine {name}` says what it waits for")
    return mac.host


async def mark_host(
    reached: Reached,
    host: "ScalewayAppleSiliconHost",
    mark: Literal["quarantine", "retire"],
    reason: str,
    *,
    plan: list[str],
    done: str,
    yes: bool,
    dry_run: bool,
) -> int:
    """Write the reason, or take the mark off where there is none, once whoever asked has seen the plan and agreed."""
    from paddock.hosts.api import ScalewayAppleSiliconHost

    if not confirmed(plan, "Go on?", yes=yes, dry_run=dry_run):
        return 0 if dry_run else DECLINED
    meta = host.metadata
    # The uid: a Host object that was made anew meanwhile is another one, and is not meant.
    change = {"metadata": {"uid": meta.uid}, "spec": {mark: reason or None}}
    await reached.client.merge_patch(ScalewayAppleSiliconHost, meta.name, change, namespace=meta.namespace)
    say(f"host {meta.name} is {done}")
    return 0
