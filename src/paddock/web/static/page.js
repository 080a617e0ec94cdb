// For every page: times that move on, commands that are copied, and ways for the keyboard. No library, nothing from outside;
// without it every page can still be read and used.
"use strict";
(() => {
  const all = (selector) => document.querySelectorAll(selector);
  const said = document.getElementById("said");
  const find = document.getElementById("find");

  // Times. The words are those of the command line: `42 s`, `3 min`, `2 h 05 min`, `12 d`.
  const span = (seconds) => {
    if (seconds < 120) return `${Math.max(0, seconds)} s`;
    const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
    if (minutes < 120) return `${minutes} min`;
    return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${Math.floor(hours / 24)} d`;
  };
  globalThis.paddock = { span };
  // The server's clock counts, not this machine's: the page says what time it was there when it was made.
  const told = Date.parse(document.querySelector("[data-now]")?.dataset.now ?? "");
  const ahead = Number.isNaN(told) ? 0 : told - (performance.timeOrigin + performance.getEntriesByType("navigation")[0].responseEnd);
  const tick = () => {
    if (document.hidden) return;
    const now = Date.now() + ahead;
    for (const time of all("time.since")) {
      const text = span(Math.floor((now - Date.parse(time.dateTime)) / 1000));
      if (time.firstChild && time.firstChild.data !== text) time.firstChild.data = text;
    }
  };
  setInterval(tick, 1000);

  // Times of day are the reader's own; what the server wrote, in UTC, stays in the title.
  const local = () => {
    for (const time of all("time.clock:not([data-local])")) {
      time.dataset.local = "";
      const at = new Date(time.dateTime), today = at.toDateString() === new Date().toDateString();
      time.textContent = `${today ? "" : `${at.toLocaleDateString([], { day: "numeric", month: "short" })} `}${at.toLocaleTimeString([], { hour12: false })}`;
    }
  };
  local();
  document.addEventListener("paddock:live", local);

  // Commands: a click or Enter copies.
  const select = (node) => getSelection().selectAllChildren(node);
  const copy = async (node) => {
    select(node);
    try {
      await navigator.clipboard.writeText(node.textContent);
    } catch {
      if (!document.execCommand("copy")) { said.textContent = "Selected; copy it with the keyboard."; return; }
    }
    said.textContent = `Copied: ${node.textContent}`;
    node.classList.add("copied");
    setTimeout(() => node.classList.remove("copied"), 1200);
  };
  document.addEventListener("click", (event) => {
    const node = event.target.closest?.(".command");
    if (node) copy(node);
  });

  // What is typed in the search box is looked for in the page at once; Enter asks the server.
  const fits = (words, text) => words.every((word) => text.includes(word));
  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, macs = 0;
    for (const item of all(".grid > li")) {
      const tile = item.firstElementChild, on = fits(words, `${tile.title} ${tile.textContent} ${item.closest(".group").ariaLabel}`.toLowerCase());
      item.classList.toggle("off", !on);
      macs += 1;
      shown += on;
    }
    for (const group of all(".group")) group.classList.toggle("off", !group.querySelector(".grid > li:not(.off)"));
    for (const row of all(".events tbody tr")) row.classList.toggle("off", !fits(words, row.textContent.toLowerCase()));
    if (macs) said.textContent = words.length ? `${shown} of ${macs} Macs fit` : "";
    const count = document.getElementById("fits");
    if (count) count.textContent = words.length ? `${shown} of ${macs} fit “${find.value.trim()}”` : "";
  };
  if (find && document.querySelector("main[data-version]")) {
    find.addEventListener("input", filter);
    document.addEventListener("paddock:live", () => { if (find.value) filter(); });
    if (find.value) filter();
  }

  // Arrows go from Mac to Mac: left and right in line, up and down to what is nearest above and below.
  const beside = (tile, key) => {
    const tiles = [...all(".grid > li:not(.off) > .tile")], at = tiles.indexOf(tile);
    if (key === "ArrowLeft") return tiles[at - 1];
    if (key === "ArrowRight") return tiles[at + 1];
    if (key === "Home") return tiles[0];
    if (key === "End") return tiles.at(-1);
    const step = key === "ArrowDown" ? 1 : -1, here = tile.getBoundingClientRect();
    let best, least = Infinity;
    for (let index = at + step; tiles[index]; index += step) {
      const box = tiles[index].getBoundingClientRect(), rows = (box.top - here.top) * step;
      if (rows < here.height / 2) continue;
      const away = rows * 4 + Math.abs(box.left - here.left);
      if (away < least) [best, least] = [tiles[index], away];
      if (rows * 4 > least) break;
    }
    return best;
  };
  // One stop for the tab key among the Macs, wherever the arrows left it: a thousand stops would be none.
  let stop = null;
  const rove = (to) => {
    const tiles = all(".grid > li > .tile");
    if (to?.isConnected) stop = to.closest("li").id;
    const kept = [...tiles].find((tile) => tile.parentElement.id === stop) ?? tiles[0];
    for (const tile of tiles) tile.tabIndex = tile === kept ? 0 : -1;
  };
  rove();
  document.addEventListener("paddock:live", () => rove());
  document.addEventListener("focusin", (event) => { if (event.target.matches?.(".tile")) rove(event.target); });
  const WAYS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]);

  document.addEventListener("keydown", (event) => {
    const at = document.activeElement, typing = at?.matches("input, textarea, select");
    if ((event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) || (event.key === "k" && (event.metaKey || event.ctrlKey))) {
      event.preventDefault();
      find?.focus();
      find?.select();
    } else if (event.key === "Escape" && at === find) {
      find.value = "";
      find.dispatchEvent(new Event("input"));
      find.blur();
    } else if (event.key === "ArrowDown" && at === find) {
      const first = document.querySelector(".grid > li:not(.off) > .tile");
      if (first) { event.preventDefault(); first.focus(); }
    } else if ((event.key === "Enter" || event.key === " ") && at?.matches(".command")) {
      event.preventDefault();
      copy(at);
    } else if (WAYS.has(event.key) && at?.matches(".tile") && !event.metaKey && !event.ctrlKey && !event.altKey) {
      const next = beside(at, event.key);
      if (next) { event.preventDefault(); next.focus(); }
    }
  });
})();
