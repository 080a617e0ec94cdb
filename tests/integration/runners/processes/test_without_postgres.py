"""A dispatch process whose Postgres is not there: what needs none is served, jobs follow without a restart."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import httpx2
import pytest
from doubles.clocks import WITHIN, ShiftedClock
from doubles.github import StubGitHub
from integration.runners.dispatch.rig import NAMESPACE, Cluster, until
from integration.runners.ledger.rig import ACME, Bench, job
from integration.runners.processes.cut_way import PASSWORD, CutWay
from psycopg.conninfo import make_conninfo
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from structlog.testing import capture_logs

from paddock.base.metrics import CollectorRegistry, exposition
from paddock.base.migrations import NewerDatabaseError
from paddock.base.secrets import Secret
from paddock.cli.dispatch_process import DispatchProcess, Doors, ProcessContext, Storeless
from paddock.kube.metrics import KubeMetrics
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch import PATH

SETTINGS = DispatchSettings(namespace=NAMESPACE, hold=5.0, hold_unasked=1.0, serve_deadline=5.0, backstop=0.5)
WEBHOOK = "/webhooks/github"


@dataclass
class Started:
    process: DispatchProcess
    clock: ShiftedClock
    registry: CollectorRegistry
    running: asyncio.Task[None]
    outside: httpx2.AsyncClient
    operators: httpx2.AsyncClient

    async def probe(self, path: str) -> tuple[int, str]:
        answer = await self.operators.get(path)
        return answer.status_code, answer.text

    async def is_ready(self) -> bool:
        return (await self.probe("/readyz"))[0] == 200


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@asynccontextmanager
async def started(
    cluster: Cluster, way: CutWay, bench: Bench, *, storeless: tuple[Storeless, ...] = ()
) -> AsyncIterator[Started]:
    """A process that listens. Nothing is shared with an earlier one but cluster and database."""
    clock, rng, registry = ShiftedClock(both=True), random.Random(5), CollectorRegistry()
    context = ProcessContext(
        dsn=way.dsn,
        client=cluster.client,
        github=StubGitHub(unknown_jobs="queued"),
        scale_sets=None,
        secrets=lambda: (Secret("the webhook's secret"),),
        clock=clock,
        rng=rng,
        registry=registry,
        kube_metrics=KubeMetrics(registry),
        schema=bench.schema,
        name="test",
    )
    outside_port, operators_port = free_port(), free_port()
    doors = Doors(("127.0.0.1", outside_port), ("127.0.0.1", operators_port))
    process = DispatchProcess(context, SETTINGS, doors, storeless)
    running = asyncio.create_task(process.run())
    async with (
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{outside_port}", timeout=WITHIN, trust_env=False) as outside,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{operators_port}", timeout=WITHIN, trust_env=False) as operators,
    ):
        found = Started(process, clock, registry, running, outside, operators)

        async def listens() -> bool:
            if running.done():
                running.result()
            try:
                await outside.get("/")
                await operators.get("/healthz")
            except httpx2.HTTPError:
                return False
            return True

        try:
            await until(listens, WITHIN)
            yield found
        finally:
            process.stop.set()
            await asyncio.wait([running], timeout=WITHIN)
            if running.done() and not running.cancelled() and running.exception() is not None:
                raise running.exception() or AssertionError


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    # A fixture is entered and left by different tasks, which a task group does not survive: so one task holds it.
    made: asyncio.Future[Cluster] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold() -> None:
        async with Cluster().running() as cluster:
            made.set_result(cluster)
            await over.wait()

    holding = asyncio.ensure_future(hold())
    await asyncio.wait({holding, made}, return_when=asyncio.FIRST_COMPLETED)
    if holding.done():
        holding.result()
    yield made.result()
    over.set()
    await holding


@pytest.fixture
def way(bench: Bench) -> Iterator[CutWay]:
    with CutWay.to(bench.dsn) as way:
        yield way


async def test_without_a_postgres_it_lives_and_is_ready_after_a_minute(cluster: Cluster, way: CutWay, bench: Bench):
    async with started(cluster, way, bench) as found:
        await until(lambda: "ready without it in" in found.process.ready().text, WITHIN)
        status, text = await found.probe("/healthz")
        assert status == 200
        assert "the ledger's database does not answer" in text
        assert (await found.probe("/readyz"))[0] == 503
        found.clock.ahead += timedelta(seconds=58)
        assert not await found.is_ready()
        found.clock.ahead += timedelta(seconds=3)
        status, text = await found.probe("/readyz")
        assert (status, "without the ledger" in text) == (200, True)
        assert (await found.probe("/metrics"))[0] == 200


async def test_everything_that_needs_the_store_answers_503_with_one_sentence_and_retry_after(
    cluster: Cluster, way: CutWay, bench: Bench
):
    async with started(cluster, way, bench) as found:
        for method, path in (
            ("POST", WEBHOOK),
            ("POST", PATH),
            ("POST", "/api/internal/runners/pods/progress"),
            ("POST", "/api/internal/runners/pods/log"),
            ("POST", "/api/internal/runners/pods/retire"),
        ):
            answer = await found.outside.request(method, path, json={})
            assert answer.status_code == 503, path
            assert int(answer.headers["Retry-After"]) > 0, path
            assert answer.json() == {
                "error": "dispatch has no database yet, so nothing was done: ask again",
                "reason": "no_ledger",
            }
        await until(lambda: bool(found.process.concerns()[0].found.endswith("No such file or directory")), WITHIN)
        for path in ("/", "/api/v1/strip", "/api/v1/queue", "/machines"):
            answer = await found.operators.get(path)
            assert answer.status_code == 503, path
            assert int(answer.headers["Retry-After"]) > 0, path
            sentence = answer.json()["error"]
            assert "the ledger's database does not answer" in sentence
            assert "since " in sentence
            assert "tries again by itself" in sentence
        # The sentence names the database's host: other sites' scripts do not read it.
        refused = await found.operators.get("/", headers={"Host": "evil.example"})
        assert (refused.status_code, "database" in refused.text) == (421, False)


async def test_what_is_wrong_is_known_at_once_where_status_doctor_and_page_ask(
    cluster: Cluster, way: CutWay, bench: Bench
):
    async with started(cluster, way, bench) as found:
        concerns = {each["about"]: each for each in (await found.operators.get("/api/v1/concerns")).json()}
        assert concerns["database"]["weight"] == "stops"
        assert concerns["database"]["since"]
        assert "the ledger's database does not answer" in concerns["database"]["found"]
        assert "tries again by itself" in concerns["database"]["fix"]


async def test_jobs_are_served_without_a_restart_once_postgres_comes(cluster: Cluster, way: CutWay, bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    pod = await cluster.pod(1)
    headers = {"Authorization": f"Bearer {pod.token}", "Prefer": "wait=5"}
    async with started(cluster, way, bench) as found:
        assert (await found.outside.post(PATH, headers=headers, json={})).status_code == 503
        way.open()
        await until(found.is_ready, WITHIN)
        answer = await found.outside.post(PATH, headers=headers, json={})
        assert (answer.status_code, answer.json()["workflow_job_id"]) == (200, 1)
        assert (await found.operators.get("/api/v1/strip")).status_code == 200
        assert "Paddock" in (await found.operators.get("/")).text
        about = [each["about"] for each in (await found.operators.get("/api/v1/concerns")).json()]
        assert "database" not in about
        assert (await found.probe("/healthz")) == (200, "ok")


async def test_a_process_that_starts_again_while_postgres_is_away_serves_what_needs_none(
    cluster: Cluster, way: CutWay, bench: Bench
):
    async def report(_: Request) -> Response:
        return PlainTextResponse("heard")

    begun = asyncio.Event()

    async def works() -> None:
        begun.set()
        await asyncio.Event().wait()

    waits = ["macs: the first list is under way"]
    part = Storeless({"gateway": works}, [Route("/mac/v1/report", report, methods=["POST"])], lambda: waits)
    way.open()
    for life in ("with Postgres", "without"):
        async with started(cluster, way, bench, storeless=(part,)) as found:
            await asyncio.wait_for(begun.wait(), WITHIN)
            assert (await found.outside.post("/mac/v1/report")).text == "heard", life
            waits[:] = ["macs: the first list is under way"]
            found.clock.ahead += timedelta(seconds=61)
            await until(lambda: found.process.ready().text == "macs: the first list is under way", WITHIN)
            waits.clear()
            await until(found.is_ready, WITHIN)
            if life == "with Postgres":
                await until(lambda: not any(each.weight == "stops" for each in found.process.concerns()), WITHIN)
                assert (await found.operators.get("/api/v1/strip")).status_code == 200
                assert (await found.outside.post("/mac/v1/report")).text == "heard"
                way.cut()
        begun.clear()


async def test_a_stop_while_it_waits_ends_it_at_once(cluster: Cluster, way: CutWay, bench: Bench):
    async with started(cluster, way, bench) as found:
        await until(lambda: found.process.concerns()[0].since is not None, WITHIN)
        found.process.stop.set()
        await asyncio.wait_for(found.running, WITHIN)


async def test_a_stop_ends_it_at_once_also_while_a_server_accepts_and_says_nothing(
    cluster: Cluster, way: CutWay, bench: Bench
):
    accepted = asyncio.Event()

    async def says_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        try:
            await asyncio.Event().wait()
        finally:
            writer.close()

    silent = await asyncio.start_server(says_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    way.dsn = make_conninfo(way.dsn, host="127.0.0.1", port=port, connect_timeout=600)
    try:
        async with started(cluster, way, bench) as found:
            await asyncio.wait_for(accepted.wait(), WITHIN)
            assert (await found.probe("/healthz"))[0] == 200
            found.process.stop.set()
            await asyncio.wait_for(found.running, WITHIN)
    finally:
        silent.close()


async def test_what_no_waiting_mends_ends_the_process_with_its_sentence(cluster: Cluster, way: CutWay, bench: Bench):
    async def life() -> None:
        async with started(cluster, way, bench) as found:
            assert (await found.probe("/healthz"))[0] == 200
            way.open()
            await asyncio.wait_for(asyncio.shield(found.running), WITHIN)

    await bench.ask("INSERT INTO schema_migrations VALUES ('ledger', 9999, '9999_later.sql', 'x', now())")
    try:
        with pytest.raises(NewerDatabaseError, match="start the newer release"):
            await life()
    finally:
        await bench.ask("DELETE FROM schema_migrations WHERE number = 9999")


async def test_the_password_of_the_dsn_is_nowhere_and_the_log_has_a_line_a_change(
    cluster: Cluster, way: CutWay, bench: Bench
):
    with capture_logs() as lines:
        async with started(cluster, way, bench) as found:
            attempts: set[object] = set()

            def several() -> bool:
                attempts.add(found.process._opening.unopened)
                return len(attempts) > 3

            await until(several, WITHIN)
            shown = [
                (await found.operators.get(path)).text
                for path in ("/", "/healthz", "/readyz", "/api/v1/concerns", "/api/v1/strip", "/metrics")
            ]
            shown += [(await found.outside.post(PATH, json={})).text, exposition(found.registry).decode()]
            way.open()
            await until(lambda: not any(each.weight == "stops" for each in found.process.concerns()), WITHIN)
    assert PASSWORD not in f"{shown}{lines}{found.process}{found.process._context}"
    told = [line["event"] for line in lines if "ledger" in line["event"]]
    assert told == ["the ledger cannot be opened; it is tried again until it can", "the ledger is open"]
