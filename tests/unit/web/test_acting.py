"""Acting from a page: who may, what is shown first, and what is refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from doubles.clocks import ShiftedClock
from msgspec.structs import replace
from unit.hosts.made import NOW
from unit.web.page_fixture import TOKEN, fixture_pages, page_data

from paddock.base.clock import SystemClock
from paddock.base.metrics import CollectorRegistry
from paddock.base.rng import seeded
from paddock.hosts.disruption import CORDON_REASON, FORCE
from paddock.kube.builtin import Pod
from paddock.kube.decoding import Listing
from paddock.runners.api import OPERATOR_DRAIN_LABEL
from paddock.simulator.transport import InProcessTransport
from paddock.views.finding import find_mac
from paddock.web.actions import Actor, offered, plan
from paddock.web.app import create_app
from paddock.web.session_authentication import COOKIE, SessionAuthentication

ORIGIN = "http://127.0.0.1:8080"
MACHINE, HOST = "mac-fleet-00000", "00000000-0000-4000-8000-000000000000"


class Cluster:
    """Remembers what it was asked to change. Its Pods are those of the fixture world, unless a test adds one."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, Any]] = []
        self.pods: list[Pod] = list(page_data(12, now=NOW).pods)

    async def list(self, kind: type, namespace: str | None = None, **_: Any) -> Listing[Any]:
        return Listing(self.pods, "1")

    async def merge_patch(self, kind: Any, name: str, patch: Any, namespace: str | None = None) -> None:
        self.changes.append(("patch", name, patch))

    async def delete(self, kind: Any, name: str, namespace: str | None = None, **how: Any) -> None:
        self.changes.append(("delete", name, how))


class Rig:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.pages = fixture_pages(lambda: page_data(12, now=NOW), actor=Actor(self.cluster))  # pyright: ignore[reportArgumentType]
        self.app = create_app(self.pages, CollectorRegistry(), healthy=lambda: None)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
async def browser(rig: Rig) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=InProcessTransport(rig.app), base_url=ORIGIN) as client:
        yield client


async def signed_in(browser: httpx2.AsyncClient) -> None:
    answer = await browser.post(
        "/sign-in", data={"token": TOKEN.reveal(), "who": "Ada", "then": f"/actions/release/{MACHINE}"}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, f"/actions/release/{MACHINE}")


async def form(browser: httpx2.AsyncClient, path: str) -> dict[str, str]:
    text = (await browser.get(path)).text
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text))


async def test_whoever_has_no_session_is_asked_for_the_token_first(browser: httpx2.AsyncClient) -> None:
    answer = await browser.get(f"/actions/release/{MACHINE}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/sign-in?then=/actions/release/{MACHINE}")
    wrong = await browser.post("/sign-in", data={"token": "guess", "who": "Eve"})
    assert wrong.status_code == 403
    assert COOKIE not in wrong.cookies


async def test_the_session_is_a_cookie_that_no_script_and_no_other_site_gets(browser: httpx2.AsyncClient) -> None:
    answer = await browser.post("/sign-in", data={"token": TOKEN.reveal(), "who": "Ada"})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN.reveal() not in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "then", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""]
)
async def test_signing_in_never_leads_to_another_site(browser: httpx2.AsyncClient, then: str) -> None:
    answer = await browser.post("/sign-in", data={"token": TOKEN.reveal(), "who": "Ada", "then": then})
    assert answer.headers["location"] == "/"


async def test_the_plan_says_what_it_ends_and_offers_to_drain_first(browser: httpx2.AsyncClient, rig: Rig) -> None:
    await signed_in(browser)
    text = (await browser.get(f"/actions/release/{MACHINE}")).text
    assert "1 running job of acme, 14 min in" in text
    assert f'href="/actions/drain/{MACHINE}"' in text
    assert "Release, and end the job" in text
    assert rig.cluster.changes == []


async def test_a_confirmed_release_deletes_that_very_machine(browser: httpx2.AsyncClient, rig: Rig) -> None:
    await signed_in(browser)
    fields = await form(browser, f"/actions/release/{MACHINE}")
    answer = await browser.post(
        f"/actions/release/{MACHINE}", data={**fields, "why": "fan"}, headers={"origin": ORIGIN}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, f"/hosts/{HOST}")
    forced, deleted = rig.cluster.changes
    assert forced[1] == MACHINE
    given_up = {"metadata": {"uid": "machine-0", "annotations": {FORCE: fields["shown"]}}}
    assert forced[2] == given_up, "its job was shown and given up, and no other"
    assert deleted == ("delete", MACHINE, {"uid": "machine-0"})


