"""The pools that a table of profiles asks for, and what is done about those that are there."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.kube.objects import ObjectMeta
from paddock.runners.api import PROFILE_OF_LABEL, Autoscaling, Profile, RunnerPool, RunnerPoolSpec
from paddock.runners.pools.pod_names import REVISION
from paddock.runners.pools.pod_template import pod_of
from paddock.runners.pools.profiles import made_from, plan_profiles, table
from paddock.runners.pools.settings import PoolSettings
from paddock.runners.webhooks.routing import Chosen, Ignored, choose

LARGE = Profile(
    label="macos-26-xcode-26.1-6vcpu", image="r.example.com/xcode@sha256:26", pod_cpu_milli=6000, pod_memory_mb=14336
)
SMALL = Profile(label="macos-26-3vcpu", pod_cpu_milli=3000, pod_memory_mb=7168, replicas=2)


def pool(*profiles: Profile, name: str = "macs", uid: str = "uid-1", **spec: Any) -> RunnerPool:
    given = {
        "image": "r.example.com/base@sha256:1",
        "fleet_selector": "blue",
        "dispatch_label": "mac",
        "runner_labels": ("self-hosted", "macOS"),
        "pod_cpu_milli": 4000,
        "pod_memory_mb": 8192,
        "profiles": profiles,
    } | spec
    return RunnerPool(metadata=ObjectMeta(name=name, namespace="default", uid=uid), spec=RunnerPoolSpec(**given))


def stored(made: RunnerPool, *, deleting: bool = False, **spec: Any) -> RunnerPool:
    gone = datetime(2026, 1, 1, tzinfo=UTC) if deleting else None
    meta = replace(made.metadata, uid=f"of {made.metadata.name}", deletion_timestamp=gone)
    return replace(made, metadata=meta, spec=replace(made.spec, **spec))


def test_a_profile_is_a_pool_with_its_label_image_and_shape_and_all_else_of_the_pool_that_lists_it() -> None:
    parent = pool(LARGE, SMALL, runner_group="ios", isolation="exclusive", job_source="ScaleSet")
    large, small = table(parent).pools

    assert (large.metadata.name, small.metadata.name) == ("macs-macos-26-xcode-26-1-6vcpu", "macs-macos-26-3vcpu")
    assert (large.spec.dispatch_label, large.spec.image) == (LARGE.label, LARGE.image)
    assert (small.spec.image, small.spec.pod_cpu_milli, small.spec.replicas) == (parent.spec.image, 3000, 2)
    assert (large.spec.runner_group, large.spec.isolation, large.spec.job_source) == ("ios", "exclusive", "ScaleSet")
    assert large.spec.fleet_selector == parent.spec.fleet_selector
    assert large.spec.profiles == ()
    assert large.metadata.labels == {PROFILE_OF_LABEL: "macs"}
    assert made_from(parent, [large, pool(name="other", uid="other")]) == [large]


def test_the_pod_of_a_profile_has_its_image_cpu_and_memory() -> None:
    [made] = table(pool(LARGE)).pools
    pod = pod_of(made, "runner-1", PoolSettings(dispatch_url="http://dispatch"))
    [container] = pod["spec"]["containers"]

    assert container["image"] == LARGE.image
    assert container["resources"]["requests"]["cpu"] == "6000m"
    assert container["resources"]["limits"]["memory"] == "14336Mi"


def test_a_job_goes_to_the_profile_whose_label_it_carries_and_an_unknown_one_is_a_label_that_nobody_offers() -> None:
    parent = pool(LARGE, SMALL)
    pools = [parent, *table(parent).pools]

    chosen = choose(pools, ["self-hosted", "macos-26-xcode-26.1-6vcpu"])
    assert isinstance(chosen, Chosen)
    assert chosen.pool.spec.image == LARGE.image
    unknown = choose(pools, ["self-hosted", "macos-26-xcode-99-6vcpu"])
    assert isinstance(unknown, Ignored)
    assert "macos-26-xcode-99-6vcpu" in unknown.sentence
    plain = choose(pools, ["self-hosted", "mac"])
    assert isinstance(plain, Chosen)
    assert plain.pool.metadata.name == "macs"


def test_a_profile_scales_as_the_pool_does_unless_it_says_otherwise() -> None:
    ours = Autoscaling(enabled=True, max_replicas=9)
    own = Autoscaling(enabled=True, min_warm_pool_floor=0, max_replicas=3)
    as_the_pool, otherwise = table(pool(SMALL, replace(LARGE, autoscaling=own), autoscaling=ours)).pools

    assert as_the_pool.spec.autoscaling == ours
    assert otherwise.spec.autoscaling == own


def test_the_revision_of_the_runtime_class_is_passed_on() -> None:
    parent = pool(SMALL)
    parent = replace(parent, metadata=replace(parent.metadata, annotations={REVISION: "7", "other": "x"}))
    assert table(parent).pools[0].metadata.annotations == {REVISION: "7"}


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (["two words"], "spec.profiles[0].label is 'two words'"),
        (["-dash"], "begins and ends with a letter or a digit"),
        (["x" * 60], "whose name has 65 characters"),
        (["MAC"], "the dispatch label of the pool itself"),
        (
            ["xcode-26.1", "xcode-26-1"],
            "spec.profiles[1].label makes the pool macs-xcode-26-1, which another profile makes",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_the_others_are(labels: list[str], sentence: str) -> None:
    decided = plan_profiles(pool(*(Profile(label=label) for label in labels), SMALL), [])

    assert decided.condition is not None
    assert (decided.condition.status, decided.condition.reason) == ("False", "ProfileRefused")
    assert sentence in decided.condition.message
    assert "macos-26-3vcpu by pool macs-macos-26-3vcpu" in decided.condition.message
    assert [made.metadata.name for made in decided.create][-1] == "macs-macos-26-3vcpu"


def test_what_is_missing_is_made_what_differs_is_changed_and_what_no_row_has_is_deleted() -> None:
    before = table(pool(LARGE, SMALL)).pools
    large, small = (stored(made) for made in before)
    parent = pool(replace(LARGE, image="r.example.com/xcode@sha256:27"), Profile(label="new"))
    decided = plan_profiles(parent, [large, small])

    assert [made.metadata.name for made in decided.create] == ["macs-new"]
    assert [(mine.metadata.name, spec.image) for mine, spec in decided.change] == [
        (large.metadata.name, "r.example.com/xcode@sha256:27")
    ]
    assert decided.delete == (small,)
    assert plan_profiles(pool(LARGE, SMALL), [large, small]).change == ()


def test_replicas_that_the_autoscaler_wrote_are_kept_and_those_that_a_person_wrote_are_not() -> None:
    scaled = pool(LARGE, autoscaling=Autoscaling(enabled=True, max_replicas=9))
    fixed = pool(LARGE)

    assert plan_profiles(scaled, [stored(table(scaled).pools[0], replicas=7)]).change == ()
    [(_, spec)] = plan_profiles(fixed, [stored(table(fixed).pools[0], replicas=7)]).change
    assert spec.replicas == 0


def test_a_pool_of_that_name_that_is_another_s_is_left_alone_and_named() -> None:
    parent = pool(SMALL)
    foreign = pool(name="macs-macos-26-3vcpu", uid="foreign")
    heir = stored(table(pool(SMALL, uid="a pool of the same name, deleted since")).pools[0])
    for other in (foreign, heir):
        decided = plan_profiles(parent, [other])
        assert (decided.create, decided.change, decided.delete) == ((), (), ())
        assert decided.condition is not None
        assert "exists and was not made of a profile of this pool" in decided.condition.message


def test_a_pool_that_is_still_being_deleted_is_waited_for() -> None:
    parent = pool(SMALL)
    decided = plan_profiles(parent, [stored(table(parent).pools[0], deleting=True)])

    assert (decided.create, decided.change, decided.delete) == ((), (), ())
    assert decided.condition is not None
    assert decided.condition.reason == "Draining"


def test_the_pools_of_a_deleted_pool_go_with_it_and_nothing_is_said_without_a_table() -> None:
    parent = pool(SMALL)
    child = stored(table(parent).pools[0])

    assert plan_profiles(stored(parent, deleting=True), [child]).delete == ()
    ending = replace(parent, metadata=replace(parent.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    assert plan_profiles(ending, [child]).delete == (child,)
    assert plan_profiles(pool(), [child]).condition is None
    assert plan_profiles(pool(), [child]).delete == (child,)
