"""The world's process: one to a data folder, found again, replaced where it is another, and never there for ever."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from paddock.all_in_one.world_client import WorldAwayError
from paddock.all_in_one.world_process import WorldProcess, end_world_now
from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.simulator.world.folder import WorldFolder
from paddock.simulator.world.messages import Attachment, PoolOrder, WorldOptions

OPTIONS = WorldOptions(hosts=3, speed=200.0, jobs=0.0, seed=7)
POOL = PoolOrder(3, ["fr-par-1"], "tuist-pool-", "M4-M")
NOWHERE = Attachment("https://127.0.0.1:1", "http://127.0.0.1:1", "")


@dataclass
class Place:
    folder: WorldFolder

    def process(self, **changes: object) -> WorldProcess:
        options = replace(OPTIONS, **changes)
        return WorldProcess(self.folder, options, clock=SystemClock(), rng=seeded(1))

    @asynccontextmanager
    async def started(self, **changes: object) -> AsyncIterator[WorldProcess]:
        """A Paddock's hold on the world, given up at the end without a word, as at a kill."""
        process = self.process(**changes)
        process.begin()
        await process.start()
        await process.ready()
        try:
            yield process
        finally:
            async with process.client:
                pass


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    here = Place(WorldFolder(tmp_path))
    yield here
    if (pid := here.folder.holder()) is not None:
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not here.folder.taken())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.05)


async def answered(ask: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await ask()
            except WorldAwayError:
                await asyncio.sleep(0.05)
            else:
                return


async def test_the_next_paddock_takes_the_world_that_is_there(place: Place) -> None:
    async with place.started() as first:
        await first.client.pool(POOL)
        before = await first.client.view()
        refused = place.process()
        refused.begin()
        await refused.stop()
        assert place.folder.taken(), "one whose Postgres refused the folder does not end the world of the one that runs"
    async with place.started() as second:
        now = await second.client.view()
        assert now == before
        assert now.hosts == 3
        await second.client.pool(POOL)
        assert (await second.client.view()).hosts == 3, "a pool that is ordered again is the same pool"
        assert stat.S_IMODE(place.folder.root.stat().st_mode) == 0o700
        await a_mac_answers_at_its_address_and_nobody_at_another(second)
        await second.stop()
    assert not place.folder.taken()
    assert place.folder.sockets() is None


async def a_mac_answers_at_its_address_and_nobody_at_another(paddock: WorldProcess) -> None:
    with pytest.raises(TimeoutError):
        await paddock.client.dial("198.51.100.9", 22)
    connection = await paddock.client.dial("198.18.0.1", 22)
    connection.setblocking(True)
    connection.settimeout(10)
    assert (await asyncio.to_thread(connection.recv, 8)).startswith(b"SSH-2.0")
    connection.close()


async def test_a_world_with_another_seed_is_ended_its_cloud_is_kept_and_a_forgotten_one_ends_by_itself(
    place: Place,
) -> None:
    async with place.started() as first:
        await first.client.pool(POOL)
        before = await first.client.view()
    async with place.started(seed=8, linger=1.0) as second:
        now = await second.client.view()
        assert now.pid != before.pid
        assert (now.hosts, now.project_id, now.app_id) == (3, before.project_id, before.app_id)
    await until(lambda: not place.folder.taken())
    assert "nobody has come" in place.folder.log.read_text()


@pytest.mark.slow
async def test_a_killed_world_is_started_again_by_whoever_attends_it(place: Place) -> None:
    async with place.started() as paddock:
        await paddock.client.pool(POOL)
        where = Attachment(NOWHERE.api, NOWHERE.page, str(_kubeconfig(place.folder.data)))
        await paddock.attend(where)
        before = await paddock.client.view()
        os.kill(before.pid, signal.SIGKILL)
        await until(lambda: place.folder.holder() not in (None, 0, before.pid))
        await answered(paddock.client.view)
        assert (await paddock.client.view()).hosts == 3, "the cloud was saved before anybody was told of it"
        await paddock.detach()
        end_world_now(place.folder)  # a second Ctrl-C
        await until(lambda: not place.folder.taken())
    end_world_now(place.folder)


@pytest.mark.slow
async def test_a_world_that_hangs_is_killed_and_replaced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.all_in_one.world_process._STOP_WITHIN", 1.0)
    monkeypatch.setattr("paddock.all_in_one.world_client._TIMEOUT", 0.5)
    async with place.started() as first:
        before = await first.client.view()
    os.kill(before.pid, signal.SIGSTOP)
    async with place.started() as second:
        assert (await second.client.view()).pid != before.pid
        await second.stop()


def _kubeconfig(data: Path) -> Path:
    file = data / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    return file
