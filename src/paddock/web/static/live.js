// Keeps the front page live: takes the parts that changed and works them into the page, so that focus, open details and
// selected text stay. No library, no eval, nothing from outside.
"use strict";
(() => {
  const version = document.getElementById("main").dataset.version;
  const link = document.getElementById("link");
  if (!version || !link) return;

  const say = (text, kind) => { link.textContent = text; link.dataset.kind = kind; };

  const attributes = (now, next) => {
    for (const { name, value } of next.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
    for (const { name } of [...now.attributes]) {
      // Whether details are open is the reader's business.
      if (!next.hasAttribute(name) && !(name === "open" && now.localName === "details")) now.removeAttribute(name);
    }
  };

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");

  const children = (now, next) => {
    const wanted = [...next.childNodes];
    // What is not wanted any more goes first: then what stays is in its place already, and nothing that has the focus is moved.
    const named = new Map();
    const kept = new Set(wanted.map((node) => node.id).filter(Boolean));
    for (const node of [...now.childNodes]) {
      if (!node.id) continue;
      if (kept.has(node.id)) named.set(node.id, node);
      else node.remove();
    }
    let at = now.firstChild;
    for (const one of wanted) {
      let found = at;
      // What has an id may have moved: look for it before making it anew.
      if (found && !alike(found, one) && one.id) {
        found = named.get(one.id) || null;
        if (found) now.insertBefore(found, at);
      }
      if (found && alike(found, one)) {
        if (found.nodeType === Node.TEXT_NODE) {
          if (found.data !== one.data) found.data = one.data;
        } else if (found.nodeType === Node.ELEMENT_NODE && !found.isEqualNode(one)) {
          attributes(found, one);
          children(found, one);
        }
        at = found.nextSibling;
      } else {
        now.insertBefore(one, at);
      }
    }
    while (at) { const rest = at.nextSibling; at.remove(); at = rest; }
  };

  // A person in another tab sees it too: the title counts the problems, and the icon changes its shape.
  const icon = document.querySelector("link[rel=icon]"), calm = icon.getAttribute("href"), title = document.title;
  const trouble = () => {
    const count = Number(document.querySelector("#light .light")?.dataset.problems || 0);
    const text = count ? `(${count}) ${title}` : title, look = count ? icon.dataset.alarm : calm;
    if (document.title !== text) document.title = text;
    if (icon.getAttribute("href") !== look) icon.setAttribute("href", look);
  };

  const take = (parts) => {
    for (const [id, html] of Object.entries(parts)) {
      const part = document.getElementById(id);
      if (!part) continue;
      const next = document.createElement("template");
      next.innerHTML = html;
      children(part, next.content);
    }
    trouble();
    document.dispatchEvent(new CustomEvent("paddock:live", { detail: Object.keys(parts).length }));
  };

  trouble();
  const source = new EventSource(`/live?since=${encodeURIComponent(version)}`);
  source.addEventListener("open", () => say("live", "good"));
  source.addEventListener("error", () => say("reconnecting…", "bad"));
  source.addEventListener("parts", (event) => take(JSON.parse(event.data)));
  say("connecting…", "");
})();
