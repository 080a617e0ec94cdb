"""How the newest runners of a Mac ended, as the ledger knows it from their jobs, their Pods and healing."""

from datetime import datetime, timedelta

from integration.runners.ledger.rig import ACME, BOLT, CRUX, Bench, job

AT_ONCE = 60.0
LATER = 300.0


async def ran(
    bench: Bench,
    number: int,
    account: int,
    *,
    node: str = "m1",
    for_seconds: float = AT_ONCE,
    conclusion: str = "failure",
) -> None:
    """A runner on that Mac, whose job began half a minute after the hand-over and ended like that."""
    one = job(number, account)
    await bench.queue(one)
    await bench.running(number)
    await bench.ledger.mac_states.place({f"uid-{number}": node})
    bench.clock.advance(30.0)
    await bench.started(one, number)
    bench.clock.advance(for_seconds)
    await bench.completed(one, number, conclusion)
    await bench.ledger.sessions.end(f"uid-{number}", bench.clock.now(), by="test", why="the Pod ended with exit code 0")
    bench.clock.advance(1.0)


async def handed(bench: Bench, number: int, account: int = ACME, *, node: str = "m1") -> datetime:
    """A runner on that Mac that never had a job."""
    await bench.queue(job(number, account))
    await bench.running(number)
    await bench.ledger.mac_states.place({f"uid-{number}": node})
    return bench.clock.now()


async def results(bench: Bench, *nodes: str) -> list[tuple[str, str, str]]:
    return [(one.node, one.pod, one.result) for one in await bench.ledger.mac_ends.on(nodes or ("m1",))]


async def test_jobs_that_failed_within_two_minutes_failed_at_once_and_the_newest_comes_first(bench: Bench) -> None:
    await bench.accounts(ACME, BOLT, CRUX)
    await ran(bench, 1, ACME)
    await ran(bench, 2, BOLT, for_seconds=LATER)
    await ran(bench, 3, CRUX, conclusion="success")
    await ran(bench, 4, ACME, conclusion="cancelled")
    await ran(bench, 5, BOLT, conclusion="startup_failure")
    assert await results(bench) == [
        ("m1", "runner-5", "failed_at_once"),
        ("m1", "runner-4", "other"),
        ("m1", "runner-3", "succeeded"),
        ("m1", "runner-2", "other"),
        ("m1", "runner-1", "failed_at_once"),
    ]
    first = (await bench.ledger.mac_ends.on(["m1"]))[-1]
    assert (first.account_id, first.at - first.started_at) == (ACME, timedelta(seconds=90))


async def test_each_mac_has_its_own_and_those_that_still_run_are_left_out(bench: Bench) -> None:
    await bench.accounts(ACME, vcpus=60, memory_mb=10**6)
    await ran(bench, 1, ACME, node="m1")
    await ran(bench, 2, ACME, node="m2", conclusion="success")
    await handed(bench, 3, node="m2")
    assert await results(bench, "m1", "m2", "m3") == [
        ("m1", "runner-1", "failed_at_once"),
        ("m2", "runner-2", "succeeded"),
    ]
    assert await bench.ledger.mac_ends.on([]) == []


async def test_a_job_whose_pod_died_in_it_failed_when_the_pod_did_and_not_when_github_noticed(bench: Bench) -> None:
    await bench.accounts(ACME)
    one = job(1)
    await handed(bench, 1)
    await bench.started(one, 1)
    bench.clock.advance(20.0)
    await bench.ledger.sessions.end(
        "uid-1", bench.clock.now(), by="test", why="the Pod ended with exit code 137 (Error)"
    )
    bench.clock.advance(600.0)
    await bench.completed(one, 1, "failure")
    assert await results(bench) == [("m1", "runner-1", "failed_at_once")]


async def test_a_runner_that_was_proven_to_hang_without_a_job_never_began_whenever_that_was(bench: Bench) -> None:
    await bench.accounts(ACME, vcpus=60, memory_mb=10**6)
    for number in (1, 2):
        await handed(bench, number)
    await bench.started(job(2), 2)
    bench.clock.advance(900.0)
    for number in (1, 2):
        await bench.ledger.heals.record("hung_runner", f"runner-{number}", "it hangs", pod_uid=f"uid-{number}")
    assert await results(bench) == [("m1", "runner-1", "never_began")], "the other had its job"


async def test_a_runner_that_hangs_after_its_job_went_elsewhere_proves_nothing(bench: Bench) -> None:
    await bench.accounts(ACME)
    await handed(bench, 1)
    bench.clock.advance(200.0)
    for kind in ("displaced_claim", "hung_runner"):
        await bench.ledger.heals.record(kind, "runner-1", "it was let go", pod_uid="uid-1")
    await bench.ledger.sessions.end("uid-1", bench.clock.now(), by="test", why="Pod runner-1 is gone")
    assert await results(bench) == [("m1", "runner-1", "other")]


async def test_a_runner_that_ended_soon_and_without_a_job_never_began_unless_that_is_in_order_or_the_versions_fault(
    bench: Bench,
) -> None:
    await bench.accounts(ACME, vcpus=60, memory_mb=10**6)
    codes = {1: "1 (Error)", 2: "0 (Completed)", 3: "7 (Error): too old", 4: "1 (Error)"}
    for number in codes:
        await handed(bench, number)
    for number, code in codes.items():
        bench.clock.advance(20.0 if number < 4 else LATER)
        why = f"the Pod ended with exit code {code}"
        await bench.ledger.sessions.end(f"uid-{number}", bench.clock.now(), by="test", why=why)
    assert await results(bench) == [
        ("m1", "runner-4", "other"),
        ("m1", "runner-3", "other"),
        ("m1", "runner-2", "other"),
        ("m1", "runner-1", "never_began"),
    ]


async def test_a_job_that_another_runner_had_says_nothing_about_the_mac(bench: Bench) -> None:
    await bench.accounts(ACME)
    one = job(1)
    await handed(bench, 1)
    await bench.ledger.jobs.started(one, runner_name="somebody-elses", started_at=bench.clock.now())
    await bench.completed(one, 9, "failure")
    bench.clock.advance(5.0)
    await bench.ledger.sessions.end(
        "uid-1", bench.clock.now(), by="test", why="the Pod ended with exit code 0 (Completed)"
    )
    assert await results(bench) == [("m1", "runner-1", "other")]
