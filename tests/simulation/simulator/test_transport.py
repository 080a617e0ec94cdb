"""HTTP without sockets, with starlette as the app and httpx2 as the client."""

import asyncio

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

from paddock.base.rng import seeded
from paddock.simulator.loop import run
from paddock.simulator.process_life import ProcessLife
from paddock.simulator.transport import InProcessTransport


def client_of(app, **options) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=InProcessTransport(app, **options), base_url="https://api.test")


def app_of(*routes: tuple[str, object], methods: tuple[str, ...] = ("GET", "POST")) -> Starlette:
    return Starlette(routes=[Route(path, endpoint, methods=list(methods)) for path, endpoint in routes])  # pyright: ignore[reportArgumentType]


def ticking(every: float, ended: list[str] | None = None):
    async def watch(_request: Request) -> StreamingResponse:
        async def lines():
            number = 0
            try:
                while True:
                    yield f"event {number}\n"
                    number += 1
                    await asyncio.sleep(every)
            finally:
                if ended is not None:
                    ended.append("stream")

        return StreamingResponse(lines(), media_type="application/json")

    return watch


async def follow(response: httpx2.Response, seen: list[str]) -> None:
    async for line in response.aiter_lines():
        seen.append(line)  # noqa: PERF401 - what came before an error must be seen


def test_twelve_virtual_hours_of_a_watch_pass_without_waiting():
    async def main():
        seen = 0
        async with (
            client_of(app_of(("/watch", ticking(10)))) as client,
            client.stream("GET", "/watch", timeout=60) as response,
        ):
            async for line in response.aiter_lines():
                assert line == f"event {seen}"
                seen += 1
                if asyncio.get_running_loop().time() >= 12 * 3600:
                    break
        return seen

    assert run(main, seed=1) == 4321


def test_a_client_that_leaves_a_stream_ends_the_apps_generator():
    async def main():
        ended: list[str] = []
        async with client_of(app_of(("/watch", ticking(10, ended)))) as client:
            async with client.stream("GET", "/watch", timeout=30) as response:
                lines = response.aiter_lines()
                assert [await anext(lines), await anext(lines)] == ["event 0", "event 1"]
                assert ended == []
            await asyncio.sleep(0.1)
            assert ended == ["stream"]

    for seed in range(10):
        run(main, seed=seed)


def test_a_client_task_that_is_cancelled_in_mid_stream_ends_the_apps_generator():
    async def main():
        ended: list[str] = []

        async def watch(client: httpx2.AsyncClient):
            async with client.stream("GET", "/watch", timeout=None) as response:
                await follow(response, [])

        async with client_of(app_of(("/watch", ticking(10, ended)))) as client:
            task = asyncio.create_task(watch(client))
            await asyncio.sleep(35)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.1)
        assert ended == ["stream"]

    for seed in range(10):
        run(main, seed=seed)


async def test_the_same_transport_streams_on_an_ordinary_loop():
    ended: list[str] = []
    async with client_of(app_of(("/watch", ticking(0.001, ended)))) as client:
        async with client.stream("GET", "/watch") as response:
            lines = response.aiter_lines()
            assert [await anext(lines) for _ in range(3)] == ["event 0", "event 1", "event 2"]
        await asyncio.sleep(0.01)
    assert ended == ["stream"]


def test_a_fast_writer_waits_for_a_slow_reader():
    produced = 0

    async def flood(_request: Request) -> StreamingResponse:
        async def chunks():
            nonlocal produced
            for _ in range(1000):
                produced += 1
                yield b"x"

        return StreamingResponse(chunks())

    async def main():
        async with client_of(app_of(("/", flood)), room=4) as client, client.stream("GET", "/") as response:
            chunks = response.aiter_raw()
            await anext(chunks)
            await asyncio.sleep(60)
            assert produced < 10
            rest = 1
            async for _ in chunks:
                rest += 1
            assert rest == 1000

    run(main, seed=1)


def test_request_bodies_stream_and_the_scope_is_complete():
    async def echo(request: Request) -> JSONResponse:
        sizes = [len(chunk) async for chunk in request.stream() if chunk]
        return JSONResponse(
            {
                "sizes": sizes,
                "path": request.url.path,
                "query": request.url.query,
                "scheme": request.url.scheme,
                "tls": request.scope["extensions"]["tls"]["tls_version"],
                "host": request.headers["host"],
                "client": request.client.host if request.client else None,
            }
        )

    async def main():
        async def body():
            for size in (3, 5, 7):
                await asyncio.sleep(1)
                yield b"x" * size

        async with client_of(app_of(("/a b/{rest:path}", echo))) as client:
            answer = await client.post("/a%20b/c?x=1", content=body())
        return answer.json()

    assert run(main, seed=1) == {
        "sizes": [3, 5, 7],
        "path": "/a b/c",
        "query": "x=1",
        "scheme": "https",
        "tls": 0x0304,
        "host": "api.test",
        "client": "127.0.0.1",
    }


