"""Whoever installed the App and is on no list is named once, and is in the summary where a pool asks GitHub."""

import asyncio
import random
from typing import cast

import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.ledger.test_scale_sets import POOL
from prometheus_client import CollectorRegistry

from paddock.base.clock import SystemClock
from paddock.clients.github import GitHub, ScaleSets
from paddock.runners.ledger.queue_metrics import QueueCollector
from paddock.runners.scale_sets.metrics import ScaleSetMetrics
from paddock.runners.scale_sets.service import Listeners, ListenersContext


class NoInstallations:
    """A GitHub that tells of nobody new."""

    async def installations(self) -> list[object]:
        return []


async def _first() -> int:
    return 1


async def installed(bench: Bench) -> None:
    """Acme was never decided about, bolt was denied, crux has one repository allowed, dune took the App away."""
    for number, login in enumerate(("acme", "bolt", "crux", "dune"), 1):
        await bench.ledger.accounts.enrol(number, login, number * 10 if login != "dune" else None)
    await bench.ledger.allow_list.deny(2, "bolt", by="test", why="a stranger")
    await bench.ledger.allow_list.allow(3, "crux/app", repository_id=7, by="test", why="one repository")


async def test_only_those_that_nobody_has_decided_about_are_named(bench: Bench) -> None:
    await installed(bench)
    assert await bench.ledger.scale_sets.not_listed() == ["acme"]
    await bench.ledger.allow_list.allow(1, "acme", by="test", why="ours")
    assert await bench.ledger.scale_sets.not_listed() == []


@pytest.mark.parametrize("asks", [True, False])
async def test_the_summary_has_them_where_a_pool_asks_github_for_its_jobs(bench: Bench, asks: bool) -> None:
    await installed(bench)
    queue = QueueCollector(bench.ledger, lambda: ["macos"], bench.clock, scale_sets=lambda: asks)
    assert (await queue.summary()).not_listed == (["acme"] if asks else [])


async def test_each_is_logged_once_and_not_in_every_round(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    await bench.ledger.accounts.enrol(1, "acme", 10)
    rounds = 0

    def pools() -> list[object]:
        nonlocal rounds
        rounds += 1
        return [POOL]

    context = ListenersContext(
        ledger=bench.ledger,
        github=cast(GitHub, NoInstallations()),
        scale_sets=cast(ScaleSets, None),
        pools=pools,  # pyright: ignore[reportArgumentType]
        dispatcher=_first,
        clock=SystemClock(),
        rng=random.Random(1),
        metrics=ScaleSetMetrics(CollectorRegistry()),
        every=0.01,
    )
    listening = asyncio.create_task(Listeners(context).run())
    async with asyncio.timeout(10):
        while rounds < 5:
            await asyncio.sleep(0.01)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    said = capsys.readouterr().out
    assert said.count("no job is asked for: the account is not on the allow list") == 1
    assert "paddock accounts allow acme" in said
