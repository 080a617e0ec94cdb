"""A GitHub that runs for weeks: what it remembers, and what it writes, stays within bounds."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import httpx2
import msgspec
import pytest

from paddock.base.clock import LoopClock
from paddock.base.rng import seeded
from paddock.simulator.github import GitHubBehaviour, SimulatedGitHub
from paddock.simulator.github.book import GitHubBook
from paddock.simulator.github.wire import encoded_jit_config
from paddock.simulator.loop import run

KEPT = 30
JOBS_A_DAY = 60
DAYS = 7
WEEKS = 21 * 86400.0


def new_github(clock: LoopClock) -> SimulatedGitHub:
    github = SimulatedGitHub(
        clock,
        seeded(3),
        behaviour=GitHubBehaviour(jobs_kept=KEPT, deliveries_kept=KEPT),
        audit=False,
    )
    github.add_organization("acme", "app")
    github.deliver_to("http://127.0.0.1:1/webhooks", _Receiver())
    return github


class _Receiver(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, request=request)


async def one_job(github: SimulatedGitHub, clock: LoopClock, number: int) -> None:
    runner = github._queue.mint("orgs/acme", f"runner-{number}", ["mac"], clock.now())
    github.submit("acme/app", labels=["mac"], duration=60.0)
    session = github.connect(encoded_jit_config(runner))
    assert await session.run_one(timeout=600) == "success"


@pytest.mark.slow
def test_a_week_of_jobs_leaves_bounded_records_in_memory_and_on_disk(tmp_path: Path) -> None:
    sizes: list[tuple[int, ...]] = []

    async def main() -> None:
        clock = LoopClock()
        github = new_github(clock)
        book = GitHubBook(tmp_path / "github.db")
        driving = asyncio.create_task(github.run())
        for day in range(DAYS):
            for number in range(JOBS_A_DAY):
                await one_job(github, clock, day * JOBS_A_DAY + number)
                github.save_to(book)
            await clock.sleep(5 * 3600.0)
            github.save_to(book)
            state = github.state
            names = sum(len(each) for each in state.names.values())
            rows = book._db.execute("SELECT count(*) FROM records").fetchone()[0]
            sizes.append(
                (
                    len(state.jobs),
                    len(state.runs),
                    len(state.runners),
                    names,
                    len(state.attempts),
                    len(github._queue.timers),
                    rows,
                )
            )
        driving.cancel()
        book.close()

    run(main, seed=1, limit=WEEKS)
    limits = (KEPT, KEPT, 5, 5, KEPT, 3000, 4 * KEPT)
    for day in sizes:
        assert all(size <= limit for size, limit in zip(day, limits, strict=True)), (day, limits)
    assert (tmp_path / "github.db").stat().st_size < 2_000_000


def test_a_save_writes_what_changed_and_a_load_gives_it_back(tmp_path: Path) -> None:
    async def main() -> None:
        clock = LoopClock()
        github = new_github(clock)
        book = GitHubBook(tmp_path / "github.db")
        for number in range(20):
            await one_job(github, clock, number)
            await github.deliver_due()
        await clock.sleep(60.0)
        await github.deliver_due()
        waiting = github.submit("acme/app", labels=["mac"])
        assert github.save_to(book) > 60
        await clock.sleep(1.0)
        assert github.save_to(book) <= 2, "the head with its date, and nothing that is over"
        before = msgspec.structs.replace(github.state, names={})
        book.close()
        again = GitHubBook(tmp_path / "github.db")
        loaded = again.load()
        assert loaded is not None
        assert msgspec.structs.replace(loaded, names={}) == before
        back = SimulatedGitHub.from_book(again, clock, seeded(4))
        assert back is not None
        assert back.job(waiting.id).status == "queued"
        again.close()

    run(main, seed=1)


def test_deliveries_older_than_three_days_cannot_be_sent_again() -> None:
    async def main() -> None:
        clock = LoopClock()
        github = new_github(clock)
        await one_job(github, clock, 1)
        await clock.sleep(2.0)
        first = await github.deliver_due()
        assert {each.id for each in first} <= set(github.state.attempts)
        await clock.sleep(timedelta(days=3).total_seconds() + 60)
        await one_job(github, clock, 2)
        await clock.sleep(2.0)
        await github.deliver_due()
        assert not {each.id for each in first} & set(github.state.attempts)

    run(main, seed=1, limit=WEEKS)


def test_a_new_book_has_no_github(tmp_path: Path) -> None:
    book = GitHubBook(tmp_path / "github.db")
    assert book.load() is None
    book.close()