def test_an_answer_before_the_end_of_the_request_body_is_delivered():
    async def refuse(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("too much", 413)

    async def main():
        async def endless():
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0.01)

        async with client_of(app_of(("/", refuse)), room=2) as client:
            return (await client.post("/", content=endless())).status_code

    assert run(main, seed=1) == 413


def test_an_app_that_fails_before_it_answers_is_a_transport_error_with_the_cause():
    async def app(_scope, _receive, _send):
        raise LookupError("no such thing")

    async def main():
        async with client_of(app) as client:
            with pytest.raises(httpx2.ReadError) as caught:
                await client.get("/")
        assert isinstance(caught.value.__cause__, LookupError)

    run(main, seed=1)


def test_an_app_that_fails_in_mid_stream_breaks_the_stream_after_what_was_sent():
    async def broken(_request: Request) -> StreamingResponse:
        async def lines():
            yield "one\n"
            yield "two\n"
            raise LookupError("gone")

        return StreamingResponse(lines())

    async def main():
        seen: list[str] = []
        async with client_of(app_of(("/", broken))) as client, client.stream("GET", "/") as response:
            with pytest.raises(httpx2.ReadError):
                await follow(response, seen)
        assert seen == ["one", "two"]

    run(main, seed=1)


def test_starlettes_own_500_is_delivered_and_the_apps_error_is_kept():
    async def fail(_request: Request):
        raise LookupError("bug")

    async def main():
        transport = InProcessTransport(app_of(("/", fail)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://api.test") as client:
            assert (await client.get("/")).status_code == 500
        assert [type(error) for error in transport.app_errors] == [LookupError]

    run(main, seed=1)


def test_a_client_without_patience_gets_a_read_timeout_and_the_effect_still_happens():
    done: list[float] = []

    async def slow(_request: Request) -> PlainTextResponse:
        await asyncio.sleep(30)
        done.append(asyncio.get_running_loop().time())
        return PlainTextResponse("late")

    async def main():
        async with client_of(app_of(("/", slow))) as client:
            with pytest.raises(httpx2.ReadTimeout):
                await client.post("/", timeout=5)
            assert asyncio.get_running_loop().time() == 5
            assert done == []
            await asyncio.sleep(60)
        assert done == [30]

    run(main, seed=1)


def test_an_app_that_reads_from_a_client_that_left_learns_it():
    learned: list[str] = []

    async def upload(request: Request) -> PlainTextResponse:
        try:
            await request.body()
        except ClientDisconnect:
            learned.append("disconnected")
        return PlainTextResponse("")

    async def main():
        async def stuck():
            yield b"x"
            await asyncio.sleep(1000)

        async with client_of(app_of(("/", upload))) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await client.post("/", content=stuck())
            await asyncio.sleep(1)
        assert learned == ["disconnected"]

    run(main, seed=1)


def test_background_tasks_run_after_the_answer():
    ran: list[str] = []

    async def later():
        await asyncio.sleep(5)
        ran.append("background")

    async def answer(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok", background=BackgroundTask(later))

    async def main():
        async with client_of(app_of(("/", answer))) as client:
            assert (await client.get("/")).text == "ok"
            assert asyncio.get_running_loop().time() == 0
            await asyncio.sleep(10)
        assert ran == ["background"]

    run(main, seed=1)


def test_latency_is_drawn_from_the_seed_and_paid_in_virtual_time():
    async def answer(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    async def main():
        async with client_of(app_of(("/", answer)), rng=seeded(1), latency=(0.1, 0.5)) as client:
            for _ in range(10):
                await client.get("/")
        return asyncio.get_running_loop().time()

    first = run(main, seed=1)
    assert first == run(main, seed=1)
    assert 2.0 <= first <= 10.0


def test_a_host_that_is_down_refuses_and_one_that_dies_resets_the_connection():
    class Machine:
        life: ProcessLife | None = None

    async def main():
        machine = Machine()
        async with client_of(app_of(("/watch", ticking(1))), host=machine) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get("/watch")
            machine.life = ProcessLife("machine")
            seen: list[str] = []
            async with client.stream("GET", "/watch") as response:
                asyncio.get_running_loop().call_later(4.5, machine.life.end)
                with pytest.raises(httpx2.ReadError, match="reset"):
                    await follow(response, seen)
            assert len(seen) == 5

    run(main, seed=1)


def test_head_has_no_body():
    async def answer(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("body")

    async def main():
        async with client_of(Starlette(routes=[Route("/", answer)])) as client:
            response = await client.head("/")
        assert (response.status_code, response.content) == (200, b"")

    run(main, seed=1)
