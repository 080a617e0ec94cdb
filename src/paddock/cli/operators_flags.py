"""What the operator that runs was told about sweeping, so that commands explain what it will do and not what it might.

`paddock up` leaves it beside its address; in a cluster it stands in the arguments of the operator's Deployment.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from paddock.cli.connections import Reached, left_by_up

__all__ = ["Sweeping", "operators", "sweeping"]

_OPERATOR: Final = "app.kubernetes.io/name=paddock,app.kubernetes.io/component=operator"
_POOL: Final = "--default-adopt-pool-prefix="
_CLAIMS: Final = "--orphan-reclaim-claim-name-prefix="


@dataclass(frozen=True, slots=True)
class Sweeping:
    """An empty `claim_name_prefix`: orphaned hosts are reported only."""

    pool_prefix: str
    claim_name_prefix: str
    source: str
    namespace: str = ""


async def sweeping(reached: Reached) -> Sweeping | None:
    """The words of the operator that works where the command looks; None where they cannot be found out."""
    found = await operators(reached)
    return min(found, key=lambda each: each.namespace != reached.namespace, default=None)


async def operators(reached: Reached) -> list[Sweeping]:
    """The words of every operator of the cluster that can be found."""
    from paddock.kube.errors import KubeError
    from paddock.kube.resource import Resource

    lines = left_by_up(reached.client)
    if len(lines) > 1:
        said = json.loads(lines[1])
        return [Sweeping(said["pool_prefix"], said["claim_name_prefix"], "the `paddock up` that runs")]
    deployments = Resource("apps", "v1", "Deployment", "deployments")
    try:
        found = (await reached.client.list(deployments, label_selector=_OPERATOR)).items
    except KubeError:
        return []  # no such kind here, or no right to look: whoever asks says what is assumed
    return [_of(deployment) for deployment in found]


def _of(deployment: dict[str, Any]) -> Sweeping:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [argument for container in containers for argument in container.get("args") or ()]
    given = {
        prefix: next((a.removeprefix(prefix) for a in arguments if a.startswith(prefix)), "")
        for prefix in (_POOL, _CLAIMS)
    }
    meta = deployment["metadata"]
    where = meta.get("namespace", "")
    return Sweeping(given[_POOL], given[_CLAIMS], f"Deployment {where}/{meta['name']}", where)
