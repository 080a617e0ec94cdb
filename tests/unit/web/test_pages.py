"""Pages are for everybody: words before colours, and nothing that an object says is taken for HTML."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest

from paddock.web.pages import fragments, page
from paddock.web.view import EventLine, FleetView, Tile

STATES = ("pooled", "claiming", "owned", "releasing", "foreign", "stranded", "gone")
NASTY = '<script>alert("x")</script>&"\'><img src=x onerror=alert(1)>'


def tile(state: str = "pooled", **fields: str) -> Tile:
    plain = {
        "name": f"host-{state}",
        "zone": "fr-par-1",
        "cloud_status": "ready",
        "machine": "",
        "type": "M4-M",
        "doing": "",
        "why": "",
        "floor": "",
    }
    return Tile(state=state, **{**plain, **fields})


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


def shown(view: FleetView) -> Elements:
    return Elements(str(page(view, title="Paddock", hint="simulated cloud · fr-par-1")))


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_said_in_words_and_has_a_sign_of_its_own(state: str) -> None:
    fleet = str(fragments(FleetView(tiles=[tile(state)]))["fleet"])
    found = re.search(rf"Macs(\S) {state}host-{state}", Elements(fleet).text)
    assert found, "the sign and the word come before the name"
    others = [str(fragments(FleetView(tiles=[tile(other)]))["fleet"]) for other in STATES if other != state]
    assert not [text for text in others if found[1] in text]


def test_a_host_without_a_verdict_is_called_unknown() -> None:
    assert "unknown" in Elements(str(fragments(FleetView(tiles=[tile("")]))["fleet"])).text


def test_no_page_carries_colours_or_scripts_in_itself() -> None:
    seen = shown(FleetView(tiles=[tile(state) for state in STATES]))
    assert not [attrs for _, attrs in seen.seen if "style" in attrs or any(name.startswith("on") for name in attrs)]
    assert [attrs["src"] for attrs in seen.all("script")] == ["/static/live.js"]
    assert not seen.all("style")


def test_whatever_objects_say_is_text_and_never_html() -> None:
    view = FleetView(
        tiles=[tile(NASTY, name=NASTY, zone=NASTY, machine=NASTY, type=NASTY, doing=NASTY, why=NASTY, floor=NASTY)],
        events=[EventLine(NASTY, NASTY, NASTY, NASTY, warning=True)],
        problems=[NASTY],
        states=Counter({NASTY: 1}),
    )
    seen = Elements(str(page(view, title=NASTY, hint=NASTY)))
    assert len(seen.all("script")) == 1
    assert not seen.all("img")
    assert seen.text.count(NASTY) >= 9
    for part in fragments(view).values():
        assert not Elements(str(part)).all("script")


def test_every_part_is_html_by_itself_so_that_a_live_page_can_take_it() -> None:
    view = FleetView(tiles=[tile(), tile("owned", zone="fr-par-2")])
    for name, part in fragments(view).items():
        assert str(part).startswith("<"), name
        assert str(part).endswith(">"), name


def test_each_living_part_has_an_element_on_the_page() -> None:
    seen = shown(FleetView())
    for name in fragments(FleetView()):
        assert seen.all("section", id=name)


def test_a_tile_says_what_happens_on_the_mac_and_otherwise_what_the_cloud_says() -> None:
    busy = Elements(str(fragments(FleetView(tiles=[tile("owned", doing="reach ssh")]))["fleet"])).text
    assert "M4-M · reach ssh" in busy
    idle = Elements(str(fragments(FleetView(tiles=[tile("pooled", floor="floor 5 min")]))["fleet"])).text
    assert "M4-M · ready · floor 5 min" in idle


def test_zones_are_told_apart_and_counted() -> None:
    view = FleetView(tiles=[tile("owned"), tile("pooled"), tile("pooled", zone="fr-par-2")])
    text = Elements(str(fragments(view)["fleet"])).text
    assert "fr-par-1 2 Macs" in text
    assert "fr-par-2 1 Macs" in text


def test_a_stranded_host_raises_an_alarm_in_the_numbers_and_none_does_not() -> None:
    alarmed = Elements(str(fragments(FleetView(states=Counter(stranded=2)))["strip"]))
    assert len(alarmed.all("div", **{"class": "alarm"})) == 1
    assert "stranded2" in alarmed.text
    assert not Elements(str(fragments(FleetView())["strip"])).all("div", **{"class": "alarm"})


def test_nothing_yet_is_said_rather_than_left_blank() -> None:
    text = shown(FleetView()).text
    assert "No Mac is known yet" in text
    assert "Nothing has happened yet." in text
    assert "No problem is known." in text


def test_the_page_says_its_language_has_a_way_past_the_header_and_tables_with_headings() -> None:
    seen = shown(FleetView(events=[EventLine("12:00:00", "Released", "host/a", "wiped", warning=False)]))
    assert seen.all("html", lang="en")
    assert seen.all("a", href="#fleet")
    assert seen.all("caption")
    assert all(attrs["scope"] == "col" for attrs in seen.all("th"))
    assert all("aria-label" in attrs for attrs in seen.all("section"))
