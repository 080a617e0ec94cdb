"""The front page is for everybody: words before colours, and nothing that an object says is taken for HTML."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.made import NOW, host
from unit.web.page_fixture import page_data

from paddock.kube.builtin import Event, Node, NodeSpec, ObjectReference
from paddock.kube.objects import Condition, ObjectMeta
from paddock.web import assets
from paddock.web.assets import asset
from paddock.web.front import front_frame, front_inside, front_parts
from paddock.web.links import foreign, linked
from paddock.web.live import Frame
from paddock.web.page_data import PageData
from paddock.web.shell import Site
from paddock.web.tiles import STATES

NASTY = '<script>alert("x")</script>&"\'><img src=x onerror=alert(1)>'


class Elements(HTMLParser):
    """Every element with its attributes, and the text as people read it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text.encode().decode())  # htpy's markup is a str that escapes whatever is joined with it

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str, **with_: Any) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.seen if name == tag and with_.items() <= attrs.items()]


def page(seen: PageData) -> Elements:
    parts = front_parts(seen, lambda name: f"/runbooks/{name}")
    before, after = front_frame(Site("simulated cloud · fr-par-1"))
    return Elements(f"{before}{front_inside(Frame('0-1', parts), seen.now)}{after}")


@pytest.mark.parametrize("hosts", [24, 200])
def test_every_mac_is_said_in_words_large_or_small(hosts: int) -> None:
    seen = page_data(hosts)
    shown = page(seen)
    tiles = [
        a for a in shown.all("a") if (a.get("href") or "").startswith("/hosts/") and "tile" in (a.get("class") or "")
    ]
    assert len(tiles) == hosts
    words = {state.word for state in STATES.values()}
    if hosts == 200:
        assert all((tile["title"] or "").split(": ")[1].split(",")[0] in words for tile in tiles)
    assert "stranded" in shown.text


def test_what_cannot_be_known_is_a_dash_and_never_a_zero() -> None:
    seen = page_data(4)
    away = PageData(now=seen.now, hosts=seen.hosts, machines=seen.machines, runners=True, ledger=None)
    shown = page(away)
    assert shown.text.count("\u2013") >= 4
    assert "the line of jobs cannot be read" in shown.text


def test_an_installation_without_a_runner_half_does_not_miss_it() -> None:
    seen = page_data(4)
    shown = page(PageData(now=seen.now, hosts=seen.hosts[:2], machines=seen.machines, runners=False))
    assert "No GitHub App is configured" in shown.text
    assert "cannot be read" not in shown.text


def test_an_empty_world_teaches_what_comes_next() -> None:
    assert "the first look at the cloud is under way" in page(PageData(now=NOW)).text


def test_a_problem_has_its_reason_what_is_being_done_the_command_and_the_runbook() -> None:
    shown = page(page_data(24))
    assert "paddock why host 00000003-0000-4000-8000-000000000000" in shown.text
    assert "Already under way" in shown.text
    assert shown.all("a", href="/runbooks/PaddockStrandedHosts")


def test_no_page_carries_colours_or_scripts_in_itself() -> None:
    shown = page(page_data(24))
    assert not [attrs for _, attrs in shown.seen if "style" in attrs or any(name.startswith("on") for name in attrs)]
    assert [attrs["src"] for attrs in shown.all("script")] == [asset("page.js"), asset("live.js"), asset("charts.js")]
    assert not shown.all("style")


def test_whatever_objects_say_is_text_and_never_html() -> None:
    said = (Condition("Ready", "False", NASTY, NASTY, NOW),)
    event = Event(
        metadata=ObjectMeta(name="e"),
        involved_object=ObjectReference(kind=NASTY, name=NASTY),
        reason=NASTY,
        message=NASTY,
        type="Warning",
        last_timestamp=NOW,
    )
    mac = host(NASTY, spec={"zone": NASTY, "quarantine": NASTY}, state="stranded", cloud_name=NASTY, conditions=said)
    shown = page(PageData(now=NOW, hosts=[mac], events=[event], told=[NASTY]))
    assert len(shown.all("script")) == 3
    assert [image["src"] for image in shown.all("img")] == [asset("paddock.svg")]
    assert shown.text.count(NASTY) >= 5


