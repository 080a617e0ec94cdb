// The slider of the past: each moment is the server's own page, of which the part that changes is put in place.
"use strict";
(() => {
  const way = document.getElementById("way"), part = document.getElementById("then");
  if (!way || !part) return;
  const typed = document.getElementById("at"), slider = document.getElementById("slider"), panel = way.querySelector(".way-slider");
  const title = document.querySelector("h1.object"), same = way.querySelector(".command"), label = way.querySelector("label[for=at]");
  const seconds = (text) => Math.floor(Date.parse(text) / 1000);
  const kept = seconds(way.dataset.first), two = (number) => String(number).padStart(2, "0");
  const loaded = performance.now(), now = () => seconds(way.dataset.last) + Math.floor((performance.now() - loaded) / 1000);
  let at = seconds(way.dataset.at), length = 0, timer = 0, asked = 0;

  const iso = (moment) => `${new Date(moment * 1000).toISOString().slice(0, 19)}Z`;
  const field = (moment) => {
    const date = new Date(moment * 1000);
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  };
  const words = (moment) => new Date(moment * 1000).toLocaleString([], { hour12: false, day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

  const show = () => {
    const last = now(), first = Math.max(kept, last - length);
    at = Math.min(last, Math.max(kept, at));
    if (at < first) { length = [3600, 86400, 604800, 2592000].find((one) => last - at <= one) ?? 2592000; show(); return; }
    slider.min = first; slider.max = last; slider.value = at;
    slider.setAttribute("aria-valuetext", words(at));
    typed.value = field(at);
    panel.querySelector(".first").textContent = words(first); panel.querySelector(".first").title = `${iso(first)}`;
    panel.querySelector(".last").textContent = "now";
    for (const button of way.querySelectorAll("[data-span]")) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === length));
  };
  const fetchIt = async () => {
    const mine = asked += 1, address = `/rewind?at=${iso(at)}`;
    part.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address), text = await answer.text();
      if (mine !== asked) return;
      const next = new DOMParser().parseFromString(text, "text/html");
      const found = next.getElementById("then");
      if (!found) throw new Error(next.querySelector("main p")?.textContent || answer.statusText);
      part.replaceChildren(...found.childNodes);
      title.replaceChildren(...next.querySelector("h1.object").childNodes);
      same.textContent = next.querySelector("#way .command").textContent;
      document.title = next.title;
      history.replaceState(null, "", address);
      document.dispatchEvent(new CustomEvent("paddock:live", { detail: 1 }));
    } catch (error) {
      if (mine === asked) document.getElementById("said").textContent = `That moment cannot be shown: ${error.message}`;
    } finally {
      if (mine === asked) part.removeAttribute("aria-busy");
    }
  };
  const go = (moment, wait = 0) => { at = moment; show(); clearTimeout(timer); timer = setTimeout(fetchIt, wait); };

  slider.addEventListener("input", () => go(Number(slider.value), 120));
  typed.addEventListener("change", () => { const moment = seconds(typed.value); if (!Number.isNaN(moment)) go(moment); });
  way.addEventListener("submit", (event) => { event.preventDefault(); const moment = seconds(typed.value); if (!Number.isNaN(moment)) go(moment); });
  way.addEventListener("click", (event) => {
    const button = event.target.closest("button[type=button]");
    if (!button) return;
    if (button.dataset.step) go(at + Number(button.dataset.step));
    else { length = Number(button.dataset.span); const first = Math.max(kept, now() - length); if (at < first) go(first); else show(); }
  });
  label.textContent = "Moment (your time)";
  typed.removeAttribute("name");
  length = [3600, 86400, 604800, 2592000].find((one) => now() - at <= one) ?? 2592000;
  panel.hidden = false;
  const first = at;
  show();
  if (at !== first) fetchIt();
})();
