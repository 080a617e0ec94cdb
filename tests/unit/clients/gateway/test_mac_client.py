"""What a Mac makes of each answer of the gateway, and of none."""

import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx2
import msgspec
import pytest
import structlog
from doubles.clocks import NOON, SteppedClock

from paddock.base.secrets import Secret
from paddock.clients.dispatch import Refused, Served
from paddock.clients.gateway.authorities import LARGEST_ANSWER, Authorities, GatewayTransport
from paddock.clients.gateway.mac_client import Away, MacClient, Rejected, StandDown, Taken, Unauthorized
from paddock.clients.gateway.messages import Answer, MacFacts, PodState, Report, WantedPod
from paddock.node.keys import Keys

OLD, NEW = "o" * 43, "n" * 43
UID = "0c1d2e3f-0000-4000-8000-000000000001"
MAC = MacFacts(machine_id="m", boot_id="b", booted_at=NOON, cpus=8, memory_bytes=1, disk_bytes=1, seats=2, clock=NOON)
REPORT = Report(folder="f", life=1, word="w", sequence=1, agent="0.2.0", mac=MAC)
ANSWER = Answer(now=NOON, cluster="c")


class Holder:
    """The Mac's keys, in memory."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.full = False

    def read(self) -> Keys:
        return self.keys

    def answered(self, key: str) -> None:
        if self.full:
            raise OSError("no space left on device")
        self.keys = self.keys.answered(key)


class Gateway:
    """Answers with `answer`, but 401 to every key that is not good; remembers what it was asked."""

    def __init__(self, *good: str) -> None:
        self.good = good
        self.asked: list[httpx2.Request] = []
        self.answer: Callable[[httpx2.Request], httpx2.Response] = lambda _request: httpx2.Response(
            200, content=msgspec.json.encode(ANSWER)
        )

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if self.key(request) not in self.good:
            return httpx2.Response(401, json={"error": "no claim holds this key"})
        return self.answer(request)

    @staticmethod
    def key(request: httpx2.Request) -> str:
        return request.headers["authorization"].removeprefix("Bearer ci/mac-1:")

    @property
    def keys(self) -> list[str]:
        return [self.key(each) for each in self.asked]


class Mac:
    def __init__(self, path: Path, keys: Keys, *good: str) -> None:
        self.clock, self.holder, self.gateway = SteppedClock(), Holder(keys), Gateway(*good)
        self.client = MacClient(
            "https://gateway.test/",
            "ci/mac-1",
            self.holder,
            Authorities(path, lambda where, content: None),
            clock=self.clock,
            transport=httpx2.MockTransport(self.gateway),
        )

    async def report(self):
        return await self.client.report(REPORT, 5)

    def answers(self, status: int, **how) -> None:
        self.gateway.answer = lambda _request: httpx2.Response(status, **how)


@pytest.fixture
def mac(tmp_path: Path) -> Mac:
    return Mac(tmp_path / "authorities", Keys(1, "", OLD), OLD)


async def test_a_report_is_answered_with_what_the_mac_should_have(mac: Mac):
    assert await mac.report() == ANSWER
    request = mac.gateway.asked[0]
    assert (request.method, str(request.url)) == ("POST", "https://gateway.test/mac/v1/report?hold=5")
    assert msgspec.json.decode(request.content, type=Report) == msgspec.structs.replace(REPORT, proven=True)


# Keys


def both(tmp_path: Path, *good: str) -> Mac:
    return Mac(tmp_path / "authorities", Keys(2, NEW, OLD), *good)


async def test_the_newest_key_is_tried_first_and_is_not_proven_before_its_answer(tmp_path: Path):
    mac = both(tmp_path, OLD, NEW)
    await mac.report()
    await mac.report()
    assert mac.gateway.keys == [NEW, NEW]
    assert [json.loads(each.content).get("proven", False) for each in mac.gateway.asked] == [False, True]
    assert mac.holder.keys == Keys(2, "", NEW)


async def test_at_a_refusal_the_key_before_is_tried_and_the_newest_once_a_minute(tmp_path: Path):
    mac = both(tmp_path, OLD)
    for _ in range(3):
        assert await mac.report() == ANSWER
        mac.clock.step(20)
    assert mac.gateway.keys == [NEW, OLD, OLD, OLD]
    mac.clock.step(1)
    await mac.report()
    assert mac.gateway.keys[4:] == [NEW, OLD]
    assert mac.holder.keys == Keys(2, NEW, OLD)


async def test_a_refusal_is_believed_only_when_every_key_was_refused(tmp_path: Path):
    mac = both(tmp_path)
    assert await mac.report() == Unauthorized("no claim holds this key")
    assert mac.gateway.keys == [NEW, OLD]
    assert await mac.report() == Unauthorized("no claim holds this key")
    assert sorted(mac.gateway.keys[2:]) == sorted([NEW, OLD])
    # The second one could not be asked: nothing is believed.
    mac.gateway.good = (OLD,)
    mac.answers(503)
    assert isinstance(await mac.report(), Away)


async def test_a_key_that_comes_over_ssh_is_used_at_the_next_report(mac: Mac):
    await mac.report()
    mac.holder.keys = Keys(2, NEW, OLD)
    mac.gateway.good = (OLD, NEW)
    await mac.report()
    assert mac.gateway.keys == [OLD, NEW]


async def test_a_mac_without_a_key_asks_nobody(tmp_path: Path):
    mac = Mac(tmp_path / "authorities", Keys())
    assert isinstance(await mac.report(), Unauthorized)
    assert mac.gateway.asked == []


async def test_a_full_disk_costs_no_report(tmp_path: Path):
    mac = both(tmp_path, OLD, NEW)
    mac.holder.full = True
    assert await mac.report() == ANSWER


# Answers


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, Rejected(400, "why")),
        (404, Rejected(404, "why")),
        (413, Rejected(413, "why")),
        (426, Rejected(426, "why")),
        (409, Taken("why")),
        (410, StandDown("why")),
        (403, Away("why")),
        (500, Away("why")),
        (204, Away("why")),
    ],
)
async def test_each_status_is_one_typed_outcome(mac: Mac, status: int, expected: object):
    mac.answers(status, json={"error": "why"})
    assert await mac.report() == expected


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "rest"), [("7", 7.0), ("Mon, 01 Jun 2026 12:00:09 GMT", 9.0), ("86400", 60.0), ("soon", None)]
)
async def test_who_is_asked_to_come_later_is_told_when(mac: Mac, status: int, header: str, rest: float | None):
    mac.answers(status, headers={"Retry-After": header})
    assert await mac.report() == Away(f"HTTP {status}", rest)


async def test_no_redirect_is_followed(mac: Mac):
    mac.answers(307, headers={"Location": "https://elsewhere.test/"})
    assert await mac.report() == Away("HTTP 307")
    assert len(mac.gateway.asked) == 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[" * 5000, b'{"now":"soon","cluster":"c"}', b"\xff", b'{"now":' + b"9" * 9000 + b"}"]
)
async def test_an_answer_that_cannot_be_read_is_none(mac: Mac, body: bytes):
    mac.answers(200, content=body)
    assert await mac.report() == Away("the gateway's answer cannot be read")


async def test_a_state_that_this_release_does_not_know_costs_no_answer(mac: Mac):
    pod = {"uid": "u", "namespace": "ci", "name": "p", "image": "i", "recorded": "hibernating", "later": 1}
    mac.answers(200, json={"now": "2026-06-01T12:00:00Z", "cluster": "c", "pods": [pod]})
    found = await mac.report()
    assert isinstance(found, Answer)
    assert found.pods == (WantedPod(uid="u", namespace="ci", name="p", image="i", recorded=PodState.OTHER),)


@pytest.mark.parametrize(
    "error", [httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow"), httpx2.RemoteProtocolError("x")]
)
async def test_without_an_answer_nothing_is_known(mac: Mac, error: Exception):
    def fails(_request: httpx2.Request) -> httpx2.Response:
        raise error

    mac.gateway.answer = fails
    found = await mac.report()
    assert isinstance(found, Away)
    assert type(error).__name__ in found.why


async def test_the_environment_chooses_no_proxy(mac: Mac, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert await mac.report() == ANSWER


async def test_no_key_reaches_a_log_or_an_outcome(tmp_path: Path):
    mac = both(tmp_path)
    with structlog.testing.capture_logs() as logs:
        found = [await mac.report()]
        mac.gateway.good = (NEW,)
        mac.holder.full = True
        found.append(await mac.report())
    assert NEW not in repr(found) + repr(logs) + repr(mac.client.bearer())
    assert OLD not in repr(found) + repr(logs)


# Jobs and logs


async def test_a_job_is_asked_for_by_its_pods_path_with_softnet_as_it_is_now(tmp_path: Path):
    mac = both(tmp_path, OLD)
    mac.answers(200, json={"encoded_jit_config": "jit", "owner": "acme", "workflow_job_id": 7})
    softnet = iter([True, False])
    poll = mac.client.poll(UID, lambda: next(softnet), rng=random.Random(1))
    assert await poll.next() == Served(Secret("jit"), "acme", 7)
    assert [each.url.path for each in mac.gateway.asked] == [f"/mac/v1/pods/{UID}/job"] * 2
    assert [json.loads(each.content) for each in mac.gateway.asked] == [{"softnet": True}, {"softnet": False}]
    assert "hold" in mac.gateway.asked[0].url.params
    assert "prefer" not in mac.gateway.asked[0].headers
    assert mac.gateway.keys == [NEW, OLD]


async def test_a_job_is_refused_only_with_every_key(tmp_path: Path):
    mac = both(tmp_path)
    assert isinstance(await mac.client.poll(UID, lambda: True, rng=random.Random(1)).next(), Refused)
    assert mac.gateway.keys == [NEW, OLD]


async def test_a_log_goes_to_its_pods_path_with_a_key_that_counts(tmp_path: Path):
    mac = both(tmp_path, OLD)
    mac.answers(200, json={"next": 9})
    log = mac.client.log(UID)
    assert await log.post(4, b"hello") is None
    assert await log.post(4, b"hello", ended=True) == 9
    assert [str(each.url) for each in mac.gateway.asked] == [
        f"https://gateway.test/mac/v1/pods/{UID}/log?from=4",
        f"https://gateway.test/mac/v1/pods/{UID}/log?from=4&end=true",
    ]
    assert mac.gateway.keys == [NEW, OLD]


# Bounds


@pytest.mark.parametrize(
    "answer",
    [
        lambda: httpx2.Response(200, content=b" " * (LARGEST_ANSWER + 1)),
        lambda: httpx2.Response(200, content=b"x", headers={"Content-Encoding": "br"}),
    ],
    ids=["endless", "compressed"],
)
async def test_no_answer_is_read_without_end(tmp_path: Path, answer: Callable[[], httpx2.Response], authority: bytes):
    path = tmp_path / "authorities"
    path.write_bytes(authority)
    authorities = Authorities(path, lambda where, content: None)
    inner = httpx2.MockTransport(lambda _request: answer())
    client = MacClient(
        "https://gateway.test",
        "ci/mac-1",
        Holder(Keys(1, "", OLD)),
        authorities,
        clock=SteppedClock(),
        transport=GatewayTransport(authorities, lambda _context: inner),
    )
    found = await client.report(REPORT)
    assert isinstance(found, Away)
    assert "ReadError" in found.why
    await client.aclose()


async def test_a_gateways_clock_may_be_far_off(mac: Mac):
    mac.answers(200, content=msgspec.json.encode(Answer(now=NOON + timedelta(days=400), cluster="c")))
    assert isinstance(await mac.report(), Answer)
