"""The page as people meet it: in a browser, with eyes, a keyboard or neither colour nor script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser.looking import Looker
from playwright.sync_api import Browser, expect

WIDTHS = (400, 1440, 2000)
_LONG = 90_000


@pytest.fixture(scope="session")
def alive(browser: Browser, up: str) -> dict[str, str]:
    """The paths of one page of every kind, once jobs run on the simulated Macs."""
    with Looker.opened(browser, up) as looker:
        page = looker.go("/")
        page.wait_for_selector('.tile[data-state="busy"]', timeout=_LONG)
        page.wait_for_selector('[data-stage="done"] .jobs a', timeout=_LONG)
        paths = {"front": "/", "host": looker.path_of('.tile[data-state="busy"]')}
        paths["job"] = looker.path_of('[data-stage="done"] .jobs a')
        looker.go(paths["host"])
        paths["machine"] = looker.path_of('.related a[href^="/machines/"]')
        paths["pool"] = "/pools/macos"
        looker.go(paths["job"])
        # Its Pod has ended, and is gone by now or in a moment: its page stays.
        paths["pod"] = looker.path_of('.related a[href^="/pods/"]')
        paths["fleet"] = "/fleets/mac-fleet"
        paths["faults"] = "/faults"
        paths["confirm"] = f"/actions/drain/{paths['machine'].rpartition('/')[2]}"
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


def test_the_page_can_be_read_without_script(browser: Browser, up: str, alive: dict[str, str]) -> None:
    with Looker.opened(browser, up, java_script_enabled=False) as looker:
        page = looker.go("/")
        expect(page.locator("#strip")).to_contain_text("Macs ready")
        expect(page.locator(".tile").first).to_be_visible()
        looker.go(alive["host"])
        expect(page.locator(".sentence")).to_contain_text("machine")


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
    with looker.context.expect_page() as opened:
        page.evaluate("window.open('/faults', '_blank', 'noopener')")
    panel = opened.value
    panel.get_by_role("button", name="Break it: Force-delete a machine").click()
    expect(panel.get_by_role("status").filter(has_text="Done.")).to_be_visible()
    panel.close()
    stranded = page.locator('#problems a[href^="/hosts/"]').first
    expect(stranded).to_be_visible(timeout=_LONG)
    # From the top, by keyboard: the skip link, the problem, its page, an action, its plan.
    page = looker.go("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert _tab_to(looker, r"^/hosts/", "#problems")
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
    expect(page.locator(".sentence")).to_contain_text("uarantined: it was stranded", timeout=20_000)
    assert looker.wrong == []


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
    stops = page.locator("a[href], button, summary, input:not([type=hidden]), code[tabindex]").count()
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
