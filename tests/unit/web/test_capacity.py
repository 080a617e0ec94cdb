"""The card of pools: what each wants and has, and what else it was told to do."""

from paddock.kube.objects import Condition, ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec, RunnerPoolStatus
from paddock.web.parts.capacity import capacity


def _pool(*conditions: Condition) -> RunnerPool:
    return RunnerPool(
        metadata=ObjectMeta(name="macos", namespace="default", uid="pool"),
        spec=RunnerPoolSpec(
            image="macos:1", fleet_selector="macs", dispatch_label="tuist-macos", runner_labels=("macOS",)
        ),
        status=RunnerPoolStatus(replicas=4, idle=1, busy=3, conditions=conditions),
    )


def test_a_pool_says_which_warm_windows_are_open_and_which_profiles_it_has():
    shown = str(
        capacity(
            [
                _pool(
                    Condition("Ready", "True", "Ready", "1 of 4 Pods waits for a job"),
                    Condition("WarmWindows", "True", "Open", "office is open until 18:00"),
                    Condition("Profiles", "False", "Invalid", "spec.profiles[1].label is taken"),
                )
            ]
        )
    )
    assert "1 of 4 Pods waits for a job" in shown
    assert "Warm windows: office is open until 18:00" in shown
    assert "Profiles: spec.profiles[1].label is taken" in shown


def test_a_pool_without_them_says_nothing_of_them():
    shown = str(capacity([_pool()]))
    assert "tuist-macos" in shown
    assert "Warm windows" not in shown
    assert "Profiles" not in shown
