"""The endpoint behind a real HTTP server: held, served, and told that its client hung up."""

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx2
import pytest
import uvicorn
from integration.runners.dispatch.rig import Dispatcher, Rig, until
from integration.runners.ledger.rig import ACME, job
from starlette.applications import Starlette

from paddock.runners.dispatch import PATH


@pytest.fixture
async def served(rig: Rig) -> AsyncIterator[tuple[Dispatcher, str]]:
    dispatcher = await rig.dispatcher()
    listening = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=list(dispatcher.service.routes))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started)
    yield dispatcher, f"http://127.0.0.1:{listening.getsockname()[1]}"
    await dispatcher.service.stop()
    server.should_exit = True
    await serving


async def test_a_pod_is_held_and_served_over_a_socket(rig: Rig, served):
    dispatcher, address = served
    await rig.accounts(ACME)
    pod = await rig.cluster.pod(1)
    headers = {"Authorization": f"Bearer {pod.token}", "Prefer": "wait=5"}
    async with httpx2.AsyncClient(base_url=address, timeout=10, trust_env=False) as http:
        asking = asyncio.create_task(http.post(PATH, headers=headers, json={}))
        await dispatcher.waits(1)
        await rig.bench.queue(job(1))
        answer = await asking
        assert answer.status_code == 200
        assert answer.json()["workflow_job_id"] == 1
        again = await http.post(PATH, headers=headers, json={})
        assert again.status_code == 410


async def test_a_client_that_hangs_up_leaves_the_room_at_once(rig: Rig, served):
    dispatcher, address = served
    pod = await rig.cluster.pod(1)
    headers = {"Authorization": f"Bearer {pod.token}", "Prefer": "wait=5"}
    async with httpx2.AsyncClient(base_url=address, timeout=10, trust_env=False) as http:
        asking = asyncio.create_task(http.post(PATH, headers=headers, json={}))
        await dispatcher.waits(1)
        asking.cancel()
        await until(lambda: len(dispatcher.service.waiting) == 0, seconds=2)


async def test_one_connection_is_held_again_and_again(rig: Rig, served):
    dispatcher, address = served
    pod = await rig.cluster.pod(1)
    headers = {"Authorization": f"Bearer {pod.token}", "Prefer": "wait=0"}
    async with httpx2.AsyncClient(base_url=address, timeout=10, trust_env=False) as http:
        for _ in range(5):
            answer = await http.post(PATH, headers=headers, json={})
            assert answer.status_code == 204
        assert len(dispatcher.service.waiting) == 0
