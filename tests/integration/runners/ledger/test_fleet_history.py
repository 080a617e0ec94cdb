"""The fleet's past in the ledger: bounded, without double rows, and true to the second at which it was seen."""

from datetime import timedelta

import httpx2
import pytest
from integration.runners.ledger.rig import ACME, START, Bench, job
from starlette.applications import Starlette

from paddock.runners.http.history import history_route
from paddock.runners.ledger.incidents import ProblemSeen
from paddock.runners.ledger.mac_states import MacSeen
from paddock.runners.ledger.samples import HOUR, KEPT, MINUTE, QUARTER, FleetNumbers, step_began
from paddock.simulator.transport import InProcessTransport

QUIET = FleetNumbers(macs={"ready": 2}, waiting=0, running=0, per_hour=0.5, currency="EUR")
BUSY = FleetNumbers(macs={"busy": 1, "ready": 1}, waiting=4, running=1, per_hour=0.5, currency="EUR")


def mac(name: str, state: str, machine: str = "") -> MacSeen:
    return MacSeen(host=name, state=state, machine=machine, title=machine or name, zone="z", fleet="f", price=0.25)


def first_hour():
    return step_began(START, HOUR)


async def an_hour_of_minutes(bench: Bench) -> None:
    for minute in range(60):
        assert await bench.ledger.samples.add(first_hour() + minute * MINUTE, BUSY if minute >= 45 else QUIET)


async def test_a_minute_is_written_once_whoever_writes_it_again(bench: Bench):
    samples = bench.ledger.samples
    assert await samples.add(first_hour(), QUIET)
    assert not await samples.add(first_hour(), BUSY)
    (row,) = await samples.since(first_hour(), MINUTE)
    assert (row.macs, row.waiting, row.per_hour) == ({"ready": 2}, 0, 0.5)


async def test_minutes_are_rolled_up_once_into_means_and_whoever_comes_late_catches_up(bench: Bench):
    await an_hour_of_minutes(bench)
    after = first_hour() + HOUR + MINUTE
    assert await bench.ledger.samples.roll_up(after) == 5  # four quarters and the hour
    assert await bench.ledger.samples.roll_up(after) == 0
    quarters = await bench.ledger.samples.since(first_hour(), QUARTER)
    assert [row.waiting for row in quarters] == [0, 0, 0, 4]
    (hour,) = await bench.ledger.samples.since(first_hour(), HOUR)
    assert (hour.waiting, hour.running) == (1, 0.25)
    assert hour.macs == {"ready": 1.75, "busy": 0.25}


async def test_a_step_that_is_not_over_is_told_by_finer_rows(bench: Bench):
    await an_hour_of_minutes(bench)
    await bench.ledger.samples.roll_up(first_hour() + 50 * MINUTE)
    rows = await bench.ledger.samples.since(first_hour(), HOUR)
    assert [row.step for row in rows] == [900] * 3 + [60] * 15
    assert [row.at for row in rows] == sorted(row.at for row in rows)


