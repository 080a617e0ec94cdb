"""A thousand Macs and five thousand Pods: measured, and bounded by what does not depend on the machine."""

from __future__ import annotations

from pathlib import Path

from browser.looking import Looker
from playwright.sync_api import Browser

_MEASURE = """() => {
  window.measured = { parts: 0, largest: -1, frames: 0, slowest: 0, tasks: [] };
  const took = (entries) => { for (const entry of entries.getEntries()) window.measured.tasks.push(entry.duration); };
  new PerformanceObserver(took).observe({ type: "longtask" });
  const large = (entries) => { window.measured.largest = entries.getEntries().at(-1).startTime; };
  new PerformanceObserver(large).observe({ type: "largest-contentful-paint", buffered: true });
  document.addEventListener("paddock:live", (event) => { window.measured.frames += 1; window.measured.parts += event.detail; });
}"""
_NOW = """() => ({
  ...window.measured,
  nodes: document.querySelectorAll("*").length,
  tiles: document.querySelectorAll(".tile").length,
  ready: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  head: performance.getEntriesByType("navigation")[0].responseStart,
  took: document.getElementById("main").dataset.took,
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1,
  bytes: performance.getEntriesByType("navigation")[0].transferSize
       + performance.getEntriesByType("resource").filter((one) => !one.name.includes("/live")).reduce((sum, one) => sum + one.transferSize, 0),
})"""
_SECONDS = 10


def test_a_thousand_macs_and_five_thousand_pods_stay_smooth(browser: Browser, large: str, artefacts: Path) -> None:
    with Looker.opened(browser, large) as looker:
        # What comes by the stream is counted as it leaves the socket, and as it is once unpacked.
        streamed = {"dataLength": 0, "encodedDataLength": 0}

        def count(got: dict[str, int]) -> None:
            for name in streamed:
                streamed[name] += got[name]

        session = looker.context.new_cdp_session(looker.page)
        session.send("Network.enable")
        session.on("Network.dataReceived", count)
        page = looker.go("/")
        loaded = dict(streamed)
        page.evaluate(_MEASURE)
        page.wait_for_timeout(_SECONDS * 1000)
        seen = page.evaluate(_NOW)
        rates = {name: (streamed[name] - loaded[name]) / _SECONDS for name in streamed}
        assert looker.sideways() <= 0
        assert looker.faults() == []
        assert looker.wrong == []
        # Groups off screen are not drawn; for the picture, the whole page is on screen.
        page.set_viewport_size({"width": 1440, "height": 3200})
        page.wait_for_timeout(500)
        page.screenshot(path=artefacts / "front-1000-macs.png")
    long = sorted(seen["tasks"])
    table = {
        "first byte": f"{seen['head']:.0f} ms",
        "first paint": f"{seen['paint']:.0f} ms",
        "largest paint": f"{seen['largest']:.0f} ms",
        "interactive": f"{seen['ready']:.0f} ms",
        "on the server": seen["took"],
        "transferred for the page": f"{seen['bytes'] / 1000:.0f} kB",
        "elements": f"{seen['nodes']}",
        "updates": f"{seen['frames']} in {_SECONDS} s, {seen['parts']} parts",
        "stream": f"{rates['encodedDataLength'] / 1000:.1f} kB a second, {rates['dataLength'] / 1000:.1f} kB unpacked",
        "long tasks (over 50 ms)": f"{len(long)}, longest {long[-1] if long else 0:.0f} ms",
    }
    print()
    for name, value in table.items():
        print(f"  {name:<28}{value}")
    (artefacts / "scale.txt").write_text("".join(f"{name}: {value}\n" for name, value in table.items()))
    assert seen["tiles"] == 1000
    assert seen["frames"] >= 3, "the page does not live"
    assert seen["nodes"] < 4_000
    assert seen["bytes"] < 60_000
    # About ten jobs end or begin a second: what is sent must follow the change, not the size of the fleet.
    assert seen["parts"] / seen["frames"] < 60
    assert rates["dataLength"] < 50_000
    assert rates["encodedDataLength"] < 15_000
    assert len(long) < 5 * _SECONDS


def test_a_thousand_macs_are_one_stop_of_the_tab_key_and_each_has_a_name(browser: Browser, large: str) -> None:
    with Looker.opened(browser, large) as looker:
        page = looker.go("/")
        stops = "() => document.querySelectorAll('.tile[tabindex=\\'0\\']').length"
        assert page.evaluate(stops) == 1
        page.locator(".tile[tabindex='0']").focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.tabIndex") == 0, "tab comes back to where the arrows left"
        assert page.evaluate(stops) == 1
        named = "() => [...document.querySelectorAll('.tile')].filter((tile) => tile.ariaLabel).length"
        assert page.evaluate(named) == 1000
        told = """() => [...document.querySelectorAll("time.clock")].filter((time) =>
          time.textContent !== new Date(time.dateTime).toLocaleTimeString([], { hour12: false }) || !time.title.endsWith("UTC")).length"""
        assert page.locator("time.clock").count() > 0
        assert page.evaluate(told) == 0
        assert looker.wrong == []
