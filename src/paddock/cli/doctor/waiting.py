"""What keeps jobs waiting until a person does something: an account that may not, a runner that GitHub refuses, a Mac that is not well."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from paddock.cli.doctor.check import Check, bad, good

if TYPE_CHECKING:
    from paddock.kube.builtin import Node

__all__ = ["job_checks", "node_checks"]

_SHOWN: Final = 5
_RESTING: Final = frozenset({"resting", "account_resting", "repository_resting"})


def job_checks(waiting: Iterable[Mapping[str, Any]]) -> list[Check]:
    """One check for each account that may not run jobs, and for each sentence with which GitHub refuses runners. Pure."""
    unlisted: dict[str, int] = {}
    refused: dict[tuple[str, str], tuple[int, str, int]] = {}
    for job in waiting:
        reason = job.get("reason")
        if reason == "not_allowed":
            unlisted[job["login"]] = unlisted.get(job["login"], 0) + 1
        elif reason in _RESTING:
            # The moment until which it rests differs from job to job; what GitHub said does not.
            key = job["repository"], job["why"].partition(": ")[2]
            count, _, number = refused.get(key, (0, "", job["job_id"]))
            refused[key] = count + 1, job["why"], number
    found = [
        bad(
            f"account {login}",
            f"it is not on the allow list, so that {_jobs(count)} kept and not run",
            f"paddock accounts allow {login}",
        )
        for login, count in unlisted.items()
    ]
    found += [
        bad(f"runners of {repository}", f"{_jobs(count)} held up: {why}", f"paddock why job {number}")
        for (repository, _), (count, why, number) in refused.items()
    ]
    return _folded(found, "waiting jobs", "paddock get jobs") or [good("waiting jobs", "none waits for a person")]


def node_checks(nodes: "Iterable[Node]", now: datetime) -> list[Check]:
    """One check for each of our Macs whose Node says that jobs suffer: its clock, its disk, its agent's silence. Pure."""
    from paddock.hosts.node_health import troubles
    from paddock.runners.api import FLEET_LABEL

    ours = [node for node in nodes if FLEET_LABEL in node.metadata.labels]
    found = [
        bad(f"Mac {node.metadata.name}", "; ".join(urgent), f"paddock why machine {node.metadata.name}")
        for node in ours
        if (urgent := [trouble.sentence for trouble in troubles(node, now) if trouble.urgent])
    ]
    if not ours:
        return []
    return _folded(found, "Macs", "paddock get machines") or [good("Macs", f"{len(ours)} Nodes, and none complains")]


def _jobs(count: int) -> str:
    return "1 job is" if count == 1 else f"{count} jobs are"


def _folded(checks: list[Check], about: str, all_of_them: str) -> list[Check]:
    if len(checks) <= _SHOWN:
        return checks
    return [*checks[:_SHOWN], bad(about, f"{len(checks) - _SHOWN} more like these", all_of_them)]
