"""`kubectl logs` against the embedded API, and the one sentence for what needs a connection into a Pod."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store.memory import MemoryStore
from paddock.simulator.transport import InProcessTransport

TOKEN = "admin"
PODS = "/api/v1/namespaces/default/pods"
OLD = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Piece:
    at: datetime
    content: bytes


@dataclass
class Log:
    pieces: list[Piece] = field(default_factory=list)
    ended: bool = False

    @property
    def next_byte(self) -> int:
        return sum(len(piece.content) for piece in self.pieces)


class Posted:
    def __init__(self) -> None:
        self.logs: dict[str, Log] = {}

    async def read(self, pod_uid: str, *, after: int = 0) -> Any:
        log = self.logs.get(pod_uid)
        if log is None:
            return None
        whole = b"".join(piece.content for piece in log.pieces)
        pieces = log.pieces if not after else [Piece(log.pieces[-1].at, whole[after:])] if whole[after:] else []
        shown = Log(list(pieces), log.ended)
        return _At(shown.pieces, log.next_byte, log.ended)


@dataclass
class _At:
    pieces: list[Piece]
    next_byte: int
    ended: bool


class Cluster:
    def __init__(self) -> None:
        self.plane = ControlPlane(
            MemoryStore(), SystemClock(), seeded(1), admin_token=Secret(TOKEN), signing_key=generate_key()
        )
        self.posted = Posted()
        self.plane.app.logs.source = self.posted
        self.http = httpx2.AsyncClient(
            transport=InProcessTransport(self.plane.app),
            base_url="https://api",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )

    async def pod(self, name: str = "p", phase: str = "Running", **status: Any) -> str:
        await self.http.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "default"}})
        spec = {"nodeName": "mac-1", "containers": [{"name": "runner", "image": "i"}]}
        made = await self.http.post(PODS, json={"metadata": {"name": name}, "spec": spec})
        assert made.status_code == 201, made.text
        await self.become(name, phase, **status)
        return made.json()["metadata"]["uid"]

    async def become(self, name: str, phase: str, **status: Any) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        body = {"status": {"phase": phase, **status}}
        answer = await self.http.patch(f"{PODS}/{name}/status", json=body, headers=headers)
        assert answer.status_code == 200, answer.text

    async def log(self, name: str = "p", **query: str) -> httpx2.Response:
        return await self.http.get(f"{PODS}/{name}/log", params=query)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    async with made.plane.running():
        yield made


async def test_a_log_is_shown_as_it_was_posted(cluster: Cluster) -> None:
    uid = await cluster.pod()
    cluster.posted.logs[uid] = Log([Piece(OLD, b"one\ntwo\n"), Piece(datetime.now(UTC), b"three\n")])
    shown = await cluster.log()
    assert (shown.status_code, shown.text, shown.headers["content-type"]) == (200, "one\ntwo\nthree\n", "text/plain")
    assert (await cluster.log(tailLines="2")).text == "two\nthree\n"
    assert (await cluster.log(tailLines="0")).text == ""
    assert (await cluster.log(limitBytes="5")).text == "one\nt"
    assert (await cluster.log(sinceSeconds="60")).text == "three\n"
    assert (await cluster.log(sinceTime=(OLD + timedelta(hours=1)).isoformat())).text == "three\n"
    assert (await cluster.log(timestamps="true", tailLines="3")).text.startswith("2026-01-01T00:00:00Z one\n")
    assert (await cluster.log(container="runner")).text == shown.text


async def test_control_characters_of_a_hostile_log_do_not_reach_a_terminal(cluster: Cluster) -> None:
    uid = await cluster.pod()
    cluster.posted.logs[uid] = Log([Piece(OLD, b"\x1b]0;owned\x07\x1b[2Jtext\r\x9b\xff\tend\n")])
    text = (await cluster.log()).text
    assert text.endswith("\tend\n")
    assert not [c for c in text if ord(c) < 32 and c not in "\n\t"]
    assert "\x9b" not in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"previous": "true"}, "never runs twice"),
        ({"container": "other"}, "container other is not valid for pod p"),
        ({"tailLines": "many"}, "tailLines is 'many'"),
        ({"tailLines": "-1"}, "tailLines is '-1'"),
        ({"limitBytes": "0"}, "limitBytes is '0'"),
        ({"sinceTime": "yesterday"}, "sinceTime 'yesterday'"),
        ({"sinceTime": "2026-01-01T00:00:00"}, "no time zone"),
        ({"sinceTime": "2026-01-01T00:00:00Z", "sinceSeconds": "1"}, "cannot both"),
    ],
)
async def test_what_cannot_be_shown_is_refused_with_a_sentence(
    cluster: Cluster, query: dict[str, str], said: str
) -> None:
    await cluster.pod()
    answer = await cluster.log(**query)
    assert answer.status_code == 400
    assert said in answer.json()["message"]


async def test_a_pod_that_has_not_started_says_what_it_waits_for(cluster: Cluster) -> None:
    waiting = {"name": "runner", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    waiting["state"] = {"waiting": {"reason": "ImagePulling"}}
    await cluster.pod(phase="Pending", containerStatuses=[waiting])
    answer = await cluster.log()
    assert answer.status_code == 400
    assert answer.json()["message"] == 'container "runner" in pod "p" is waiting to start: ImagePulling'


async def test_where_nothing_was_posted_a_pods_last_words_are_shown(cluster: Cluster) -> None:
    ended = {"name": "runner", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    ended["state"] = {"terminated": {"exitCode": 1, "message": "there is no runner\n"}}
    await cluster.pod(phase="Failed", containerStatuses=[ended])
    assert (await cluster.log()).text == "there is no runner\n"
    assert (await cluster.log("nobody")).status_code == 404


async def test_follow_shows_what_comes_until_the_log_has_ended(cluster: Cluster) -> None:
    uid = await cluster.pod()
    log = cluster.posted.logs[uid] = Log([Piece(OLD, b"one\n")])

    async def go_on() -> None:
        await asyncio.sleep(0.05)
        log.pieces.append(Piece(OLD, b"two\n"))
        log.ended = True

    writing = asyncio.create_task(go_on())
    async with asyncio.timeout(30):
        shown = await cluster.log(follow="true")
    await writing
    assert shown.text == "one\ntwo\n"


async def test_follow_ends_with_the_pod(cluster: Cluster) -> None:
    await cluster.pod(phase="Succeeded")
    async with asyncio.timeout(30):
        assert (await cluster.log(follow="true")).text == ""


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("way", ["exec", "attach", "portforward", "proxy", "proxy/metrics"])
async def test_what_needs_a_connection_into_a_pod_is_refused_with_one_sentence(
    cluster: Cluster, method: str, way: str
) -> None:
    await cluster.pod()
    answer = await cluster.http.request(method, f"{PODS}/p/{way}", headers={"Accept": "*/*"})
    assert (answer.status_code, answer.json()["reason"]) == (501, "NotImplemented")
    assert "Pod p" in answer.json()["message"]
    assert "mac-1" in answer.json()["message"]
    assert "kubectl logs" in answer.json()["message"]
    assert (await cluster.http.request(method, f"{PODS}/nobody/{way}")).status_code == 404


async def test_a_log_is_for_those_who_may_read_it(cluster: Cluster) -> None:
    await cluster.pod()
    stranger = {"Authorization": "Bearer nobody"}
    assert (await cluster.http.get(f"{PODS}/p/log", headers=stranger)).status_code == 401
