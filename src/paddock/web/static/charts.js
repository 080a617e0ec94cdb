// The fleet over time: fetched and drawn after the page is there, by uPlot, which is loaded only then. Colours are those of
// the tiles. A click goes to that moment. Without script the card says which command to type.
"use strict";
(() => {
  const card = document.getElementById("history");
  if (!card) return;
  const room = card.querySelector(".charts"), said = card.querySelector(".history-said"), marked = card.querySelector(".marks");
  const buttons = [...card.querySelectorAll("button[data-window]")];
  const WORDS = { heal: "healed", problem: "problem", restart: "restart" };
  const STACK = [
    ["busy", "busy", ["busy"]], ["draining", "draining", ["draining"]], ["ready", "ready", ["ready"]],
    ["setup", "setting up, recovering", ["setup", "claiming", "failing", "unknown"]],
    ["wiping", "reinstalling", ["wiping"]], ["idle", "free, quarantined", ["free", "quarantined"]], ["stranded", "stranded", ["stranded"]],
  ];

  const RESULTS = [["success", "succeeded", "ready"], ["failure", "failed", "stranded"], ["cancelled", "cancelled", "idle"], ["other", "other", "setup"]];

  // A custom property with light-dark() is no colour yet: the browser makes it one where it is used.
  const probe = card.appendChild(document.createElement("i"));
  probe.hidden = true;
  const colour = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const faded = (text, part) => text.replace(/^rgb\(([^)]*)\)$/, `rgba($1, ${part})`);

  const two = (number) => String(number).padStart(2, "0");
  const time = (seconds, long) => {
    const at = new Date(seconds * 1000), day = at.toLocaleDateString([], { day: "numeric", month: "short" });
    return `${long ? `${day} ` : ""}${two(at.getHours())}:${two(at.getMinutes())}`;
  };
  const utc = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  const number = (value) => value === null || value === undefined ? "–" : String(Math.round(value * 100) / 100);
  const lasting = (value) => value === null || value === undefined ? "–" : value < 10 ? `${Math.round(value * 10) / 10} s` : paddock.span(Math.floor(value));

  // Where no sampler ran there is a gap, and no line is drawn across it.
  const columns = (found, lists) => {
    const at = [], out = lists.map(() => []);
    found.at.forEach((moment, index) => {
      const step = index ? moment - found.at[index - 1] : 0, usual = index > 1 ? Math.max(60, found.at[index - 1] - found.at[index - 2]) : 3600;
      if (step > Math.max(usual, 60) * 2.5) { at.push(found.at[index - 1] + 1); for (const list of out) list.push(null); }
      at.push(moment);
      lists.forEach((list, which) => out[which].push(list[index] ?? null));
    });
    return [at, ...out];
  };

  const plans = (found) => {
    const stack = STACK.map(([name, word, states]) => ({ name, word, list: found.at.map((_, index) => states.reduce((sum, state) => sum + (found.macs[state]?.[index] ?? 0), 0)) }))
      .filter((one) => one.list.some((value) => value > 0));
    const results = RESULTS.map(([name, word, tone]) => ({ word, colour: tone, list: found.ended[name] ?? found.at.map(() => 0) }))
      .filter((one, index) => index < 2 || one.list.some((value) => value > 0));
    return [
      { title: "Macs", say: number, stacked: true, series: stack.map((one) => ({ word: one.word, colour: one.name, list: one.list })) },
      { title: "Jobs", say: number, series: [{ word: "running", colour: "busy", list: found.running }, { word: "waiting", colour: "setup", list: found.waiting }] },
      { title: "Wait from queued to started", say: lasting, dots: true, series: [{ word: "p50", colour: "ready", list: found.wait_p50 }, { word: "p95", colour: "wiping", list: found.wait_p95 }] },
      { title: "Ended by result", say: number, stacked: true, series: results },
      { title: "Healed", say: number, bars: true, series: [{ word: "leaks", colour: "good", list: found.heals }] },
      { title: `${found.currency} an hour`, say: number, series: [{ word: "all Macs", colour: "idle", list: found.per_hour }] },
    ];
  };

  // Problems are a red ground for as long as they last, restarts a dashed line, heals a tick at the foot.
  const marks = (found) => (plot) => {
    const { ctx, bbox } = plot, x = (seconds) => plot.valToPos(seconds, "x", true);
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    for (const mark of found.marks) {
      const at = x(mark.at);
      if (mark.kind === "problem") {
        ctx.fillStyle = faded(colour("bad"), .12);
        ctx.fillRect(at, bbox.top, Math.max(2, x(mark.until ?? found.until) - at), bbox.height);
        ctx.fillStyle = colour("bad"); ctx.fillRect(at, bbox.top, Math.max(2, x(mark.until ?? found.until) - at), 3 * devicePixelRatio);
      } else if (mark.kind === "restart") {
        ctx.strokeStyle = colour("faint"); ctx.setLineDash([4, 4]);
        ctx.beginPath(); ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); ctx.stroke(); ctx.setLineDash([]);
      } else {
        ctx.fillStyle = colour("good"); ctx.fillRect(at - devicePixelRatio, bbox.top + bbox.height - 8 * devicePixelRatio, 2 * devicePixelRatio, 8 * devicePixelRatio);
      }
    }
    ctx.restore();
  };

  let plots = [], latest = null, wanted = sessionStorage.getItem("paddock-window") || "1h", timer = 0;

  const draw = (found) => {
    for (const plot of plots) plot.destroy();
    plots = [];
    room.replaceChildren();
    const long = found.window === "7d" || found.window === "30d", ink = colour("faint"), line = colour("line");
    plans(found).forEach((plan, index) => {
      const figure = room.appendChild(document.createElement("figure")), head = figure.appendChild(document.createElement("figcaption"));
      const title = head.appendChild(document.createElement("h3")), says = head.appendChild(document.createElement("p"));
      title.textContent = plan.title; says.className = "legend";
      const lists = plan.series.map((one) => one.list), last = found.at.length - 1;
      const tell = (at) => {
        says.replaceChildren(...plan.series.map((one) => {
          const item = document.createElement("span"), key = item.appendChild(document.createElement("i"));
          key.className = "key"; key.dataset.kind = one.colour;
          item.append(`${one.word} ${plan.say(one.list[at])}`);
          return item;
        }));
      };
      tell(last);
      // Upper areas are drawn first, each down to the axis, so that the lower ones cover them.
      let shown = lists;
      if (plan.stacked) shown = lists.map((_, upper) => found.at.map((_, row) => lists.slice(0, upper + 1).reduce((sum, list) => sum + list[row], 0)));
      const order = plan.stacked ? [...shown.keys()].reverse() : [...shown.keys()];
      const data = columns(found, order.map((which) => shown[which]));
      const box = figure.appendChild(document.createElement("div"));
      box.className = "plot"; box.setAttribute("role", "img");
      box.setAttribute("aria-label", `${plan.title}, now: ${plan.series.map((one) => `${one.word} ${plan.say(one.list[last])}`).join(", ")}`);
      const options = {
        width: Math.max(240, box.clientWidth), height: index ? 130 : 170, legend: { show: false }, padding: [8, 6, 0, 0],
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
        scales: { x: { time: true, range: () => [found.since, found.until] }, y: { range: (_, low, high) => [0, Math.max(1, high || 0) * 1.08] } },
        axes: [
          { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 26, space: long ? 80 : 60, values: (_, all) => all.map((at) => found.window === "30d" ? time(at, true).replace(/ \d\d:\d\d$/, "") : time(at, found.window === "7d" && new Date(at * 1000).getHours() === 0)) },
          { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 44, space: 34, values: (_, all) => all.map((value) => plan.say === lasting ? lasting(value) : number(value)) },
        ],
        series: [{}, ...order.map((which) => {
          const tone = colour(plan.series[which].colour);
          return { stroke: tone, width: plan.stacked ? 1 : 1.8, fill: plan.stacked ? tone : plan.bars ? faded(tone, .5) : undefined, points: { show: plan.dots === true, size: 4 }, paths: plan.bars ? uPlot.paths.bars({ size: [.8, 14] }) : plan.stacked ? uPlot.paths.stepped({ align: 1 }) : undefined, spanGaps: false };
        })],
        hooks: {
          draw: [marks(found)],
          setCursor: [(plot) => {
            const at = plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : null;
            if (at === null) { tell(last); said.textContent = ""; return; }
            let row = 0;
            for (let which = 0; which < found.at.length; which += 1) if (found.at[which] <= at) row = which;
            tell(row);
            const near = (found.until - found.since) / 120;
            const mark = found.marks.find((one) => at >= one.at - near && at <= (one.kind === "problem" ? one.until ?? found.until : one.at) + near);
            said.textContent = `${time(at, long)} (${utc(at)} UTC)${mark ? ` · ${WORDS[mark.kind]}: ${mark.text}` : " · a click shows this moment"}`;
          }],
        },
      };
      const plot = new uPlot(options, data, box);
      plot.over.addEventListener("click", () => { if (plot.cursor.left >= 0) location.href = `/rewind?at=${encodeURIComponent(new Date(plot.posToVal(plot.cursor.left, "x") * 1000).toISOString().slice(0, 19))}Z`; });
      plots.push(plot);
    });
    const items = [...found.marks].reverse().slice(0, 40).map((mark) => {
      const item = document.createElement("li"), link = document.createElement("a"), moment = document.createElement("time");
      moment.dateTime = new Date(mark.at * 1000).toISOString(); moment.title = `${utc(mark.at)} UTC`; moment.textContent = time(mark.at, found.window !== "1h");
      link.href = `/rewind?at=${moment.dateTime.slice(0, 19)}Z`; link.append(moment);
      item.dataset.kind = mark.kind; item.append(link, ` ${WORDS[mark.kind]}: ${mark.text}`);
      return item;
    });
    marked.querySelector("ol").replaceChildren(...items);
    marked.querySelector("summary").textContent = found.marks.length ? `${found.marks.length} marked on the charts: heals, problems, restarts` : "Nothing to mark: no heal, problem or restart";
    marked.hidden = false;
  };

  const load = async () => {
    clearTimeout(timer);
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.window === wanted));
    try {
      const asked = wanted, answer = await fetch(`/api/v1/history?window=${asked}`);
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.message || answer.statusText);
      if (asked !== wanted) return;
      latest = found;
      if (found.at.length) draw(found);
      else room.textContent = "Nothing was written down yet: the first minute is under way.";
      card.dataset.drawn = wanted;
    } catch (error) {
      if (!latest) room.textContent = `The history cannot be read now (${error.message}); it is asked for again in a minute.`;
    }
    timer = setTimeout(() => { if (document.hidden) timer = setTimeout(load, 60000); else load(); }, latest?.at.length ? 60000 : 15000);
  };
  for (const button of buttons) button.addEventListener("click", () => { wanted = button.dataset.window; sessionStorage.setItem("paddock-window", wanted); load(); });

  let wide = innerWidth;
  addEventListener("resize", () => { if (latest?.at.length && innerWidth !== wide) { wide = innerWidth; draw(latest); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (latest?.at.length) draw(latest); });

  const begin = () => {
    const sheet = document.createElement("link"), script = document.createElement("script");
    sheet.rel = "stylesheet"; sheet.href = card.dataset.uplotCss;
    script.src = card.dataset.uplot;
    script.addEventListener("load", load);
    document.head.append(sheet, script);
  };
  if (!buttons.some((button) => button.dataset.window === wanted)) wanted = "1h";
  if (document.readyState === "complete") begin();
  else addEventListener("load", () => setTimeout(begin, 0));
})();
