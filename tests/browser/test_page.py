"""The page as people meet it: in a browser, with eyes, a keyboard or neither colour nor script."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from browser.looking import Looker
from playwright.sync_api import Browser, expect

from paddock.base.explanation import span

WIDTHS = (400, 1440, 2000)
_LONG = 300_000


@pytest.fixture(scope="session")
def begun(browser: Browser, up: str) -> str:
    """The address, once jobs run and have ended on the simulated Macs."""
    with Looker.opened(browser, up) as looker:
        page = looker.go("/")
        page.wait_for_selector('.tile[data-state="busy"]', timeout=_LONG)
        page.wait_for_selector('[data-stage="done"] .jobs a', timeout=_LONG)
    return up


@pytest.fixture
def alive(browser: Browser, begun: str) -> dict[str, str]:
    """The paths of one page of every kind. Looked up for each test anew: machines, Pods and jobs come and go."""
    with Looker.opened(browser, begun, java_script_enabled=False) as looker:
        looker.go("/")
        paths = {"front": "/"}
        # A Mac that is up has a machine; whether it is still busy when its page is opened does not matter.
        paths["host"] = looker.path_of('.tile[data-state="busy"], .tile[data-state="ready"]')
        looker.go(paths["host"])
        paths["machine"] = looker.path_of('.related a[href^="/machines/"]')
        paths["pool"] = "/pools/macos"
        # Its Pod has ended, and is gone by now or in a moment: its page stays. Which one it was is heard a moment after the end.
        deadline = time.monotonic() + _LONG / 1000
        while "pod" not in paths:
            looker.go("/")
            paths["job"] = looker.path_of('[data-stage="done"] .jobs a')
            looker.go(paths["job"])
            if looker.page.locator('.related a[href^="/pods/"]').count():
                paths["pod"] = looker.path_of('.related a[href^="/pods/"]')
            assert time.monotonic() < deadline, f"{paths['job']} names no Pod"
        paths["fleet"] = "/fleets/mac-fleet"
        paths["faults"] = "/faults"
        paths["confirm"] = f"/actions/drain/{paths['machine'].rpartition('/')[2]}"
        paths["found"] = "/find?q=mac-fleet"
        paths["rewind"] = "/rewind"
        return paths


def test_no_page_has_an_error_a_missing_file_or_a_request_to_the_outside(looker: Looker, alive: dict[str, str]) -> None:
    for path in alive.values():
        looker.go(path)
        looker.page.wait_for_timeout(300)
    assert looker.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_used_and_read_by_everybody(
    browser: Browser, up: str, alive: dict[str, str], scheme: str
) -> None:
    with Looker.opened(browser, up, color_scheme=scheme) as looker:
        for name, path in alive.items():
            looker.go(path)
            assert looker.faults() == [], name
            assert looker.pale() == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing_on_any_kind_of_page(
    browser: Browser, up: str, alive: dict[str, str], axe: str, width: int, scheme: str
) -> None:
    with Looker.opened(browser, up, color_scheme=scheme, viewport={"width": width, "height": 900}) as looker:
        for name, path in alive.items():
            looker.go(path)
            assert looker.violations(axe) == [], name
            assert width > 390 or looker.small() == [], name


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_every_window(
    browser: Browser, up: str, alive: dict[str, str], artefacts: Path, width: int, scheme: str
) -> None:
    with Looker.opened(browser, up, color_scheme=scheme, viewport={"width": width, "height": 900}) as looker:
        for name in ("front", "host", "job", "faults", "confirm"):
            looker.go(alive[name])
            looker.page.wait_for_timeout(400)
            looker.page.screenshot(path=artefacts / f"{name}-{scheme}-{width}.png", full_page=True)
            assert looker.sideways() <= 0, name


def test_pages_reflow_in_a_window_as_narrow_as_a_page_at_four_times_its_size(
    browser: Browser, up: str, alive: dict[str, str]
) -> None:
    with Looker.opened(browser, up, viewport={"width": 320, "height": 800}) as looker:
        for name, path in alive.items():
            looker.go(path)
            assert looker.sideways() <= 0, name


def test_the_page_can_be_read_without_script(browser: Browser, up: str, alive: dict[str, str]) -> None:
    with Looker.opened(browser, up, java_script_enabled=False) as looker:
        page = looker.go("/")
        expect(page.locator("#summary")).to_contain_text("Macs ready")
        expect(page.locator(".tile").first).to_be_visible()
        looker.go(alive["host"])
        expect(page.locator(".sentence")).to_contain_text("machine")
        # The search box asks the server.
        page.get_by_role("searchbox").fill("macos")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("macos")


def test_a_change_arrives_by_itself_and_takes_neither_focus_nor_open_details(
    looker: Looker, alive: dict[str, str]
) -> None:
    page = looker.go("/")
    expect(page.locator("#link")).to_have_text("live")
    tile = page.locator(".tile").first
    tile.focus()
    held = page.evaluate("document.activeElement.getAttribute('href')")
    page.evaluate(
        "() => { window.count = 0; document.addEventListener('paddock:live', (e) => { window.count += e.detail; }); }"
    )
    page.wait_for_function("() => window.count >= 3", timeout=_LONG)
    assert page.evaluate("document.activeElement.getAttribute('href')") == held
    assert page.evaluate("performance.getEntriesByType('navigation').length") == 1
    assert looker.wrong == []


def test_a_fault_is_seen_on_an_open_page_and_led_to_by_keyboard_alone(looker: Looker, alive: dict[str, str]) -> None:
    page = looker.go("/")
    for _ in range(4):
        _strand(looker)
        expect(page.locator('#problems a[href^="/hosts/"]').first).to_be_visible(timeout=_LONG)
        expect(page).to_have_title(re.compile(r"^\(\d+\) Paddock$"))
        assert "alarm" in (page.locator("link[rel=icon]").get_attribute("href") or "")
        # From the top, by keyboard: the skip link, the problem, its page, an action, its plan.
        page = looker.go("/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        if _tab_to(looker, r"^/hosts/", "#problems"):
            break
        # It was healed while we were on the way: that is what Paddock is for. Break another.
    else:
        pytest.fail("no problem stayed long enough to be reached by keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("host")
    assert _tab_to(looker, r"^/actions/quarantine/", ".actions")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="What will be done")).to_be_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "why":
            break
    page.keyboard.type("it was stranded")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("host", timeout=20_000)
    # The cache of the page may be a moment behind the deed.
    for _ in range(20):
        if page.locator(".facts").filter(has_text="it was stranded").count():
            break
        page.wait_for_timeout(500)
        page.reload()
    expect(page.locator(".facts").filter(has_text="it was stranded").first).to_be_visible()
    assert looker.wrong == []


def _strand(looker: Looker) -> None:
    """Break something in another tab, as soon as there is something to break."""
    with looker.context.expect_page() as opened:
        looker.page.evaluate("window.open('/faults', '_blank', 'noopener')")
    panel = opened.value
    done = panel.get_by_role("status").filter(has_text="Done.")
    for _ in range(30):
        panel.get_by_role("button", name="Break it: Force-delete a machine").click()
        panel.wait_for_load_state()
        if done.count():
            break
        panel.wait_for_timeout(2000)
    expect(done).to_be_visible()
    panel.close()


def test_what_is_typed_is_found_in_the_page_and_enter_leads_to_it(looker: Looker, alive: dict[str, str]) -> None:
    page = looker.go("/")
    tiles = page.locator(".grid > li:visible")
    macs = tiles.count()
    name = alive["machine"].rpartition("/")[2]
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.type(name)
    expect(tiles).to_have_count(1)
    expect(page.locator("#said")).to_have_text(f"1 of {macs} Macs fit")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.matches('.tile')")
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(tiles).to_have_count(macs)
    page.keyboard.press("/")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"machine {name}")
    assert looker.wrong == []


def test_arrows_go_from_mac_to_mac(looker: Looker, alive: dict[str, str]) -> None:
    page = looker.go("/")
    place = "[...document.querySelectorAll('.tile')].indexOf(document.activeElement)"
    page.locator(".tile").first.focus()
    for key, index in {"ArrowRight": 1, "ArrowLeft": 0, "End": page.locator(".tile").count() - 1, "Home": 0}.items():
        page.keyboard.press(key)
        assert page.evaluate(place) == index, key
    page.keyboard.press("ArrowDown")
    below = page.evaluate(place)
    assert below > 1
    page.keyboard.press("ArrowUp")
    assert page.evaluate(place) == 0


def test_the_macs_are_one_stop_of_the_tab_key_and_times_are_the_readers_own(
    looker: Looker, alive: dict[str, str]
) -> None:
    page = looker.go("/")
    assert page.locator(".tile[tabindex='0']").count() == 1
    assert page.locator(".tile").count() > 1
    page.locator(".tile[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.tabIndex") == 0, "tab comes back to where the arrows left"
    assert page.locator(".tile[tabindex='0']").count() == 1
    page = looker.go(alive["host"])
    clock = page.locator("time.clock").first
    shown = page.evaluate(
        "moment => new Date(moment).toLocaleTimeString([], {hour12: false})", clock.get_attribute("datetime")
    )
    assert (clock.text_content(), (clock.get_attribute("title") or "").endswith(" UTC")) == (shown, True)


def test_a_command_is_copied_with_a_key(looker: Looker, alive: dict[str, str]) -> None:
    looker.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = looker.go(alive["machine"])
    command = page.locator(".same .command")
    command.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_contain_text("Copied: paddock why machine")
    assert page.evaluate("navigator.clipboard.readText()") == command.text_content()
    assert looker.wrong == []


def test_times_move_on_by_themselves_in_the_words_of_the_command_line(looker: Looker, alive: dict[str, str]) -> None:
    page = looker.go("/")
    ages = [timedelta(seconds=130), timedelta(minutes=119, seconds=10), timedelta(hours=2, minutes=5, seconds=10)]
    ages += [timedelta(hours=47, minutes=59, seconds=10), timedelta(days=9, hours=1)]
    page.evaluate(
        """(ages) => { for (const age of ages) {
          const time = Object.assign(document.createElement("time"), { className: "since", textContent: "?" });
          time.dateTime = new Date(Date.now() - age * 1000).toISOString();
          time.id = `age-${age}`;
          document.querySelector("footer").append(time);
        } }""",
        [age.total_seconds() for age in ages],
    )
    for age in ages:
        expect(page.locator(f"[id='age-{age.total_seconds():.0f}']")).to_have_text(span(age))


def _tab_to(looker: Looker, href: str, within: str) -> bool:
    """Press Tab until a link there has the focus, which has to be seen; false if that never happens."""
    for _ in range(120):
        looker.page.keyboard.press("Tab")
        where = looker.page.evaluate(
            "(within) => [document.activeElement.getAttribute('href') || '',"
            " !!document.activeElement.closest(within), getComputedStyle(document.activeElement).outlineStyle]",
            within,
        )
        if re.match(href, where[0]) and where[1]:
            assert where[2] != "none"
            return True
    return False


def test_the_keyboard_gets_through_the_whole_page_and_out_again(looker: Looker, alive: dict[str, str]) -> None:
    page = looker.go("/")
    stops = page.locator("a[href], button, summary, input:not([type=hidden]), [tabindex='0']").count()
    seen = set()
    for _ in range(stops + 40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.getAttribute('href') || document.activeElement.textContent"))
        if "/metrics" in seen:
            break
    assert "/metrics" in seen, "the last link of the foot was never reached"


def test_a_plan_shows_what_it_ends_and_nothing_happens_without_a_yes(looker: Looker, alive: dict[str, str]) -> None:
    page = looker.go("/")
    page.locator('.tile[data-state="busy"]').first.click()
    page.get_by_role("link", name="Release…").click()
    expect(page.get_by_role("heading", name="What this ends")).to_be_visible()
    page.get_by_role("link", name="Leave it as it is").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("host")
    assert looker.wrong == []


def test_what_is_not_there_helps(looker: Looker) -> None:
    page = looker.go("/hosts/nothing-of-that-name")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here")
    assert looker.faults() == []


def test_the_charts_are_drawn_after_the_page_is_there_and_go_back_as_far_as_one_asks(
    looker: Looker, begun: str
) -> None:
    page = looker.go("/")
    # The first minute has to be over before there is a point to draw.
    page.wait_for_selector("#history .plot canvas", timeout=_LONG)
    assert page.locator("#history .plot canvas").count() == 6
    began = page.evaluate(
        """() => [performance.getEntriesByType("resource").find((one) => one.name.includes("uplot.js")).startTime,
                  performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd]"""
    )
    assert began[0] > began[1], "the library is asked for when the page is there already"
    page.get_by_role("button", name="24 h").click()
    page.wait_for_selector('#history[data-drawn="24h"]')
    expect(page.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")
    box = page.locator("#history .u-over").first
    box.hover()
    expect(page.locator(".history-said")).to_contain_text("UTC")
    box.click()
    page.wait_for_url("**/rewind?at=*")
    expect(page.locator("h1")).to_contain_text("the fleet at")
    assert looker.wrong == []


def test_the_slider_shows_the_fleet_as_it_was_and_what_changed_since(looker: Looker, begun: str) -> None:
    page = looker.go("/rewind")
    slider = page.get_by_role("slider", name="Moment of the past")
    slider.wait_for()
    before = page.locator("h1").inner_text()
    page.get_by_role("button", name="+10 s").click()
    expect(page.locator("h1")).not_to_have_text(before)
    slider.focus()
    page.keyboard.press("End")
    page.wait_for_selector("#then .tile")
    expect(page.locator("#then")).to_contain_text("What changed since")
    expect(page.locator("h1 time")).to_have_attribute("title", re.compile("UTC"))
    assert looker.wrong == []
