"""Profiles in a cluster: pools come, follow their table and go; wherever the operator dies, the table ends as written."""

import pytest
from simulation.branches import interrupted_calls
from simulation.runners.scaling.rig import ScalingWorld

from paddock.kube.builtin import Pod
from paddock.kube.conditions import get_condition
from paddock.kube.objects import Condition
from paddock.runners.api import POOL_LABEL, Profile, RunnerPool
from paddock.runners.pools.pod_names import REVISION
from paddock.runners.pools.profiles import PROFILES
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

XCODE = Profile(label="xcode-26.1", image="xcode@sha256:1", pod_cpu_milli=6000, replicas=1)
SMALL = Profile(label="small", pod_cpu_milli=3000, replicas=1)


def _names(fleet: ScalingWorld) -> list[str]:
    return sorted(pool.metadata.name for pool in fleet.store.present(RunnerPool))


def _said(fleet: ScalingWorld) -> Condition | None:
    return get_condition(fleet.seen("macs").status.conditions, PROFILES)


def _images(fleet: ScalingWorld, pool: str) -> set[str]:
    pods = [pod for pod in fleet.store.present(Pod) if pod.metadata.labels.get(POOL_LABEL) == pool]
    return {container.image for pod in pods for container in pod.spec.containers}


@simulated(seeds=1)
async def test_a_profile_has_pods_of_its_image_follows_the_table_and_goes_with_its_row(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(4)
    await fleet.pool("macs", enabled=False, profiles=(XCODE, SMALL))
    await fleet.until("pools", lambda: _names(fleet) == ["macs", "macs-small", "macs-xcode-26-1"])
    await fleet.until("Pods", lambda: _images(fleet, "macs-xcode-26-1") == {"xcode@sha256:1"})
    await fleet.until("it is said", lambda: _said(fleet) is not None)
    said = _said(fleet)
    assert said is not None
    assert (said.status, said.reason) == ("True", "Applied")

    rows = [{"label": "xcode-26.1", "image": "xcode@sha256:2", "replicas": 1}]
    await fleet.api.merge_patch(RunnerPool, "macs", {"spec": {"profiles": rows}}, "default")

    await fleet.until("one row", lambda: _names(fleet) == ["macs", "macs-xcode-26-1"])
    await fleet.until("rolled", lambda: _images(fleet, "macs-xcode-26-1") == {"xcode@sha256:2"}, within=400)
    assert fleet.seen("macs-xcode-26-1").spec.pod_cpu_milli == fleet.seen("macs").spec.pod_cpu_milli

    await fleet.api.merge_patch(RunnerPool, "macs", {"spec": {"profiles": None}}, "default")
    await fleet.until("none", lambda: _names(fleet) == ["macs"] and _said(fleet) is None)


@simulated(seeds=1)
async def test_a_change_of_a_profile_s_pool_by_hand_is_undone_and_a_deleted_one_is_made_again(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(4)
    await fleet.pool("macs", enabled=False, profiles=(SMALL,))
    await fleet.until("pool", lambda: _names(fleet) == ["macs", "macs-small"])

    await fleet.api.merge_patch(RunnerPool, "macs-small", {"spec": {"image": "mine"}}, "default")
    await fleet.until("undone", lambda: fleet.seen("macs-small").spec.image == "image:1")
    first = fleet.seen("macs-small").metadata.uid
    await fleet.api.delete(RunnerPool, "macs-small", "default")
    await fleet.until("made again", lambda: fleet.seen("macs-small").metadata.uid != first, within=200)


@simulated(seeds=1)
async def test_the_pools_of_profiles_follow_the_revision_of_the_runtime_class_so_that_their_pods_roll(
    world: World,
) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(4)
    await fleet.pool("macs", enabled=False, profiles=(SMALL,))
    await fleet.until("pool", lambda: _names(fleet) == ["macs", "macs-small"])
    for revision in ("7", "8", None):
        patch = {"metadata": {"annotations": {REVISION: revision}}}
        await fleet.api.merge_patch(RunnerPool, "macs", patch, "default")
        await fleet.until(
            "followed",
            lambda said=revision: fleet.seen("macs-small").metadata.annotations.get(REVISION) == said,
            within=200,
        )


@simulated(seeds=1)
async def test_the_pools_of_a_deleted_pool_go_with_it(world: World) -> None:
    fleet = ScalingWorld(world)
    await fleet.nodes(4)
    await fleet.pool("macs", enabled=False, profiles=(SMALL, XCODE))
    await fleet.until("pools", lambda: len(_names(fleet)) == 3)

    await fleet.api.delete(RunnerPool, "macs", "default")
    await fleet.until("all gone", lambda: not _names(fleet), within=200)


async def _come_and_go(world: World) -> list[str]:
    fleet = ScalingWorld(world)
    await fleet.nodes(2)
    await fleet.pool("macs", enabled=False, profiles=(SMALL,))
    await fleet.until("pool", lambda: _names(fleet) == ["macs", "macs-small"])
    rows = [{"label": "small", "podCPUMilli": 2000}, {"label": "large", "podCPUMilli": 8000}]
    await fleet.api.merge_patch(RunnerPool, "macs", {"spec": {"profiles": rows}}, "default")
    await fleet.until("followed", lambda: fleet.seen("macs-large").spec.pod_cpu_milli == 8000, within=120)
    await fleet.until("changed", lambda: fleet.seen("macs-small").spec.pod_cpu_milli == 2000, within=120)
    await fleet.api.merge_patch(RunnerPool, "macs", {"spec": {"profiles": rows[1:]}}, "default")
    await fleet.until("gone", lambda: _names(fleet) == ["macs", "macs-large"], within=200)
    await fleet.until("said", lambda: (said := _said(fleet)) is not None and "small" not in said.message, within=120)
    return _names(fleet)


@pytest.mark.slow
def test_wherever_a_write_of_the_operator_is_interrupted_the_table_ends_as_written() -> None:
    async def scenario(world: World) -> None:
        assert await _come_and_go(world) == ["macs", "macs-large"]

    writes = interrupted_calls(
        scenario,
        only=lambda call: call.name.split()[0] in ("POST", "PATCH", "DELETE") and "/runnerpools" in call.path,
    )
    assert len(writes) >= 12
