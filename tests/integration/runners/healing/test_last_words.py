"""A Linux runner that died under its job: nobody posts its log, so its last lines are read before its Pod goes."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from integration.runners.healing.healing_rig import NAMESPACE, HealingRig, as_ledger
from integration.runners.ledger.rig import ACME

from paddock.kube.builtin import Pod
from paddock.runners.healing import last_words
from paddock.runners.healing.evidence import printed
from paddock.runners.healing.last_words import LastWords
from paddock.runners.ledger import Pod as LedgerPod
from paddock.runners.pools.retirement import LedgerRetirementApi

SECRET = "A1b2" * 20


async def _nothing(*_: object) -> None:
    return None


class Scene:
    def __init__(self, rig: HealingRig) -> None:
        self.rig = rig
        self.last_words = LastWords(rig.client, rig.clock, NAMESPACE)
        self.retirement = LedgerRetirementApi(rig.ledger, rig.clock, recheck=_nothing, last_words=self.last_words)

    def serves(self, answer: Callable[[httpx2.Request], httpx2.Response]) -> None:
        """What the API server says to whoever asks for a log."""
        self.rig.wire.refuse = lambda request: answer(request) if request.url.path.endswith("/log") else None

    @property
    def asked(self) -> int:
        return sum(path.endswith("/log") for _, path in self.rig.wire.requests)

    async def stopped(self, pod: Pod, *, ended: bool = True) -> str | None:
        """The operator reports the end; gives what is kept with the job."""
        await self.retirement.stopped(as_ledger(pod), self.rig.clock.now(), why="exit 137", ended=ended)
        session = await self.rig.ledger.sessions.of_pod(pod.metadata.uid)
        assert session is not None
        assert session.ended_at is not None, "the end is recorded, whatever became of the lines"
        return session.last_lines


@pytest.fixture
def scene(healing_rig: HealingRig) -> Scene:
    made = Scene(healing_rig)
    made.serves(lambda _: httpx2.Response(200, content=b"starting\n\x1b[31mno space left on device\n"))
    return made


async def test_the_last_lines_of_a_linux_runner_that_died_under_its_job_stay_with_it(scene: Scene) -> None:
    pod, _ = await scene.rig.busy(linux=True)
    said = "".join(f"line {number}\n" for number in range(35)) + f"token {SECRET}\n\x1b[31mkilled\n"
    scene.serves(lambda _: httpx2.Response(200, content=said.encode()))
    kept = await scene.stopped(pod)
    assert kept is not None
    lines = kept.splitlines()
    assert len(lines) == 20
    assert lines[-3:] == ["line 34", "token ***", "[31mkilled"]


async def test_the_log_is_asked_for_in_small(scene: Scene) -> None:
    pod, _ = await scene.rig.busy(linux=True)
    asked: list[httpx2.URL] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url)
        return httpx2.Response(200, content=b"x" * 1_000_000)

    scene.serves(answer)
    kept = await scene.stopped(pod)
    (url,) = asked
    assert dict(url.params) == {"container": "runner", "tailLines": "40", "limitBytes": "8192"}
    assert kept == "***", "and what a server sends beyond that is cut"


async def test_a_runner_whose_job_was_over_is_not_asked_for_its_log(scene: Scene) -> None:
    pod, job_id = await scene.rig.busy(linux=True)
    await scene.rig.ledger.jobs.completed(
        job_id, account_id=ACME, conclusion="success", completed_at=scene.rig.clock.now(), runner_name="any"
    )
    assert await scene.stopped(pod) is None
    assert scene.asked == 0


async def test_a_log_that_an_agent_posted_is_not_asked_for(scene: Scene) -> None:
    pod, _ = await scene.rig.busy()
    await scene.rig.ledger.runner_logs.append(pod.metadata.uid, 0, b"posted\n", ended=True)
    assert await scene.stopped(pod) == "posted\n"
    assert scene.asked == 0


async def test_a_pod_that_was_not_seen_to_end_is_not_asked_for_its_log(scene: Scene) -> None:
    pod, _ = await scene.rig.busy(linux=True)
    assert await scene.stopped(pod, ended=False) is None
    assert scene.asked == 0


async def test_a_namesakes_log_is_not_taken_for_its_own(scene: Scene) -> None:
    pod, _ = await scene.rig.busy(linux=True)
    assert await scene.last_words(LedgerPod("another-uid", pod.metadata.name)) == ""
    assert await scene.last_words(LedgerPod("another-uid", "gone")) == ""
    assert scene.asked == 0


async def test_a_refusal_costs_the_lines_and_nothing_else(scene: Scene) -> None:
    scene.serves(lambda _: httpx2.Response(403, json={"kind": "Status", "code": 403, "reason": "Forbidden"}))
    for number in range(2):
        pod, _ = await scene.rig.busy(linux=True)
        assert await scene.stopped(pod) is None
        assert scene.asked == number + 1


async def test_a_node_that_does_not_answer_holds_one_report_up_and_not_the_next_ones(scene: Scene) -> None:
    def silence(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("no answer", request=request)

    scene.serves(silence)
    first, _ = await scene.rig.busy(linux=True)
    assert await scene.stopped(first) is None
    asked = scene.asked
    assert asked > 0
    second, _ = await scene.rig.busy(linux=True)
    assert await scene.stopped(second) is None
    assert scene.asked == asked
    scene.rig.clock.advance(61)
    scene.serves(lambda _: httpx2.Response(200, content=b"back\n"))
    third, _ = await scene.rig.busy(linux=True)
    assert await scene.stopped(third) == "back"


async def test_slow_answers_hold_a_report_up_for_one_deadline_and_not_for_one_each(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_words, "_TIMEOUT", 0.3)
    pod, _ = await scene.rig.busy(linux=True)
    read = scene.rig.client.get

    async def slowly_read(*arguments: Any, **named: Any) -> Any:
        await asyncio.sleep(0.2)
        return await read(*arguments, **named)

    async def slowly_printed(*arguments: Any, **named: Any) -> Any:
        await asyncio.sleep(0.2)
        return await printed(*arguments, **named)

    monkeypatch.setattr(scene.rig.client, "get", slowly_read)
    monkeypatch.setattr(last_words, "printed", slowly_printed)
    assert await scene.last_words(as_ledger(pod)) == ""
    assert scene.asked == 0
