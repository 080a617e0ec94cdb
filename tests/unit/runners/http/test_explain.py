"""Why a job waits, why a Pod exists, why a pool has its Pods: what, why, since when and what next, in every case."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.base.explanation import Evidence, Explanation
from paddock.kube.builtin import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from paddock.kube.objects import Condition, ObjectMeta
from paddock.runners.api import (
    DRAIN_ELIGIBLE_LABEL,
    OPERATOR_DRAIN_LABEL,
    OWNER_LABEL,
    POLLER,
    POOL_LABEL,
    RUNNER,
    RunnerPool,
    RunnerPoolSpec,
    RunnerPoolStatus,
)
from paddock.runners.api.settings import HealingSettings
from paddock.runners.http.explain import why_job, why_pod, why_pool
from paddock.runners.http.readonly import JobPage, PodPage
from paddock.runners.ledger import Completion, Fence, HeldPod, Job, PoolSignals, Session, Transition
from paddock.runners.ledger.views import JobSourceView, Reason, WaitingJob
from paddock.runners.pools.pod_names import DRAIN_SINCE

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HEALING = HealingSettings()
JOB, NAME, UID, WHAT = 7, "mac-runner-1", "uid-1", "acme/app · test"


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def a_job(status: str = "queued", **more: Any) -> Job:
    given: dict[str, Any] = {
        "job_id": JOB, "account_id": 1, "pool": "mac", "platform": "macos", "vcpus": 6, "memory_mb": 14_336,
        "status": status, "conclusion": None, "repository": "acme/app", "workflow_run_id": 9, "workflow_name": "CI",
        "run_attempt": 1, "job_name": "test", "head_branch": "main", "head_sha": "abc", "label": "macos",
        "enqueued_at": ago(seconds=40), "claimed_at": None, "started_at": None, "completed_at": None,
        "generation": None, "pod_uid": None, "pod_name": None, "runner_name": None, "mint_failures": 0,
        "not_before": None, "changed_at": NOW, "changed_by": "webhook", "changed_why": "announced",
    }  # fmt: skip
    return Job(**(given | more))


def a_session(**more: Any) -> Session:
    given: dict[str, Any] = {
        "pod_uid": UID, "pod_name": NAME, "generation": 3, "account_id": 1, "job_id": JOB, "executed_job_id": None,
        "pool": "mac", "platform": "macos", "vcpus": 6, "memory_mb": 14_336, "runner_name": "mac-runner-1-aa",
        "repository": "acme/app", "workflow_name": "CI", "started_at": ago(minutes=4), "ended_at": None,
        "end_reason": None, "job_started_at": None, "job_ended_at": None,
    }  # fmt: skip
    return Session(**(given | more))


def a_claim(**more: Any) -> HeldPod:
    given: dict[str, Any] = {
        "pod_uid": UID, "pod_name": NAME, "generation": 3, "state": "claimed", "job_id": JOB, "account_id": 1,
        "pool": "mac", "platform": "macos", "vcpus": 6, "memory_mb": 14_336, "runner_name": None,
        "dispatcher_id": 1, "claimed_at": ago(seconds=3), "executing_since": None, "missing_since": None,
        "by": "dispatch", "why": "oldest of its account",
    }  # fmt: skip
    return HeldPod(**(given | more))


def a_line(became: str, why: str, at: datetime, *, subject: str = "claim", was: str = "") -> Transition:
    return Transition(
        transition_id=1, at=at, subject=subject, job_id=JOB, account_id=1, pod_uid=UID, generation=3, was=was,
        became=became, by="dispatch", why=why,
    )  # fmt: skip


def a_waiting(reason: Reason, why: str, **more: Any) -> WaitingJob:
    given: dict[str, Any] = {
        "job_id": JOB, "account_id": 1, "login": "acme", "repository": "acme/app", "workflow_name": "CI",
        "job_name": "test", "pool": "mac", "platform": "macos", "label": "macos", "enqueued_at": ago(seconds=40),
        "waiting_seconds": 40.0, "reason": reason, "why": why,
    }  # fmt: skip
    return WaitingJob(**(given | more))


def a_completion(conclusion: str = "success", runner: str | None = "mac-runner-1-aa", **more: Any) -> Completion:
    at = more.pop("at", ago(minutes=5))
    return Completion(JOB, 1, conclusion, runner, at, at)


def a_pool(*, idle: int = 0, starting: int = 0, busy: int = 0, conditions: tuple[Condition, ...] = ()) -> RunnerPool:
    return RunnerPool(
        metadata=ObjectMeta(name="mac", namespace="default"),
        spec=RunnerPoolSpec(
            image="macos:15",
            job_source="Webhook",
            fleet_selector="m4",
            dispatch_label="macos",
            runner_labels=("self-hosted",),
            replicas=3,
        ),
        status=RunnerPoolStatus(
            replicas=idle + starting + busy, idle=idle, starting=starting, busy=busy, conditions=conditions
        ),
    )


def a_pod(
    *,
    phase: str = "Running",
    node: str = "mac-0",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleted: datetime | None = None,
    os: str = "darwin",
    runner: ContainerState | None = None,
    poller: ContainerState | None = None,
    conditions: tuple[PodCondition, ...] = (PodCondition(type="Ready", status="True"),),
) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=NAME,
            namespace="default",
            uid=UID,
            creation_timestamp=ago(hours=3),
            deletion_timestamp=deleted,
            labels={POOL_LABEL: "mac", **(labels or {})},
            annotations=annotations or {},
        ),
        spec=PodSpec(
            node_name=node,
            node_selector={"kubernetes.io/os": os},
            containers=(Container(name=RUNNER, image="macos:15"),),
        ),
        status=PodStatus(
            phase=phase,
            conditions=conditions,
            container_statuses=(ContainerStatus(name=RUNNER, state=runner),) if runner else (),
            init_container_statuses=(ContainerStatus(name=POLLER, state=poller),) if poller else (),
        ),
    )


def job_page(job: Job | None = None, **more: Any) -> JobPage:
    given: dict[str, Any] = {"waiting": None, "completion": None, "sessions": [], "transitions": []}
    return JobPage(job=job, **(given | more))


def pod_page(**more: Any) -> PodPage:
    given: dict[str, Any] = {"claim": None, "fence": None, "session": None, "transitions": []}
    return PodPage(uid=UID, name=NAME, **(given | more))


def of_job(page: JobPage, pool: RunnerPool | None = None, pod: Pod | None = None) -> Explanation:
    return why_job(JOB, page, pool, pod, HEALING, NOW)


def of_pod(pod: Pod | None, page: PodPage | None = None, name: str = NAME) -> Explanation:
    return why_pod(name, pod, page, NOW)


@pytest.mark.parametrize(("audience", "refused"), [("dispatch", False), ("somebody-else", True), ("", False)])
def test_a_pod_whose_token_is_for_somebody_else_is_said_to_be_refused_with_the_remedy(
    audience: str, refused: bool
) -> None:
    source = {"serviceAccountToken": {"audience": audience, "path": "token"}}
    pod = a_pod()
    pod = replace(pod, spec=replace(pod.spec, volumes=({"name": "t", "projected": {"sources": [source]}},)))
    said = why_pod(NAME, pod, None, NOW, audience="dispatch")
    assert ("its token is for somebody-else, and dispatch takes those for dispatch alone" in said.sentence) is refused
    assert (f"kubectl delete pod {NAME}" in said.commands) is refused
    assert not refused or (not said.healthy and "let the operator make the Pods" in said.next)


def facts(said: Explanation, ledger: str) -> list[str]:
    return [evidence.fact for evidence in said.evidence if evidence.ledger == ledger]


# Jobs that are over


def test_a_job_that_is_over_says_how_it_ended_when_where_and_how_long_it_waited() -> None:
    job = a_job("completed", enqueued_at=ago(minutes=10), started_at=ago(minutes=9))
    said = of_job(job_page(job, completion=a_completion(), sessions=[a_session(executed_job_id=JOB)]))
    assert said.about == "job 7"
    assert said.sentence == "over: success 5 min ago after 4 min on mac-runner-1-aa, having waited 60 s"
    assert (said.next, said.commands, said.healthy) == ("", (), True)
    assert facts(said, "GitHub") == ["said success 5 min ago"]


def test_a_job_that_was_cancelled_before_any_runner_took_it_ran_nowhere() -> None:
    """It was handed over, so it has a start; the end names nobody, and "on None" would be a lie."""
    job = a_job("cancelled", enqueued_at=ago(minutes=10), started_at=ago(minutes=9))
    said = of_job(job_page(job, completion=a_completion("cancelled", None)))
    assert said.sentence == "over: cancelled 5 min ago after 4 min, and no runner took it, having waited 60 s"


def test_a_job_that_ended_while_it_waited_says_only_how_and_when() -> None:
    said = of_job(job_page(a_job("cancelled"), completion=a_completion("cancelled", None)))
    assert said.sentence == "over: cancelled 5 min ago"


def test_a_job_of_which_only_the_end_was_heard_is_over() -> None:
    assert of_job(job_page(None, completion=a_completion("failure"))).sentence == "over: failure 5 min ago"


def test_a_job_for_which_no_pool_was_chosen_is_a_persons_business() -> None:
    said = of_job(job_page(None, transitions=[a_line("queued", "heard", ago(minutes=1), subject="job")]))
    assert said.sentence == "GitHub spoke of it, and no pool of ours was chosen for it"
    assert (said.healthy, said.next) == (False, "")
    assert facts(said, "GitHub") == [], "nothing is claimed about a job that has no row"
    assert facts(said, "database") == ["60 s ago: job new → queued (dispatch: heard)"]


# Jobs that wait


def waits(reason: Reason, why: str = "because", pool: RunnerPool | None = None, **more: Any) -> Explanation:
    return of_job(job_page(a_job(), waiting=a_waiting(reason, why, **more)), pool)


def test_a_waiting_job_says_how_long_it_has_waited_and_why() -> None:
    said = waits("in_line", "Next in line for pool mac, as soon as a Pod is free.", a_pool(idle=1), position=1)
    assert said.sentence == f"{WHAT} has waited 40 s: Next in line for pool mac, as soon as a Pod is free."
    assert said.next == "1 Pods of its pool are warm; it is handed to one within a second or two."
    assert said.commands == ("paddock why pool mac", "paddock get jobs")
    assert facts(said, "cluster") == ["pool mac: 1 warm, 0 busy, 0 starting"]
    assert facts(said, "GitHub") == ["has not said that a runner runs it"]


def test_a_job_that_the_line_does_not_show_any_more_is_about_to_be_taken() -> None:
    said = of_job(job_page(a_job()), a_pool(idle=2))
    assert said.sentence == f"{WHAT} has waited 40 s: its turn has just come"
    assert said.next == "2 Pods of its pool are warm; it is handed to one within a second or two."


def test_a_job_without_a_name_is_called_by_its_workflow_and_without_that_by_nothing() -> None:
    assert of_job(job_page(a_job(job_name=""))).sentence.startswith("acme/app · CI has waited")
    assert of_job(job_page(a_job(job_name="", workflow_name=""))).sentence.startswith("acme/app · ? has waited")


@pytest.mark.parametrize(
    ("waited", "healthy", "runbook"),
    [
        ({"seconds": 65}, True, ""),
        ({"minutes": 9, "seconds": 59}, True, ""),
        ({"minutes": 10}, False, "PaddockJobsWaitTooLong"),
    ],
)
def test_a_job_that_waits_for_its_turn_is_well_and_after_ten_minutes_there_is_a_page_to_read(
    waited: dict[str, float], healthy: bool, runbook: str
) -> None:
    said = of_job(job_page(a_job(enqueued_at=ago(**waited))))
    assert (said.healthy, said.runbook) == (healthy, runbook)


@pytest.mark.parametrize(
    ("reason", "more", "pool", "following"),
    [
        ("resting", {"until": NOW + timedelta(seconds=90)}, a_pool(idle=3), "It is tried again in 90 s."),
        ("account_resting", {"until": NOW + timedelta(minutes=5)}, None, "It is tried again in 5 min."),
        (
            "resting",
            {"until": NOW},
            a_pool(idle=3),
            "3 Pods of its pool are warm; it is handed to one within a second or two.",
        ),
        (
            "limit_reached",
            {},
            a_pool(idle=3),
            "It goes on when a job of its account ends, or when its limit is raised.",
        ),
        ("larger_than_limit", {}, a_pool(idle=3), "It goes on only when its account's limit is raised."),
        ("limit_missing", {}, a_pool(idle=3), "It goes on only when its account's limit is raised."),
        (
            "behind_its_account",
            {},
            a_pool(idle=3),
            "It goes on when the earlier jobs of its account have ended.",
        ),
        (
            "too_old",
            {},
            a_pool(idle=3),
            "GitHub is asked about it: it gets a place in the line again, or its end.",
        ),
        ("in_line", {"position": 1}, None, "Its pool does not exist (any more): no Pod will ever take it."),
        (
            "in_line",
            {"position": 3},
            a_pool(idle=3),
            "3 Pods of its pool are warm; it is handed to one within a second or two.",
        ),
        (
            "in_line",
            {"position": 4},
            a_pool(idle=3),
            "3 Pods of its pool are warm and go to the jobs before it; then it is its turn.",
        ),
        (
            "far_back",
            {},
            a_pool(idle=3),
            "3 Pods of its pool are warm and go to the jobs before it; then it is its turn.",
        ),
        (
            "in_line",
            {"position": 1},
            a_pool(starting=2),
            "2 Pods of its pool are starting; the first that is up takes it, if it is first in line.",
        ),
        (
            "in_line",
            {"position": 1},
            a_pool(busy=2),
            "No Pod of its pool is warm or starting; the first that ends its job makes room for another.",
        ),
    ],
)
def test_what_happens_next_to_a_waiting_job_is_what_will_happen(
    reason: Reason, more: dict[str, Any], pool: RunnerPool | None, following: str
) -> None:
    """A job that no warm Pod may take is never told that it is handed to one within a second."""
    assert waits(reason, pool=pool, **more).next == following


# Jobs that are being served, or run


def test_a_claimed_job_says_for_which_pod_since_when_and_what_if_the_process_dies() -> None:
    said = of_job(job_page(a_job("claimed", claimed_at=ago(seconds=2), pod_name=NAME, pod_uid=UID)), a_pool(), a_pod())
    assert said.sentence == (f"{WHAT} was claimed for Pod {NAME} 2 s ago: its runner is being registered at GitHub")
    assert said.next == "It runs within seconds; if the process dies now, it waits again after 30 s."
    assert facts(said, "cluster") == [
        f"Pod {NAME}: Running on mac-0 for 3 h 00 min",
        "pool mac: 0 warm, 0 busy, 0 starting",
    ]


def test_a_job_that_github_says_runs_is_running_since_then_and_is_left_alone() -> None:
    job = a_job("running", started_at=ago(minutes=4), pod_name=NAME)
    heard = a_session(executed_job_id=JOB, job_started_at=ago(minutes=3))
    said = of_job(job_page(job, sessions=[heard]))
    assert said.sentence == f"{WHAT} is running on Pod {NAME} for 3 min"
    assert said.next == "GitHub says when it is over; until then Paddock leaves its Pod alone."
    assert said.commands == (f"paddock why pod {NAME}",)
    assert facts(said, "GitHub") == ["said in progress 3 min ago, on runner mac-runner-1-aa"]


def test_where_github_gave_no_moment_the_handing_over_is_the_beginning() -> None:
    job = a_job("running", started_at=ago(minutes=4), pod_name=NAME)
    said = of_job(job_page(job, sessions=[a_session(executed_job_id=JOB)]))
    assert said.sentence == f"{WHAT} is running on Pod {NAME} for 4 min"
    assert facts(said, "GitHub") == ["has not said that a runner runs it"]


@pytest.mark.parametrize(
    "session",
    [
        None,
        a_session(),
        a_session(executed_job_id=JOB, ended_at=ago(minutes=1)),  # its runner has ended
    ],
    ids=["no session", "nothing heard", "ended"],
)
def test_a_job_that_was_handed_over_and_is_not_known_to_run_says_so(session: Session | None) -> None:
    job = a_job("running", started_at=ago(seconds=80), pod_name=NAME)
    said = of_job(job_page(job, sessions=[session] if session else []))
    assert said.sentence == f"{WHAT} was handed to Pod {NAME} 80 s ago, and GitHub has not said that it runs"
    assert said.next == "After 90 s GitHub is asked; if no runner runs it, it waits again in its old place."
    assert (said.healthy, said.commands) == (True, (f"paddock why pod {NAME}",))


def test_a_job_whose_runner_was_given_another_says_which_and_does_not_deny_it() -> None:
    job = a_job("running", started_at=ago(seconds=80), pod_name=NAME)
    said = of_job(job_page(job, sessions=[a_session(executed_job_id=99, job_started_at=ago(minutes=1))]))
    assert said.sentence == f"{WHAT} was handed to Pod {NAME} 80 s ago, and GitHub gave its runner job 99 instead"


def test_a_job_that_the_runner_of_another_pod_has_runs_there() -> None:
    job = a_job("running", started_at=ago(minutes=4), pod_name=NAME)
    own = a_session(executed_job_id=99, job_started_at=ago(minutes=3))
    other = replace(a_session(executed_job_id=JOB, job_started_at=ago(seconds=10)), pod_name="mac-runner-other")
    said = of_job(job_page(job, sessions=[own, other]))
    assert said.sentence == f"{WHAT} is running on Pod mac-runner-other for 10 s"


def test_after_the_deadline_github_is_asked_every_half_minute_and_the_job_is_not_well() -> None:
    job = a_job("running", started_at=ago(minutes=5, seconds=1), pod_name=NAME)
    said = of_job(job_page(job, sessions=[a_session()]))
    assert said.next == "GitHub is asked every half minute; if no runner runs it, it waits again in its old place."
    assert not said.healthy


def test_the_last_four_lines_of_the_log_are_evidence_oldest_first() -> None:
    lines = [a_line(f"state {n}", f"reason {n}", ago(seconds=60 - n), subject="job", was="before") for n in range(6)]
    said = of_job(job_page(a_job(), transitions=lines))
    assert facts(said, "database") == [
        f"{60 - n} s ago: job before → state {n} (dispatch: reason {n})" for n in range(2, 6)
    ]


# Pods that are there


def test_an_idle_pod_waits_for_a_job_of_its_pool() -> None:
    said = of_pod(a_pod(), pod_page())
    assert said.about == f"pod {NAME}"
    assert said.sentence == "idle in pool mac for 3 h 00 min: waits for a job"
    assert said.next == "It takes the next job of its pool, unless the pool lets it go first."
    assert said.evidence == (
        Evidence("cluster", f"Pod {NAME}: Running on mac-0 for 3 h 00 min"),
        Evidence("database", "no claim, no session"),
    )
    assert facts(of_pod(a_pod(), None), "database") == ["no claim and no session ever named it"]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(phase="Pending"),
        a_pod(phase="Pending", os="linux"),
        a_pod(phase="Pending", os="linux", poller=ContainerState()),
    ],
    ids=["a VM that boots", "a Linux Pod that pulls", "a poller that waits"],
)
def test_a_pod_that_is_not_up_yet_is_starting_and_not_idle(pod: Pod) -> None:
    said = of_pod(pod, pod_page())
    assert said.sentence == "starting in pool mac on mac-0 for 3 h 00 min: it does not wait for a job yet"
    assert said.next == "Its pool replaces it if it does not start in time."


def test_a_linux_pod_is_idle_while_it_is_pending_with_its_poller_running() -> None:
    pod = a_pod(phase="Pending", os="linux", poller=ContainerState(running=ContainerStateRunning()))
    assert of_pod(pod).sentence == "idle in pool mac for 3 h 00 min: waits for a job"


def test_a_pod_without_a_node_quotes_the_scheduler() -> None:
    said_by = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes: no memory")
    said = of_pod(a_pod(phase="Pending", node="", conditions=(said_by,)))
    assert said.sentence == "waits for a Node for 3 h 00 min: 0/3 nodes: no memory"
    assert (said.healthy, said.next) == (False, "Its pool replaces it if it finds none in time.")
    assert of_pod(a_pod(phase="Pending", node="")).sentence == ("waits for a Node for 3 h 00 min: none was chosen yet")


def test_a_claimed_pod_says_for_which_job_since_when_and_why_that_one() -> None:
    said = of_pod(a_pod(labels={OWNER_LABEL: "acme"}), pod_page(claim=a_claim()))
    assert said.sentence == "claimed for job 7 for 3 s: oldest of its account"
    assert said.next == "It is handed its runner within seconds, or the claim is given back."
    assert said.commands == ("paddock why job 7",)
    assert facts(said, "database") == ["claim claimed for 3 s, no session"]


def test_a_pod_at_a_job_says_whose_and_that_it_is_not_touched() -> None:
    session = a_session(executed_job_id=9, job_started_at=ago(minutes=3))
    said = of_pod(a_pod(labels={OWNER_LABEL: "acme"}), pod_page(claim=a_claim(state="running"), session=session))
    assert said.sentence == "runs job 9 for acme for 4 min; it is not touched"
    assert said.commands == ("paddock why job 9", f"paddock drain {NAME}")
    assert facts(said, "database") == ["claim running for 3 s, session open for 4 min"]


def test_a_pod_that_was_handed_a_job_that_nobody_heard_of_since_says_that() -> None:
    said = of_pod(a_pod(), pod_page(session=a_session()))
    assert said.sentence == "was handed job 7 for acme for 4 min; it is not touched"
    assert said.commands[0] == "paddock why job 7"


def test_a_fenced_pod_is_being_retired_for_the_reason_of_the_fence() -> None:
    fence = Fence(UID, NAME, 4, ago(seconds=9), "operator", "scaled down")
    said = of_pod(a_pod(), pod_page(fence=fence))
    assert said.sentence == "being retired for 9 s: scaled down"
    assert said.next == "It wins no job any more, and is deleted."


def test_a_vm_that_runs_and_does_not_ask_for_a_job_says_what_its_agent_says() -> None:
    why = PodCondition(type="Ready", status="False", reason="DispatchUnreachable", message="dispatch has not answered")
    said = of_pod(a_pod(conditions=(why,)), pod_page())
    assert said.sentence == "starting in pool mac on mac-0 for 3 h 00 min: dispatch has not answered"


@pytest.mark.parametrize("label", [OPERATOR_DRAIN_LABEL, DRAIN_ELIGIBLE_LABEL])
def test_a_draining_pod_is_given_no_job_and_replaced(label: str) -> None:
    said = of_pod(a_pod(labels={label: "true"}), pod_page())
    assert said.sentence == "draining: it is given no job"
    assert said.next == "It is told to exit when it next asks, and its pool replaces it."
    marked = a_pod(labels={label: "true"}, annotations={DRAIN_SINCE: ago(seconds=50).isoformat()})
    assert of_pod(marked, pod_page()).sentence == "draining for 50 s: it is given no job"
    assert of_pod(a_pod(labels={label: "false"}), pod_page()).sentence.startswith("idle in pool mac")


def test_a_stamp_without_claim_and_session_is_a_suspect_that_is_fenced_before_it_is_reaped() -> None:
    said = of_pod(a_pod(labels={OWNER_LABEL: "acme"}), pod_page(session=a_session(ended_at=ago(minutes=1))))
    assert said.sentence == (
        "assigned to acme, and the ledger holds neither claim nor session for it; it is there for 3 h 00 min"
    )
    assert said.next == "Reaped once that is proven: it is fenced first, so that it can win no job meanwhile."
    assert (said.healthy, said.commands) == (False, ("paddock leaks",))


def test_a_pod_that_is_being_deleted_says_since_when() -> None:
    said = of_pod(a_pod(deleted=ago(seconds=20)), pod_page(session=a_session()))
    assert said.sentence == "being deleted for 20 s"
    assert said.next == "It is gone when its Node has ended it; if that Node is gone, healing lets it go."


@pytest.mark.parametrize(("phase", "code", "healthy"), [("Succeeded", 0, True), ("Failed", 137, False)])
def test_a_pod_that_ended_says_when_and_how(phase: str, code: int, healthy: bool) -> None:
    over = ContainerStateTerminated(exit_code=code, message="no space left" if code else "", finished_at=ago(minutes=3))
    said = of_pod(a_pod(phase=phase, runner=ContainerState(terminated=over)), pod_page(session=a_session()))
    shown = f"exit code {code}" + (" (no space left)" if code else "")
    assert said.sentence == f"ended 3 min ago ({phase}, {shown})"
    assert said.next == "Its stop is reported and its pool deletes it."
    assert said.healthy is healthy
    assert facts(said, "cluster") == [f"Pod {NAME}: {phase} on mac-0 for 3 h 00 min, {shown}"]


@pytest.mark.parametrize(
    ("pod", "page", "begins"),
    [
        (a_pod(deleted=NOW, phase="Succeeded"), pod_page(), "being deleted"),
        (a_pod(phase="Failed"), pod_page(fence=Fence(UID, NAME, 4, NOW, "operator", "x")), "ended"),
        (a_pod(), pod_page(fence=Fence(UID, NAME, 4, NOW, "operator", "x"), session=a_session()), "being retired"),
        (a_pod(), pod_page(session=a_session(), claim=a_claim()), "was handed"),
        (a_pod(labels={OPERATOR_DRAIN_LABEL: "true"}), pod_page(claim=a_claim()), "claimed"),
        (a_pod(labels={OPERATOR_DRAIN_LABEL: "true", OWNER_LABEL: "acme"}), pod_page(), "draining"),
        (a_pod(labels={OWNER_LABEL: "acme"}, node=""), pod_page(), "assigned"),
    ],
)
def test_of_several_truths_the_one_that_decides_is_told(pod: Pod, page: PodPage, begins: str) -> None:
    assert of_pod(pod, page).sentence.startswith(begins)


# Pods that are gone


def test_a_pod_that_ran_a_job_and_is_gone_says_which_when_and_how_it_ended() -> None:
    session = a_session(executed_job_id=9, ended_at=ago(hours=2), end_reason="exit code 0")
    said = of_pod(None, pod_page(session=session))
    assert said.sentence == "gone from the cluster: it ran job 9 of acme/app; it ended 2 h 00 min ago (exit code 0)"
    assert (said.commands, said.next, said.healthy) == (("paddock why job 9",), "", True)
    assert facts(said, "database") == ["no claim, session ended for 2 h 00 min"]


def test_a_pod_that_was_never_given_the_job_it_was_minted_for_says_that() -> None:
    session = a_session(ended_at=ago(hours=2), end_reason="idle for too long")
    said = of_pod(None, pod_page(session=session))
    assert said.sentence == (
        "gone from the cluster: it ended 2 h 00 min ago (idle for too long) and was never given a job"
    )
    assert said.commands == ("paddock why job 7",), "the job that it was minted for"


def test_a_pod_that_was_retired_without_a_job_says_when_and_why() -> None:
    lines = [
        a_line("fenced", "the pool has one too many", ago(minutes=20), subject="pod"),
        a_line("lifted", "the Pod is gone", ago(minutes=19), subject="pod"),
    ]
    said = of_pod(None, pod_page(transitions=lines))
    assert said.sentence == (
        "gone from the cluster: retired 20 min ago without ever having had a job: the pool has one too many"
    )
    assert said.commands == ()


def test_a_pod_that_gave_its_only_claim_back_says_what_was_last_heard_of_it() -> None:
    lines = [a_line("claimed", "its turn", ago(minutes=31)), a_line("released", "mint failed: 422", ago(minutes=30))]
    said = of_pod(None, pod_page(transitions=lines))
    assert said.sentence == (
        "gone from the cluster: it never had a runner, and was last heard of 30 min ago: mint failed: 422"
    )


@pytest.mark.parametrize(
    ("page", "held"),
    [
        (pod_page(claim=a_claim()), "its claim of job 7 for 3 s"),
        (pod_page(claim=a_claim(job_id=None, state="running")), "its claim for 3 s"),
        (pod_page(session=a_session()), "its session for 4 min"),
        (pod_page(claim=a_claim(), session=a_session()), "its claim of job 7 and its session for 3 s"),
    ],
)
def test_a_pod_that_is_gone_while_the_ledger_holds_something_is_not_well(page: PodPage, held: str) -> None:
    said = of_pod(None, page)
    assert said.sentence == f"gone from the cluster, but the ledger still holds {held}"
    assert said.next == "What it held is let go once its absence is confirmed."
    assert not said.healthy


def test_a_pod_is_called_by_the_clusters_name_then_by_the_ledgers_then_as_it_was_asked_for() -> None:
    assert of_pod(a_pod(), None, UID).about == f"pod {NAME}"
    assert of_pod(None, pod_page(), UID).about == f"pod {NAME}"
    assert of_pod(None, replace(pod_page(), name=""), UID).about == f"pod {UID}"
    nobody = of_pod(None, None, "nobody")
    assert (nobody.about, nobody.sentence) == ("pod nobody", "gone from the cluster")
    assert facts(nobody, "database") == ["no claim and no session ever named it"]


# Pools


def ready(status: str = "True", message: str = "3 of 3 Pods are there", **more: Any) -> Condition:
    return Condition(type="Ready", status=status, reason="AllReady", message=message, **more)


def scaled(message: str) -> Condition:
    return Condition(type="Autoscaled", status="True", reason="AsWanted", message=message)


def signals(queued: int = 0, withheld: int = 0, oldest: float = 0.0) -> PoolSignals:
    return PoolSignals("mac", 1, 2, queued, withheld, oldest, 0)


def test_a_pool_says_what_its_controllers_say_with_the_numbers_of_both_ledgers_and_since_when() -> None:
    pool = a_pool(
        idle=2, busy=1, conditions=(ready(last_transition_time=ago(minutes=5)), scaled("1 busy + 1 to stay warm is 2"))
    )
    said = why_pool(pool, NOW, signals(queued=4, withheld=3))
    assert said.about == "pool mac"
    assert said.sentence == "3 of 3 Pods are there"
    assert said.next == "1 busy + 1 to stay warm is 2"
    assert said.evidence == (
        Evidence("cluster", "3 Pods: 2 warm, 1 busy, 0 starting; 3 wanted"),
        Evidence("cluster", "Ready is True (AllReady) for 5 min"),
        Evidence(
            "database", "4 jobs may run now, 3 are over a limit, 0 are of nobody on the allow list, 2 Pods are occupied"
        ),
    )
    assert (said.commands, said.healthy, said.runbook) == (("paddock get pods", "paddock get jobs"), True, "")


def test_a_pool_that_no_controller_looked_at_says_so() -> None:
    said = why_pool(a_pool(), NOW)
    assert said.sentence == "no controller has looked at it yet"
    assert (said.healthy, said.next) == (False, "")
    assert [evidence.ledger for evidence in said.evidence] == ["cluster"], "an unreachable ledger says nothing"
    assert why_pool(a_pool(conditions=(ready(message=""),)), NOW).sentence == "no controller has looked at it yet"


def test_a_pool_whose_jobs_wait_for_its_pods_to_start_says_that_they_will_be_taken() -> None:
    pool = a_pool(starting=2, conditions=(ready("False", "2 Pods are starting"),))
    said = why_pool(pool, NOW, signals(queued=1, oldest=90.0))
    assert said.next == "Warm Pods take the waiting jobs as soon as they are up."
    assert (said.healthy, said.runbook) == (False, "")


@pytest.mark.parametrize(("oldest", "starved"), [(30.0, False), (30.1, True)])
def test_jobs_that_wait_beside_warm_pods_are_a_fault_of_dispatch_and_not_of_the_pool(
    oldest: float, starved: bool
) -> None:
    said = why_pool(a_pool(idle=2, conditions=(ready(),)), NOW, signals(queued=1, oldest=oldest))
    assert said.healthy is not starved
    assert said.runbook == ("PaddockJobsWaitTooLong" if starved else "")


@pytest.mark.parametrize(("status", "reason"), [("True", "Open"), ("False", "WindowRefused")])
def test_a_pool_says_what_is_known_of_its_warm_windows_and_is_not_well_while_one_is_refused(
    status: str, reason: str
) -> None:
    windows = Condition(type="WarmWindows", status=status, reason=reason, message="office is open")
    said = why_pool(a_pool(idle=1, conditions=(ready(), windows)), NOW)

    assert Evidence("cluster", "warm windows: office is open") in said.evidence
    assert said.healthy is (status == "True")


# Every answer


def every_explanation() -> list[Explanation]:
    """One of each kind that speaks of something under way."""
    fence = Fence(UID, NAME, 4, ago(seconds=9), "operator", "scaled down")
    reasons: tuple[Reason, ...] = (
        "too_old", "resting", "repository_resting", "account_resting", "limit_missing", "larger_than_limit",
        "limit_reached", "in_line", "behind_its_account", "far_back",
    )  # fmt: skip
    running = a_job("running", started_at=ago(minutes=4), pod_name=NAME)
    return [
        *(waits(reason, pool=a_pool(idle=1)) for reason in reasons),
        of_job(job_page(a_job("claimed", claimed_at=ago(seconds=2), pod_name=NAME))),
        of_job(job_page(running, sessions=[a_session(executed_job_id=JOB)])),
        of_job(job_page(running)),
        of_pod(a_pod(), pod_page()),
        of_pod(a_pod(phase="Pending"), pod_page()),
        of_pod(a_pod(phase="Pending", node=""), pod_page()),
        of_pod(a_pod(), pod_page(claim=a_claim())),
        of_pod(a_pod(), pod_page(fence=fence)),
        of_pod(a_pod(labels={OWNER_LABEL: "acme"}), pod_page()),
        of_pod(a_pod(deleted=ago(seconds=20)), pod_page()),
        of_pod(a_pod(phase="Succeeded"), pod_page()),
        of_pod(None, pod_page(claim=a_claim())),
    ]


@pytest.mark.parametrize("said", every_explanation(), ids=lambda said: said.sentence)
def test_what_is_under_way_says_since_when_and_what_next_and_on_what_evidence(said: Explanation) -> None:
    assert re.search(r"\d+ (s|min|h|d)\b", said.sentence), "since when"
    assert said.next.endswith("."), "what next"
    assert said.evidence, "who says so"
    for text in (said.sentence, said.next, *(evidence.fact for evidence in said.evidence)):
        assert "None" not in text
        assert "  " not in text


def test_what_is_said_of_a_scale_set_that_is_listened_to_is_evidence() -> None:
    source = JobSourceView(
        pool="mac", login="acme", repository="", state="Listening", sentence="the pool changed its label: …",
        since=NOW, heard_at=NOW, assigned=1, advertised=0,
    )  # fmt: skip
    said = why_pool(a_pool(conditions=(ready(),)), NOW, signals(), [source])
    assert (
        Evidence(
            "GitHub",
            "scale set of acme: 1 jobs are assigned, 0 may be; listening; the pool changed its label: …",
        )
        in said.evidence
    )
    assert said.healthy


def test_a_pool_whose_accounts_installed_the_app_and_were_not_allowed_names_the_command() -> None:
    pool = a_pool(conditions=(ready(),))
    pool = replace(pool, spec=replace(pool.spec, job_source="ScaleSet"))
    said = why_pool(pool, NOW, signals(), [], not_listed=["acme"])
    assert (
        Evidence(
            "database",
            "acme has installed the App and is not on the allow list, so that no job of it is asked for: paddock accounts allow acme",
        )
        in said.evidence
    )
    assert said.commands[0] == "paddock accounts allow acme"
    assert (said.healthy, said.runbook) == (False, "PaddockJobSourceLost")
    nobody = why_pool(pool, NOW, signals(), [])
    assert nobody.evidence[-1].fact == "nobody who may run jobs has installed the App: paddock accounts list"
    assert why_pool(a_pool(conditions=(ready(),)), NOW, signals(), [], not_listed=["acme"]).healthy
