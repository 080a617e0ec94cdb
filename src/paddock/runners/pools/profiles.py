"""Profiles: a label such as `macos-26-xcode-26.1-6vcpu` chooses the image and the shape of the runner. Pure.

A warm Pod has its image and shape before it has a job, so each profile has warm Pods of its own: a profile is a pool, made
from the pool that lists it and one row of its table. The label is that pool's dispatch label, so routing, limits, rolls,
autoscaling, the sharing of the fleet and `why` need to know nothing of profiles; a label that no row has is one that no pool offers.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from paddock.kube.objects import Condition, ObjectMeta, OwnerReference
from paddock.runners.api import PROFILE_OF_LABEL, Profile, RunnerPool, RunnerPoolSpec
from paddock.runners.pools.pod_names import LONGEST_POOL_NAME, REVISION

__all__ = ["PROFILES", "ProfilePlan", "Table", "made_from", "plan_profiles", "revision_of", "table"]

PROFILES: Final = "Profiles"
"""The condition that says which pools were made of a pool's profiles, and which rows cannot be used."""
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Table:
    """The pools that a pool's profiles ask for, and a sentence for each row that cannot be used."""

    pools: tuple[RunnerPool, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """What to do about the pools of a table. `change` has each pool as it is, and the spec that it should have; what it is
    told of its RuntimeClass (`REVISION`) is the parent's, in any case.
    """

    create: tuple[RunnerPool, ...] = ()
    change: tuple[tuple[RunnerPool, RunnerPoolSpec], ...] = ()
    delete: tuple[RunnerPool, ...] = ()
    condition: Condition | None = None


def table(pool: RunnerPool) -> Table:
    """The pools of a pool's profiles, as they should be."""
    pools: dict[str, RunnerPool] = {}
    problems: list[str] = []
    for index, profile in enumerate(pool.spec.profiles):
        where, label = f"spec.profiles[{index}].label", profile.label.lower()
        name = f"{pool.metadata.name}-{re.sub(r'[._]', '-', label)}"
        if not _LABEL.fullmatch(label):
            problems.append(
                f"{where} is {profile.label[:80]!r}: it may have letters, digits, dots, dashes and underscores, and begins and "
                "ends with a letter or a digit"
            )
        elif len(name) > LONGEST_POOL_NAME:
            problems.append(
                f"{where} makes the pool {name}, whose name has {len(name)} characters and labels hold "
                f"{LONGEST_POOL_NAME}: give the pool or the profile a shorter one"
            )
        elif label == pool.spec.dispatch_label.lower():
            problems.append(f"{where} is the dispatch label of the pool itself: give the profile another")
        elif name in pools:
            problems.append(
                f"{where} makes the pool {name}, which another profile makes already: give it another label"
            )
        else:
            pools[name] = _made(pool, profile, name)
    return Table(tuple(pools.values()), tuple(problems))


def made_from(pool: RunnerPool, others: Iterable[RunnerPool]) -> list[RunnerPool]:
    """The pools that were made of this very pool's profiles: its uid is their controller's."""
    return [each for each in others if _controller(each) == pool.metadata.uid and pool.metadata.uid]


def plan_profiles(pool: RunnerPool, others: Sequence[RunnerPool]) -> ProfilePlan:
    """What to do, given all other pools of the namespace on a complete read.

    A row that is taken off takes its pool along: that pool drains as every deleted pool does, so its jobs finish. A pool of
    that name that is not made from this table is left alone and named.
    """
    existing = made_from(pool, others)
    living = {each.metadata.name: each for each in existing if each.metadata.deletion_timestamp is None}
    if pool.metadata.deletion_timestamp is not None:
        return ProfilePlan(delete=tuple(living.values()))
    wanted = table(pool)
    taken = {each.metadata.name: each for each in others}
    create: list[RunnerPool] = []
    change: list[tuple[RunnerPool, RunnerPoolSpec]] = []
    problems, waits = list(wanted.problems), list[str]()
    for made in wanted.pools:
        name = made.metadata.name
        if (mine := living.get(name)) is not None:
            spec = made.spec
            if spec.autoscaling.enabled:
                spec = replace(spec, replicas=mine.spec.replicas)  # the autoscaler writes them
            if spec != mine.spec or revision_of(mine) != revision_of(pool):
                change.append((mine, spec))
        elif name not in taken:
            create.append(made)
        elif taken[name] in existing:
            waits.append(name)
        else:
            problems.append(
                f"the pool {name} exists and was not made of a profile of this pool: rename it or the profile"
            )
    names = {made.metadata.name for made in wanted.pools}
    return ProfilePlan(
        create=tuple(create),
        change=tuple(change),
        delete=tuple(each for name, each in living.items() if name not in names),
        condition=_condition(pool, wanted, problems, waits),
    )


def _condition(pool: RunnerPool, wanted: Table, problems: Sequence[str], waits: Sequence[str]) -> Condition | None:
    if not pool.spec.profiles:
        return None
    made = ", ".join(f"{each.spec.dispatch_label} by pool {each.metadata.name}" for each in wanted.pools)
    said = f"jobs are served with {made}" if made else "no profile can be used"
    if problems:
        text = f"{'; '.join(problems)}. Otherwise {said}"
        return Condition(type=PROFILES, status="False", reason="ProfileRefused", message=text)
    if waits:
        text = f"{said}; {', '.join(waits)} is still being deleted, and is made anew after that"
        return Condition(type=PROFILES, status="False", reason="Draining", message=text)
    return Condition(type=PROFILES, status="True", reason="Applied", message=said)


def _made(pool: RunnerPool, profile: Profile, name: str) -> RunnerPool:
    spec, meta = pool.spec, pool.metadata
    return RunnerPool(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels={PROFILE_OF_LABEL: meta.name},
            annotations={REVISION: meta.annotations[REVISION]} if REVISION in meta.annotations else {},
            owner_references=(
                OwnerReference(
                    api_version=RunnerPool.RESOURCE.api_version,
                    kind=RunnerPool.RESOURCE.kind,
                    name=meta.name,
                    uid=meta.uid,
                    controller=True,
                    block_owner_deletion=True,
                ),
            ),
        ),
        spec=replace(
            spec,
            profiles=(),
            dispatch_label=profile.label,
            image=profile.image or spec.image,
            pod_cpu_milli=profile.pod_cpu_milli or spec.pod_cpu_milli,
            pod_memory_mb=profile.pod_memory_mb or spec.pod_memory_mb,
            replicas=profile.replicas,
            autoscaling=profile.autoscaling if profile.autoscaling is not None else spec.autoscaling,
        ),
    )


def revision_of(pool: RunnerPool) -> str | None:
    """What the pool was last told of its RuntimeClass: with another one its Pods are replaced."""
    return pool.metadata.annotations.get(REVISION)


def _controller(pool: RunnerPool) -> str:
    return next((owner.uid for owner in pool.metadata.owner_references if owner.controller), "")
