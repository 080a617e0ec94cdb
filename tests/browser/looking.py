"""Somebody who looks at a page: sees what goes wrong in the browser, and checks what everybody needs of a page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

__all__ = ["Looker"]

# What an accessibility checker would say, as far as it can be said without one. Returns sentences; none is good.
_FAULTS = """() => {
  const found = [];
  const say = (text, node) => found.push(text + (node ? ": " + node.outerHTML.slice(0, 120) : ""));
  const all = (selector) => [...document.querySelectorAll(selector)];
  if (all("h1").length !== 1) say("there are " + all("h1").length + " h1");
  for (const mark of ["main", "header", "footer", "nav"]) if (!all(mark).length) say("no " + mark);
  if (all("main").length !== 1) say("more than one main");
  if (!document.documentElement.lang) say("the page has no language");
  if (!document.title) say("the page has no title");
  const ids = all("[id]").map((node) => node.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) say("the id " + id + " is there twice");
  const wordsOf = (node) => node.nodeType === 3 ? node.data : node.getAttribute?.("aria-hidden") === "true" ? "" : [...node.childNodes].map(wordsOf).join("");
  const nameOf = (node) => (node.getAttribute("aria-label") || wordsOf(node).trim() || node.title || node.querySelector("img")?.alt || "").trim();
  for (const node of all("a[href], button, summary")) if (!nameOf(node)) say("it has no name", node);
  for (const node of all("input:not([type=hidden]), select, textarea")) {
    if (!node.labels.length && !node.getAttribute("aria-label")) say("it has no label", node);
  }
  for (const node of all("img")) if (!node.hasAttribute("alt")) say("it has no alt", node);
  for (const node of all("svg")) if (node.getAttribute("aria-hidden") !== "true" && !node.getAttribute("aria-label")) say("a drawing without words", node);
  for (const node of all("table")) if (!node.querySelector("caption")) say("a table without a caption", node);
  for (const node of all("[aria-labelledby]")) if (!document.getElementById(node.getAttribute("aria-labelledby"))) say("its label is missing", node);
  for (const node of all("nav, [role=region], section")) if (!node.getAttribute("aria-label") && !node.getAttribute("aria-labelledby")) say("a region without a name", node);
  const navs = all("nav").map((node) => node.getAttribute("aria-label"));
  if (new Set(navs).size !== navs.length) say("two navs of one name");
  for (const node of document.body.children) {
    const place = node.matches("header, main, footer, nav, [role=region], [role=status], .skip");
    if (!place && node.textContent.trim()) say("it is in no landmark", node);
  }
  for (const node of all("h1, h2, h3, h4")) if (!node.textContent.trim()) say("an empty heading", node);
  for (const node of all("ul, ol")) for (const child of node.children) if (child.localName !== "li") say("a list holds what is no item", child);
  for (const node of all("[aria-hidden=true]")) if (node.querySelector("a[href], button, input, [tabindex]")) say("hidden, and yet it takes the focus", node);
  for (const node of all("[role=button]")) if (node.tabIndex < 0) say("a button that no key reaches", node);
  for (const node of all("time")) if (!node.dateTime) say("a time without its moment", node);
  for (const node of all("th")) if (!node.scope) say("a head of what?", node);
  for (const node of all(".mark")) if (!node.textContent.trim()) say("a state in colour alone", node);
  for (const node of all(".tile.small")) if (["none", '""'].includes(getComputedStyle(node, "::before").content)) say("a state in colour alone", node);
  for (const node of all("[role=alert], [aria-live=assertive]")) if (!node.matches(".notice")) say("it interrupts", node);
  for (const node of all(".tile, button, .button, summary, input:not([type=hidden])")) {
    const box = node.getBoundingClientRect();
    if (node.checkVisibility() && box.width && (box.width < 24 || box.height < 24)) say("too small for a finger, " + box.width + " by " + box.height, node);
  }
  let level = 0;
  for (const node of all("h1, h2, h3, h4")) {
    const now = Number(node.localName[1]);
    if (level && now > level + 1) say("a heading is left out before it", node);
    level = now;
  }
  if (all("[style], style, script:not([src])").length) say("style or script inside the page");
  for (const node of all("[tabindex]")) if (node.tabIndex > 0) say("it jumps the line", node);
  return found;
}"""

# What is too small for a finger: 24 pixels each way, but for links within a sentence, and what only the keyboard shows.
_SMALL = """() => [...document.querySelectorAll("a[href], button, summary, select, input:not([type=hidden]), [role=button]")].filter((node) => {
  const box = node.getBoundingClientRect(), alone = node.parentElement.textContent.trim().length <= node.textContent.trim().length + 3;
  const within = getComputedStyle(node).display === "inline" && !alone;
  return node.checkVisibility() && box.width > 1 && box.height > 1 && (box.width < 24 || box.height < 24) && !within;
}).map((node) => Math.round(node.getBoundingClientRect().width) + " by " + Math.round(node.getBoundingClientRect().height) + ": " + node.outerHTML.slice(0, 120))"""

# What axe-core finds against WCAG 2.2 A and AA and its own best practices: the rule, and where.
_AXE = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } });
  return found.violations.flatMap((each) => each.nodes.map((node) => each.id + ": " + each.help + ": " + node.target.join(" ") + " " + node.html.slice(0, 160)));
}"""