async def test_a_job_that_came_since_the_plan_was_shown_is_shown_again_and_not_ended(
    browser: httpx2.AsyncClient, rig: Rig
) -> None:
    await signed_in(browser)
    fields = await form(browser, f"/actions/release/{MACHINE}")
    first = rig.cluster.pods[0]
    meta = type(first.metadata)(name="late", uid="late", labels=first.metadata.labels)
    rig.cluster.pods.append(Pod(metadata=meta, spec=first.spec, status=first.status))
    answer = await browser.post(f"/actions/release/{MACHINE}", data=fields, headers={"origin": ORIGIN})
    assert answer.status_code == 409
    assert "Another job has started there since" in answer.text
    unseen = await browser.post(f"/actions/release/{MACHINE}", data={**fields, "shown": ""}, headers={"origin": ORIGIN})
    assert unseen.status_code == 409
    assert rig.cluster.changes == []


async def test_nothing_is_forced_where_the_job_that_was_given_up_has_ended(
    browser: httpx2.AsyncClient, rig: Rig
) -> None:
    await signed_in(browser)
    fields = await form(browser, f"/actions/release/{MACHINE}")
    rig.cluster.pods = [replace(pod, status=replace(pod.status, phase="Succeeded")) for pod in rig.cluster.pods]
    answer = await browser.post(f"/actions/release/{MACHINE}", data=fields, headers={"origin": ORIGIN})
    assert answer.status_code == 303
    assert rig.cluster.changes == [("delete", MACHINE, {"uid": "machine-0"})]


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1:9999", "http://127.0.0.1"])
async def test_a_form_of_another_page_does_nothing(browser: httpx2.AsyncClient, rig: Rig, origin: str | None) -> None:
    await signed_in(browser)
    fields = await form(browser, f"/actions/drain/{MACHINE}")
    headers = {"origin": origin} if origin is not None else {}
    assert (await browser.post(f"/actions/drain/{MACHINE}", data=fields, headers=headers)).status_code == 403
    assert rig.cluster.changes == []


async def test_a_form_without_the_token_of_this_session_does_nothing(browser: httpx2.AsyncClient, rig: Rig) -> None:
    await signed_in(browser)
    for token in ("", "0" * 64):
        answer = await browser.post(f"/actions/drain/{MACHINE}", data={"form_token": token}, headers={"origin": ORIGIN})
        assert answer.status_code == 403
    huge = await browser.post(f"/actions/drain/{MACHINE}", content=b"a=" + b"x" * 100_000, headers={"origin": ORIGIN})
    assert huge.status_code == 403
    assert rig.cluster.changes == []


async def test_nothing_is_changed_by_a_get(browser: httpx2.AsyncClient, rig: Rig) -> None:
    await signed_in(browser)
    for verb in ("release", "drain", "undrain", "quarantine", "unquarantine"):
        await browser.get(f"/actions/{verb}/{MACHINE}")
    assert rig.cluster.changes == []


async def test_drain_quarantine_and_a_pods_drain_are_patches_of_that_very_object(
    browser: httpx2.AsyncClient, rig: Rig
) -> None:
    await signed_in(browser)
    for verb, name in (("drain", MACHINE), ("quarantine", HOST), ("drain-pod", "macos-runner-00000")):
        fields = await form(browser, f"/actions/{verb}/{name}")
        sent = {**fields, "why": "a fan is loud"}
        assert (await browser.post(f"/actions/{verb}/{name}", data=sent, headers={"origin": ORIGIN})).status_code == 303
    patches = [patch for _, _, patch in rig.cluster.changes]
    marks = {CORDON_REASON: None}
    assert patches[0] == {"metadata": {"uid": "node-0", "annotations": marks}, "spec": {"unschedulable": True}}
    assert patches[1]["spec"] == {"quarantine": "a fan is loud"}
    assert patches[2]["metadata"]["labels"] == {OPERATOR_DRAIN_LABEL: "true"}


async def test_a_quarantine_needs_a_reason(browser: httpx2.AsyncClient, rig: Rig) -> None:
    await signed_in(browser)
    fields = await form(browser, f"/actions/quarantine/{HOST}")
    answer = await browser.post(f"/actions/quarantine/{HOST}", data={**fields, "why": "  "}, headers={"origin": ORIGIN})
    assert answer.status_code == 400
    assert rig.cluster.changes == []


def test_what_cannot_be_done_says_why() -> None:
    seen = page_data(12, now=NOW)
    free = next(host for host in seen.hosts if host.status.state == "pooled").metadata.name
    for verb in ("release", "drain", "unquarantine", "undrain"):
        made = plan(verb, free, seen)
        assert made is not None
        assert made.refused
    assert plan("explode", MACHINE, seen) is None
    assert plan("release", "nobody", seen) is None


