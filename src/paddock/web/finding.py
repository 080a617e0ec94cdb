"""Finding an object in what a page is made from, by the names that people use; Macs: `views.finding`. Pure."""

import difflib
from collections.abc import Iterator

from paddock.hosts.api import MacFleet, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Pod
from paddock.runners.api import POOL_LABEL, RunnerPool
from paddock.runners.ledger.views import RunningJob
from paddock.web.page_data import PageData

__all__ = [
    "find_fleet",
    "find_pod",
    "find_pool",
    "job_on",
    "machines_of",
    "named",
    "pods_of_pool",
    "spelt_alike",
]

_SCREENFUL = 40
_COMPARED = 200

Machine = ScalewayAppleSiliconMachine


def find_fleet(seen: PageData, name: str) -> MacFleet | None:
    return next((fleet for fleet in seen.fleets if fleet.metadata.name == name), None)


def find_pool(seen: PageData, name: str) -> RunnerPool | None:
    return next((pool for pool in seen.pools if pool.metadata.name == name), None)


def find_pod(seen: PageData, name: str) -> Pod | None:
    return next((pod for pod in seen.pods if name in (pod.metadata.name, pod.metadata.uid)), None)


def machines_of(seen: PageData, fleet: MacFleet) -> list[Machine]:
    owned = [m for m in seen.machines if any(ref.uid == fleet.metadata.uid for ref in m.metadata.owner_references)]
    return sorted(owned, key=lambda machine: machine.metadata.name)


def pods_of_pool(seen: PageData, pool: str) -> list[Pod]:
    return sorted(
        (pod for pod in seen.pods if pod.metadata.labels.get(POOL_LABEL) == pool), key=lambda pod: pod.metadata.name
    )


def job_on(seen: PageData, pod: Pod) -> RunningJob | None:
    running = seen.ledger.running if seen.ledger is not None else ()
    return next((job for job in running if job.pod_uid == pod.metadata.uid), None)


def named(seen: PageData, sought: str) -> list[tuple[str, str]]:
    """Kind and name of everything that is called so, in whole or in part; at most a screenful of each kind."""
    low = sought.lower()
    found: list[tuple[str, str]] = []
    for kind, names in _names(seen).items():
        alike = [name for name, also in names if low in name.lower() or low in also.lower()]
        found += [(kind, name) for name in sorted(alike, key=lambda name: (name != sought, name))[:_SCREENFUL]]
    if sought.isascii() and sought.isdecimal() and len(sought) < 19:  # only the ledger knows all jobs by number
        found.append(("job", sought))
    return found


def spelt_alike(seen: PageData, kind: str, name: str) -> list[tuple[str, str]]:
    """What else the person may have meant: that very name of another kind, and names of the kind that are spelt alike."""
    found: list[tuple[str, str]] = []
    for other, pairs in _names(seen).items():
        names = [one for one, _ in pairs]
        if other != kind:
            found += [(other, name)] if name in names else []
            continue
        # Comparing letter by letter is slow: among very many, only names that begin alike are compared.
        if len(names) > _COMPARED:
            names = [one for one in names if one[:4] == name[:4]][:_COMPARED]
        found += [(other, one) for one in difflib.get_close_matches(name[:80], names, 3, 0.75)]
    return found


def _names(seen: PageData) -> dict[str, Iterator[tuple[str, str]]]:
    """By kind: the name of each object, and what else it is known by."""
    return {
        "host": ((host.metadata.name, host.status.cloud_name) for host in seen.hosts),
        "machine": ((machine.metadata.name, "") for machine in seen.machines),
        "fleet": ((fleet.metadata.name, "") for fleet in seen.fleets),
        "pool": ((pool.metadata.name, pool.spec.dispatch_label) for pool in seen.pools),
        "pod": ((pod.metadata.name, pod.metadata.uid) for pod in seen.pods),
    }