def test_nor_is_it_on_a_page_of_many_macs() -> None:
    macs = [host(f"{NASTY}{number}", state="stranded", cloud_name=NASTY) for number in range(80)]
    shown = page(PageData(now=NOW, hosts=macs))
    assert len(shown.all("script")) == 3
    assert len([a for a in shown.all("a") if NASTY in (a.get("title") or "")]) == 80
    assert len([li for li in shown.all("li") if NASTY in (li.get("id") or "")]) == 80


def test_the_same_thing_happening_to_many_is_one_line() -> None:
    events = [
        Event(
            metadata=ObjectMeta(name=f"e-{number}"),
            involved_object=ObjectReference(kind="Pod", name=f"p-{number}"),
            reason="RunnerFailed",
            message="ended",
            last_timestamp=NOW,
        )
        for number in range(30)
    ]
    assert "and 29 more" in page(PageData(now=NOW, events=events)).text


@pytest.mark.parametrize("hosts", [30, 200])
def test_every_id_is_there_once(hosts: int) -> None:
    ids = [attrs["id"] for _, attrs in page(page_data(hosts)).seen if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_every_part_has_its_place_in_the_page() -> None:
    seen = page_data(30)
    ids = {attrs["id"] for _, attrs in page(seen).seen if "id" in attrs}
    assert set(front_parts(seen, lambda _: None)) <= ids


def test_every_state_has_its_letter_in_the_style_sheet_too() -> None:
    style = (Path(assets.__file__).parent / "static" / "paddock.css").read_text()
    for state in STATES.values():
        assert f'.small[data-state="{state.name}"]::before {{ content: "{state.letter}"; ' in style


def test_that_time_went_by_is_no_change() -> None:
    early, late = (replace(page_data(30), now=NOW + timedelta(seconds=late)) for late in (1, 8))
    before, after = (front_parts(seen, lambda _: None) for seen in (early, late))
    changed = {name for name, part in before.items() if part.key != after[name].key}
    # Money says in words when the next Mac may be given back.
    assert changed <= {"money"}


def test_a_pool_says_what_it_wants_and_has() -> None:
    shown = page(page_data(24))
    assert shown.all("a", href="/pools/macos")
    assert shown.all("svg", **{"aria-label": "8 busy, 2 warm, 0 starting"})


def test_what_goes_on_and_is_no_problem_is_said_in_a_line_with_its_place() -> None:
    seen = page_data(24)
    node = Node(metadata=ObjectMeta(name=seen.machines[0].metadata.name), spec=NodeSpec(unschedulable=True))
    shown = page(replace(seen, nodes=[node]))
    assert shown.all("ul", **{"aria-label": "Going on"})
    assert f"machine {node.metadata.name}: its Node is cordoned" in " ".join(shown.text.split()).replace(" :", ":")
    assert not page(replace(seen, machines=[], hosts=[], pools=[], nodes=[], ledger=None)).all(
        "ul", **{"aria-label": "Going on"}
    )


def test_what_strangers_call_their_jobs_turns_no_writing_around_it() -> None:
    """A right-to-left override would show the rest of the line backwards, and an escape is no text."""
    assert str(foreign("app\u202egnp.exe\x1b[31m")) == "<bdi>appgnp.exe[31m</bdi>"
    assert "".join(str(part) for part in linked("waits: \u2066x")) == "waits: x"


def test_no_column_is_without_a_name() -> None:
    assert '<th scope="col"></th>' not in "".join(
        part.html() for part in front_parts(page_data(24), lambda _: None).values()
    )