def test_the_plan_of_a_release_says_that_an_ordered_mac_is_deleted_at_the_cloud() -> None:
    seen = page_data(12, now=NOW)
    ordered = [
        replace(one, spec=replace(one.spec, source="Order")) if one.metadata.name == MACHINE else one
        for one in seen.machines
    ]
    made = plan("release", MACHINE, dataclasses.replace(seen, machines=ordered))
    assert made is not None
    assert any("is deleted at the cloud" in step for step in made.steps)
    assert not any("pool" in step for step in made.steps)
    assert "wiped" not in made.undo


def test_a_node_that_the_operator_closed_may_still_be_drained_by_a_person() -> None:
    seen = page_data(12, now=NOW)
    node = next(node for node in seen.nodes if node.metadata.name == MACHINE)
    marks = {CORDON_REASON: f"bootstrap of machine {MACHINE}"}
    closed = replace(
        node, metadata=replace(node.metadata, annotations=marks), spec=replace(node.spec, unschedulable=True)
    )
    seen = dataclasses.replace(seen, nodes=[closed])
    drain, undrain = plan("drain", MACHINE, seen), plan("undrain", MACHINE, seen)
    assert drain is not None
    assert undrain is not None
    assert (drain.refused, undrain.refused) == ("", "")
    assert any("closes it again while that lasts" in step for step in undrain.steps)
    assert offered("machine", find_mac(MACHINE, seen.hosts, seen.machines, seen.nodes), None)[:2] == [
        "drain",
        "undrain",
    ]


def request(cookie: str) -> Any:
    from starlette.requests import Request

    return Request({"type": "http", "headers": [(b"cookie", f"{COOKIE}={cookie}".encode())]})


def test_a_session_ends_after_twelve_hours_and_cannot_be_forged() -> None:
    clock = ShiftedClock()
    door = SessionAuthentication(TOKEN, clock, seeded(1))
    visitor = door.admit(TOKEN.reveal(), "Ada\nLovelace")
    assert visitor is not None
    assert visitor.who == "Ada Lovelace"
    assert door.visitor(request(visitor.cookie)) == visitor
    # The first letter of the signature: the last one has bits that no decoder looks at.
    said, _, signature = visitor.cookie.rpartition(".")
    assert door.visitor(request(f"{said}.{'0' if signature[0] != '0' else '1'}{signature[1:]}")) is None
    assert door.visitor(request("x." + visitor.cookie.rpartition(".")[2])) is None
    clock.ahead = timedelta(hours=13)
    assert door.visitor(request(visitor.cookie)) is None


def test_processes_that_share_the_token_know_each_others_sessions_and_no_others() -> None:
    from paddock.base.secrets import Secret

    clock = SystemClock()
    visitor = SessionAuthentication(TOKEN, clock, seeded(1)).admit(TOKEN.reveal(), "Ada")
    assert visitor is not None
    assert SessionAuthentication(TOKEN, clock, seeded(2)).visitor(request(visitor.cookie)) == visitor
    assert SessionAuthentication(Secret("another"), clock, seeded(1)).visitor(request(visitor.cookie)) is None


def test_only_an_open_house_gives_sessions_to_anybody() -> None:
    clock = SystemClock()
    assert SessionAuthentication(TOKEN, clock, seeded(1)).welcome(request("")) is None
    assert SessionAuthentication(None, clock, seeded(1), open_house=True).welcome(request("")) is None
    assert SessionAuthentication(TOKEN, clock, seeded(1), open_house=True).welcome(request("")) is not None


@pytest.mark.parametrize("cookie", ["bm9ib2R5.\xe9", "\xe9.abc", "\u20ac", "a.b.c", ".", "x" * 5000])
def test_a_cookie_that_is_not_ours_is_no_session_whatever_it_holds(cookie: str) -> None:
    assert SessionAuthentication(TOKEN, SystemClock(), seeded(1)).visitor(request(cookie)) is None


def test_a_form_token_outside_of_ascii_is_refused_as_any_other_wrong_one() -> None:
    from starlette.requests import Request

    door = SessionAuthentication(TOKEN, SystemClock(), seeded(1))
    visitor = door.admit(TOKEN.reveal(), "Ada")
    headers = [(b"origin", b"http://paddock.test"), (b"host", b"paddock.test")]
    posted = Request({"type": "http", "headers": headers})
    assert "not from this session" in (door.refuses(posted, visitor, "\xe9") or "")
    assert visitor is not None
    assert door.refuses(posted, visitor, visitor.form_token) is None


def test_a_session_from_the_future_is_refused() -> None:
    ahead = ShiftedClock(ahead=timedelta(minutes=5))
    visitor = SessionAuthentication(TOKEN, ahead, seeded(1)).admit(TOKEN.reveal(), "Ada")
    assert visitor is not None
    assert SessionAuthentication(TOKEN, SystemClock(), seeded(1)).visitor(request(visitor.cookie)) is None
