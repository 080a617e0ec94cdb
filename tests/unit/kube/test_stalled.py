"""An object that cannot be reconciled says so itself."""

import asyncio
import random
from typing import Any, ClassVar

from unit.kube.fake_api import FakeApi
from unit.kube.things import client_of, raw, running, until
from unit.kube.virtual_time import virtual

from paddock.base.backoff import Backoff
from paddock.base.clock import LoopClock
from paddock.base.explanation import Explanation
from paddock.kube.conditions import get_condition
from paddock.kube.controller import Controller, Done, Request, Result, TerminalError
from paddock.kube.events import EventRecorder
from paddock.kube.informer import Informer
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Resource
from paddock.kube.stalled import Stalls
from paddock.kube.stalled_condition import STALLED, with_stall

COLLECTION = "machines.example.dev"


class Status(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class Machine(KubeObject, frozen=True):
    RESOURCE: ClassVar[Resource] = Resource("example.dev", "v1", "Machine", "machines")

    status: Status = Status()


class World:
    """One object and a controller that fails for as long as `why` says something."""

    def __init__(self, why: str, *, terminal: bool = False) -> None:
        self.why, self.terminal, self.looks = why, terminal, 0
        self.api = FakeApi()
        clock, rng = LoopClock(), random.Random(1)
        client = client_of(self.api)
        self.recorder = EventRecorder(client, "test", clock=clock, rng=rng)
        self.informer = Informer(client, Machine, clock=clock, rng=rng)
        self.controller = Controller(
            "blue",
            self._reconcile,
            clock=clock,
            rng=rng,
            backoff=Backoff(base=1.0, cap=10.0),
            stalls=Stalls(client, self.recorder, clock),
        ).watches(self.informer)
        self.api.put(COLLECTION, raw("m"))

    async def _reconcile(self, _request: Request) -> Result:
        self.looks += 1
        if self.why:
            raise TerminalError(self.why) if self.terminal else ValueError(f"{self.why} {self.looks}")
        return Done()

    def running(self) -> Any:
        return running(self.informer.run(), self.controller.run(), self.recorder.run())

    @property
    def stalled(self) -> Condition | None:
        found = self.informer.reader.get("m", "ns")
        return get_condition(found.status.conditions, STALLED) if found is not None else None

    def events(self) -> list[dict[str, Any]]:
        return [one for (kind, *_), one in self.api.objects.items() if kind == "events"]


@virtual
async def test_what_fails_five_times_in_a_row_says_so_with_its_error_once_and_takes_it_back():
    world = World("the name is no value of a label")
    async with world.running():
        await until(lambda: world.looks >= 4, within=60)
        assert world.stalled is None
        await until(lambda: world.stalled is not None, within=60)
        said = world.stalled
        assert said is not None
        assert (said.status, said.reason) == ("True", "ReconcileFailed")
        assert said.message == (
            "the blue controller has failed 5 times in a row and tries again, less and less often: "
            "ValueError: the name is no value of a label 5"
        )
        # Its own write wakes the controller, and each error reads differently: it is not written in a circle.
        await asyncio.sleep(100)
        assert world.looks < 25
        [event] = world.events()
        assert (event["type"], event["reason"], event["count"]) == ("Warning", "ReconcileFailed", 1)
        world.why = ""
        await until(lambda: world.stalled is None, within=60)


@virtual
async def test_what_is_not_tried_again_says_so_at_once():
    world = World("no such type", terminal=True)
    async with world.running():
        await until(lambda: world.stalled is not None, within=60)
        said = world.stalled
        assert said is not None
        assert said.message == "the blue controller does not try again until it changes: no such type"


@virtual
async def test_another_controllers_success_takes_nothing_back():
    world = World("")
    stalled = Condition(type=STALLED, status="True", reason="ReconcileFailed", message="the red controller has failed")
    async with world.running():
        await until(lambda: world.looks >= 1)
        world.api.put(
            COLLECTION,
            {
                **raw("m"),
                "status": {
                    "conditions": [
                        {"type": stalled.type, "status": "True", "reason": stalled.reason, "message": stalled.message}
                    ]
                },
            },
        )
        await asyncio.sleep(30)
        assert world.stalled == stalled


def test_an_explanation_begins_with_what_keeps_it_from_going_on():
    said = Explanation(about="fleet blue", sentence="no operator has looked at it yet")
    condition = Condition(
        type=STALLED, status="True", reason="ReconcileFailed", message="the fleet controller has failed"
    )
    told = with_stall(said, [condition])
    assert told.sentence == "the fleet controller has failed; as it was before: no operator has looked at it yet"
    assert not told.healthy
    assert with_stall(said, []) is said