async def test_waits_and_heals_of_a_minute_are_counted_by_the_ledger(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    bench.clock.advance(8)
    claim = await bench.claimed("a")
    await bench.ledger.claims.commit(claim, "runner-a-mint")
    await bench.started(job(1), "a")
    await bench.ledger.heals.record("pod_hung", "pod x", "a Pod was reaped")
    minute = step_began(bench.clock.now(), MINUTE)
    await bench.ledger.samples.add(minute, BUSY)
    (row,) = await bench.ledger.samples.since(minute, MINUTE)
    assert (row.started, row.heals) == (1, 1)
    assert row.wait_p50 == pytest.approx(8, abs=1.1)


async def test_ends_are_counted_by_result_in_the_minute_in_which_they_are_heard_of(bench: Bench):
    await bench.accounts(ACME)
    minute = step_began(bench.clock.now(), MINUTE)
    late = bench.clock.now()
    bench.clock.advance(90)
    for number, result in enumerate(("success", "success", "failure"), 1):
        await bench.completed(job(number), None, result)
    told = {"account_id": ACME, "conclusion": "cancelled", "completed_at": late, "runner_name": None, "job": job(4)}
    await bench.ledger.jobs.completed(4, **told)
    for at in (minute, minute + MINUTE, minute + 2 * MINUTE):
        await bench.ledger.samples.add(at, BUSY)
    rows = await bench.ledger.samples.since(minute, MINUTE)
    assert [row.ended for row in rows] == [{}, {"success": 2, "failure": 1, "cancelled": 1}, {}]
    await bench.ledger.samples.roll_up(minute + HOUR)
    (quarter,) = await bench.ledger.samples.since(minute, QUARTER)
    assert quarter.ended == {"success": 2, "failure": 1, "cancelled": 1}


@pytest.mark.parametrize("hours", [2, 80])
async def test_an_end_that_is_heard_of_hours_late_is_counted_once(bench: Bench, hours: int):
    await bench.accounts(ACME)
    await bench.queue(job(1), job(2))
    ended = bench.clock.now()
    bench.clock.advance(hours * 3600)
    minute = step_began(bench.clock.now(), MINUTE)
    for number in (1, 2):
        told = {"account_id": ACME, "conclusion": "success", "completed_at": ended, "runner_name": None}
        await bench.ledger.jobs.completed(number, **told, job=job(number))
        await bench.ledger.jobs.completed(number, **told, job=job(number))
    for at in (minute - MINUTE, minute, minute + MINUTE):
        await bench.ledger.samples.add(at, BUSY)
    rows = await bench.ledger.samples.since(minute - MINUTE, MINUTE)
    assert [row.ended for row in rows] == [{}, {"success": 2}, {}]


async def test_a_row_of_the_release_before_has_no_ends(bench: Bench):
    await bench.ask("INSERT INTO samples VALUES (60, %s, '{}', 0, 0, 0, NULL, NULL, 0, 0, '')", [first_hour()])
    (row,) = await bench.ledger.samples.since(first_hour(), MINUTE)
    assert row.ended == {}


async def test_rows_are_forgotten_at_the_age_of_their_step(bench: Bench):
    await an_hour_of_minutes(bench)
    await bench.ledger.samples.roll_up(first_hour() + HOUR)
    samples = bench.ledger.samples
    assert await samples.forget(first_hour() + KEPT[MINUTE] + HOUR) == 60
    assert await samples.forget(first_hour() + KEPT[QUARTER] + HOUR) == 4
    assert await samples.forget(first_hour() + KEPT[HOUR] + HOUR) == 1


async def test_a_mac_is_told_as_it_was_at_every_second(bench: Bench):
    states = bench.ledger.mac_states
    await states.observe(START, [mac("a", "free"), mac("b", "busy", "m-b")])
    await states.observe(START + timedelta(seconds=10), [mac("a", "setup", "m-a"), mac("b", "busy", "m-b")])
    await states.observe(START + timedelta(seconds=20), [mac("a", "ready", "m-a")])  # b is gone

    async def told(seconds: float) -> dict[str, str]:
        return {one.host: one.state for one in await states.at(START + timedelta(seconds=seconds))}

    assert await told(-1) == {}
    assert await told(9) == {"a": "free", "b": "busy"}
    assert await told(10) == {"a": "setup", "b": "busy"}
    assert await told(3600) == {"a": "ready"}
    assert [(one.state, one.until is None) for one in await states.of_mac("a", START - HOUR)] == [
        ("ready", True),
        ("setup", False),
        ("free", False),
    ]


async def test_a_look_that_is_written_again_or_late_changes_nothing(bench: Bench):
    states = bench.ledger.mac_states
    await states.observe(START, [mac("a", "free")])
    await states.observe(START + timedelta(seconds=9), [mac("a", "ready")])
    await states.observe(START + timedelta(seconds=9), [mac("a", "ready")])
    await states.observe(START + timedelta(seconds=4), [mac("a", "free")])  # a sampler that was slow
    assert [one.state for one in await states.of_mac("a", START - HOUR)] == ["ready", "free"]


async def test_stretches_that_last_are_never_forgotten(bench: Bench):
    states = bench.ledger.mac_states
    await states.observe(START, [mac("a", "free")])
    await states.observe(START + timedelta(seconds=9), [mac("a", "ready")])
    assert await states.forget(START + timedelta(days=400)) == 1
    assert [one.state for one in await states.at(START + timedelta(days=1))] == ["ready"]


async def test_a_problem_is_open_from_the_look_that_saw_it_to_the_look_that_did_not(bench: Bench):
    incidents = bench.ledger.incidents
    wrong = ProblemSeen(key="k", about="host a", sentence="it is stranded")
    await incidents.restarted(START, "paddock up")
    await incidents.observe(START, [wrong])
    await incidents.observe(START + MINUTE, [wrong])
    await incidents.observe(START + 2 * MINUTE, [])
    await incidents.observe(START + 3 * MINUTE, [wrong])
    found = await incidents.between(START, START + HOUR)
    assert [(one.kind, one.until) for one in found] == [
        ("restart", START),
        ("problem", START + 2 * MINUTE),
        ("problem", None),
    ]
    assert [one.kind for one in await incidents.between(START + MINUTE, START + MINUTE)] == ["problem"]


async def test_runners_are_found_by_the_mac_that_they_were_on(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    claim = await bench.claimed("a")
    assert await bench.ledger.mac_states.place({"uid-a": "m-a"}) == set()  # no session yet: asked again later
    await bench.ledger.claims.commit(claim, "runner-a-mint")
    await bench.started(job(1), "a")
    assert await bench.ledger.mac_states.place({"uid-a": "m-a", "uid-other": "m-a"}) == {"uid-a"}
    await bench.completed(job(1), "a")
    stay = ("m-a", START - HOUR, START + HOUR)
    (ran,) = await bench.ledger.mac_states.ran_on([stay])
    assert (ran.job_id, ran.conclusion, ran.node_name) == (1, "success", "m-a")
    later = ("m-a", START + HOUR, START + 2 * HOUR)
    assert await bench.ledger.mac_states.count_on([later, stay]) == [(0, 0), (1, 0)]
    assert await bench.ledger.mac_states.ran_on([("m-a", START + HOUR, START + 2 * HOUR)]) == []


async def test_the_route_gives_columns_and_marks_and_refuses_other_windows(bench: Bench):
    bench.clock.advance(120)
    now = bench.clock.now()
    await bench.accounts(ACME)
    for number, result in enumerate(("success", "failure", "timed_out", "skipped"), 1):
        await bench.completed(job(number), None, result)
    await bench.ledger.samples.add(step_began(now, MINUTE), BUSY)
    await bench.ledger.incidents.restarted(now, "paddock up")
    await bench.ledger.heals.record("pod_hung", "pod x", "a Pod was reaped")
    app = Starlette(routes=[history_route(bench.ledger, bench.clock)])
    async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://ledger") as client:
        told = (await client.get("/api/v1/history?window=24h")).json()
        assert told["macs"] == {"busy": [1], "ready": [1]}
        assert (told["waiting"], told["per_hour"], told["wait_p50"]) == ([4], [0.5], [None])
        assert told["ended"] == {"success": [1], "failure": [2], "cancelled": [0], "other": [1]}
        assert {mark["kind"] for mark in told["marks"]} == {"restart", "heal"}
        refused = await client.get("/api/v1/history?window=2h")
        assert refused.status_code == 400
        assert "1h, 24h, 7d, 30d" in refused.text
