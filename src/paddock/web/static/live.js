// Replaces the parts of the page that changed. No library, no eval, nothing from outside.
(() => {
  const link = document.getElementById("link");
  const source = new EventSource("/live");
  source.addEventListener("open", () => { link.textContent = "live"; });
  source.addEventListener("error", () => { link.textContent = "reconnecting…"; });
  source.addEventListener("parts", (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) {
      const part = document.getElementById(id);
      if (part) part.innerHTML = html;
    }
  });
})();
