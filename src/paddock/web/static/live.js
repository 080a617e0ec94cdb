// Keeps the front page live: takes the parts that changed and works them into the page, so that focus, open details and
// selected text stay. No library, no eval, nothing from outside.
"use strict";
(() => {
  const version = document.body.dataset.version;
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
    let at = now.firstChild;
    for (const wanted of [...next.childNodes]) {
      let found = at;
      // What has an id may have moved: look for it before making it anew.
      if (found && !alike(found, wanted) && wanted.id) {
        found = [...now.childNodes].find((node) => node.id === wanted.id && alike(node, wanted)) || null;
        if (found) now.insertBefore(found, at);
      }
      if (found && alike(found, wanted)) {
        if (found.nodeType === Node.TEXT_NODE) {
          if (found.data !== wanted.data) found.data = wanted.data;
        } else if (found.nodeType === Node.ELEMENT_NODE && !found.isEqualNode(wanted)) {
          attributes(found, wanted);
          children(found, wanted);
        }
        at = found.nextSibling;
      } else {
        now.insertBefore(wanted, at);
      }
    }
    while (at) { const rest = at.nextSibling; at.remove(); at = rest; }
  };

  const take = (parts) => {
    for (const [id, html] of Object.entries(parts)) {
      const part = document.getElementById(id);
      if (!part) continue;
      const next = document.createElement("template");
      next.innerHTML = html;
      children(part, next.content);
    }
    document.dispatchEvent(new CustomEvent("paddock:live", { detail: Object.keys(parts).length }));
  };

  const source = new EventSource(`/live?since=${encodeURIComponent(version)}`);
  source.addEventListener("open", () => say("live", "good"));
  source.addEventListener("error", () => say("reconnecting…", "bad"));
  source.addEventListener("parts", (event) => take(JSON.parse(event.data)));
  say("connecting…", "");
})();
