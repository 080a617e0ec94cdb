"""The event recorder: one Event for the same thing, never too many, never in the way."""

import asyncio
import random

import structlog
from unit.kube.fake_api import AwayError, Call, FakeApi, status
from unit.kube.things import client_of, running, thing, until
from unit.kube.virtual_time import virtual

from paddock.base.clock import LoopClock
from paddock.kube.events import EventLimits, EventRecorder
from paddock.kube.metrics import KubeMetrics


def recorder_of(api: FakeApi, **options) -> EventRecorder:
    return EventRecorder(client_of(api), "paddock", clock=LoopClock(), rng=random.Random(1), **options)


def events(api: FakeApi) -> list[dict]:
    return [obj for (collection, _, _), obj in api.objects.items() if collection == "events"]


@virtual
async def test_the_same_thing_twice_is_one_event_with_a_count():
    api = FakeApi()
    recorder = recorder_of(api)
    async with running(recorder.run()):
        for _ in range(3):
            recorder.record(thing("a"), "Warning", "BootstrapFailed", "SSH timed out")
            await asyncio.sleep(10)
        recorder.record(thing("a"), "Normal", "Ready", "it is up")
        await until(lambda: len(events(api)) == 2)
    failed, ready = sorted(events(api), key=lambda e: e["reason"])
    assert (failed["count"], ready["count"]) == (3, 1)
    assert failed["lastTimestamp"] > failed["firstTimestamp"]
    assert failed["involvedObject"]["kind"] == "Thing"
    assert failed["involvedObject"]["apiVersion"] == "example.dev/v1"
    assert failed["metadata"]["namespace"] == "ns"
    assert failed["type"] == "Warning"
    assert failed["source"] == {"component": "paddock"}


@virtual
async def test_an_event_that_expired_is_begun_anew():
    api = FakeApi()
    recorder = recorder_of(api)
    recorder.record(thing("a"), "Normal", "Ready", "up")
    await recorder.flush()
    api.objects.clear()
    recorder.record(thing("a"), "Normal", "Ready", "up")
    await recorder.flush()
    assert [event["count"] for event in events(api)] == [1]


@virtual
async def test_cluster_scoped_objects_report_into_default():
    api = FakeApi()
    recorder = recorder_of(api)
    recorder.record(thing("a", namespace=""), "Normal", "Ready", "up")
    await recorder.flush()
    assert events(api)[0]["metadata"]["namespace"] == "default"


@virtual
async def test_one_noisy_object_is_limited_and_the_others_are_not():
    api = FakeApi()
    metrics = KubeMetrics()
    recorder = recorder_of(api, metrics=metrics, limits=EventLimits(burst=5, refill=60))
    for number in range(50):
        recorder.record(thing("noisy"), "Warning", "Failed", f"attempt {number}")
    recorder.record(thing("calm"), "Normal", "Ready", "up")
    await recorder.flush()
    assert len(events(api)) == 6
    assert metrics.registry.get_sample_value("paddock_events_dropped_total", {"reason": "rate"}) == 45
    await asyncio.sleep(61)
    recorder.record(thing("noisy"), "Warning", "Failed", "later")
    await recorder.flush()
    assert len(events(api)) == 7


@virtual
async def test_a_server_that_is_away_or_refuses_costs_events_and_nothing_else():
    api = FakeApi()
    metrics = KubeMetrics()
    recorder = recorder_of(api, metrics=metrics, limits=EventLimits(capacity=2))

    def away(_call: Call):
        raise AwayError

    api.faults.append(away)
    with structlog.testing.capture_logs():
        for number in range(4):
            recorder.record(thing(f"t{number}"), "Normal", "Ready", "up")
        await recorder.flush()
        assert len(api.calls) == 2 * 3
        api.faults[:] = [lambda _call: status(403, "Forbidden", "the namespace is being terminated")]
        recorder.record(thing("a"), "Normal", "Ready", "up")
        await recorder.flush()
        assert len(api.calls) == 7

    def dropped(reason: str) -> float | None:
        return metrics.registry.get_sample_value("paddock_events_dropped_total", {"reason": reason})

    assert (dropped("full"), dropped("failed")) == (2, 3)


@virtual
async def test_what_is_waiting_at_the_end_gets_a_last_short_chance():
    api = FakeApi()
    recorder = recorder_of(api)
    async with running(recorder.run()):
        await asyncio.sleep(1)
        recorder.record(thing("a"), "Normal", "Stopping", "bye")
    assert len(events(api)) == 1
    api.hang = lambda _call: True
    async with running(recorder.run()):
        await asyncio.sleep(1)
        recorder.record(thing("b"), "Normal", "Stopping", "bye")
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began <= 2.1