# Text whose contrast with its ground is below WCAG AA, with both colours.
_PALE = """() => {
  const numbers = (text) => {
    const found = (text.match(/[\\d.]+(e-?\\d+)?/g) || []).map(Number);
    return text.startsWith("color(srgb") ? [found[0] * 255, found[1] * 255, found[2] * 255, found[3] ?? 1] : [found[0], found[1], found[2], found[3] ?? 1];
  };
  const over = (top, under) => [0, 1, 2].map((at) => top[at] * top[3] + under[at] * (1 - top[3])).concat(1);
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((one) => { one /= 255; return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    const base = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((under, top) => over(top, under), base);
  };
  const pale = new Map();
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!own || node.closest("svg") || !node.checkVisibility()) continue;
    const style = getComputedStyle(node), under = ground(node), text = over(numbers(style.color), under);
    const [a, b] = [light(text), light(under)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
    const needed = size >= 24 || (size >= 18.66 && bold) ? 3 : 4.5;
    if (contrast < needed) pale.set(style.color + " on " + under, contrast.toFixed(2) + " " + style.color + " on " + under.map(Math.round) + " " + node.outerHTML.slice(0, 90));
  }
  return [...pale.values()];
}"""


@dataclass
class Looker:
    context: BrowserContext
    page: Page
    address: str
    wrong: list[str] = field(default_factory=list)
    """Console errors, exceptions, requests that failed or went outside."""

    @classmethod
    @contextlib.contextmanager
    def opened(cls, browser: Browser, address: str, **options: Any) -> Iterator[Looker]:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        context.set_default_timeout(90_000)
        page = context.new_page()
        looker = cls(context, page, address)
        page.on("console", lambda said: looker._hear(said.type, said.text))
        page.on("pageerror", lambda error: looker.wrong.append(f"exception: {error}"))
        page.on("request", lambda asked: looker._outside(asked.url))
        page.on("requestfailed", lambda asked: looker._failed(asked.url, str(asked.failure)))
        page.on("response", lambda got: looker._answered(got.status, got.url))
        try:
            yield looker
        finally:
            context.close()

    def go(self, path: str) -> Page:
        self.page.goto(f"{self.address}{path}", wait_until="load")
        return self.page

    def faults(self) -> list[str]:
        """What keeps somebody from using the page."""
        return self.page.evaluate(_FAULTS)

    def violations(self, axe: str) -> list[str]:
        """What an accessibility checker, by its script, has to say of the page."""
        self.page.evaluate(f"{axe}; undefined")
        return self.page.evaluate(_AXE)

    def small(self) -> list[str]:
        """What a finger misses."""
        return self.page.evaluate(_SMALL)

    def pale(self) -> list[str]:
        """Text that is hard to read."""
        return self.page.evaluate(_PALE)

    def sideways(self) -> int:
        """How many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def path_of(self, selector: str) -> str:
        """Where the first such link leads."""
        found = self.page.locator(selector).first.get_attribute("href")
        assert found is not None
        return found

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.wrong.append(f"console {kind}: {text}")

    def _outside(self, url: str) -> None:
        if not url.startswith((self.address, "data:")):
            self.wrong.append(f"outside request: {url}")

    def _failed(self, url: str, why: str) -> None:
        # Whatever is still under way when its page is left is ended by the browser itself.
        if "ERR_ABORTED" not in why:
            self.wrong.append(f"failed request: {url}: {why}")

    def _answered(self, status: int, url: str) -> None:
        if status >= 400:
            self.wrong.append(f"answer {status}: {url}")
