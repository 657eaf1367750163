"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const steps = data.steps, chart = data.chart, total = steps.length;
  const $ = (id) => document.getElementById(id);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let now = -1, playing = false, timer = 0, frame = 0, filmAt = 0;

  // ------------------------------------------------------------------------------------ small things
  const make = (parent, name, attributes = {}, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  };
  const fresh = (id) => { const svg = $(id); svg.replaceChildren(); return svg; };
  const whole = (n) => n.toLocaleString("en");
  const number = (x) => x === null ? "−∞" : String(Number(x.toPrecision(4))).replace("-", "−");
  const plural = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
  const line = (points) => points.map((p, i) => `${i ? "L" : "M"}${p[0]} ${p[1]}`).join("");

  // ------------------------------------------------------------------------------------------ states
  const columns = chart.kind !== "map", perColumn = {};
  for (const s of chart.spots) perColumn[s[0]] = (perColumn[s[0]] || 0) + 1;
  let box;
  function columnBox() {
    const last = Math.max(...chart.spots.map((s) => s[0])) + 1, most = Math.max(...Object.values(perColumn));
    const area = $("chart").parentElement;
    const width = Math.max(area.clientWidth, 80 + 7 * last), height = Math.max(160, $("chart").clientHeight || 280);
    const dx = (width - 80) / last, tall = Math.min(height - 62, 90 * most), top = (height - 26 - tall) / 2 + 8;
    return {
      width, height, last,
      r: Math.max(2.2, Math.min(9, 0.3 * Math.min(dx, tall / most))),
      at: (i) => [40 + chart.spots[i][0] * dx, top + chart.spots[i][1] * tall],
      column: (c) => 40 + c * dx,
      end: [40 + last * dx, top + 0.5 * tall],
      roomy: dx >= 38 && tall / most > 24,
    };
  }
  function mapBox() {
    const xs = [], ys = [];
    for (const s of chart.spots) { xs.push(s[0]); ys.push(s[1]); }
    for (const e of chart.backdrop) { xs.push(e[0], e[2]); ys.push(e[1], e[3]); }
    const x0 = Math.min(...xs), y0 = Math.min(...ys), span = Math.max(Math.max(...xs) - x0, Math.max(...ys) - y0) || 1;
    const scale = 400 / span, place = (x, y) => [26 + (x - x0) * scale, 26 + (y - y0) * scale];
    return {
      width: 52 + (Math.max(...xs) - x0) * scale, height: 52 + (Math.max(...ys) - y0) * scale,
      r: Math.max(2.5, Math.min(8, 55 / Math.sqrt(chart.spots.length + chart.backdrop.length / 2))),
      at: (i) => place(chart.spots[i][0], chart.spots[i][1]),
      edge: (e) => [place(e[0], e[1]), place(e[2], e[3])],
      end: chart.goal && place(chart.goal[0], chart.goal[1]),
      roomy: false,
    };
  }
  const wayOf = (step) => {
    const way = step.path.map(box.at);
    if (step.walked) way.push(box.at(step.failures[0][0]));
    if (step.ended && box.end) way.push(box.end);
    return way;
  };
  function drawStates(step) {
    const svg = fresh("chart");
    svg.classList.toggle("columns", columns);
    box = columns ? columnBox() : mapBox();
    const r = box.r;
    svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    svg.style.width = columns ? `${box.width}px` : "";
    if (chart.backdrop.length)
      make(svg, "path", { class: "backdrop", d: chart.backdrop.map((e) => line(box.edge(e))).join(""), "stroke-width": 1.2 });
    if (columns) {
      const every = Math.ceil(30 / (box.column(1) - box.column(0)));
      for (let c = 0; c <= box.last - every; c += every)
        make(svg, "text", { x: box.column(c), y: box.height - 6, "text-anchor": "middle", "font-size": 13 }, c);
      make(svg, "text", { x: box.end[0], y: box.height - 6, "text-anchor": "middle", "font-size": 13 }, "END");
      make(svg, "text", { x: 0, y: box.height - 6, "font-size": 13 }, chart.kind === "staged" ? "h =" : "t =");
    }
    const visited = new Set(), failed = new Set(), edges = new Set();
    for (const old of steps.slice(0, now)) {
      const way = wayOf(old);
      way.slice(1).forEach((p, i) => edges.add(line([way[i], p])));
      old.path.forEach((i) => visited.add(i));
      old.failures.forEach((f) => { visited.add(f[0]); failed.add(f[0]); });
    }
    make(svg, "path", { class: "old", d: [...edges].join(""), "stroke-width": Math.max(1.2, r / 3.5) });
    const dot = (i, kind, size) => {
      const [cx, cy] = box.at(i);
      make(make(svg, "circle", { class: kind, cx, cy, r: size }), "title", {}, chart.spots[i][2]);
    };
    visited.forEach((i) => dot(i, "spot", 0.75 * r));
    if (box.end && !columns) make(svg, "circle", { class: "goal", cx: box.end[0], cy: box.end[1], r: 1.1 * r });
    const way = wayOf(step);
    make(svg, "path", { class: "way", d: line(way), "stroke-width": Math.max(2.5, r / 2) });
    step.path.forEach((i) => dot(i, "spot on", r));
    failed.forEach((i) => {
      const [cx, cy] = box.at(i);
      make(make(svg, "circle", { class: "failed", cx, cy, r: 0.8 * r, "stroke-width": r / 3 }), "title", {}, chart.spots[i][2]);
    });
    for (const [i] of step.failures) {
      const [cx, cy] = box.at(i);
      make(svg, "circle", { class: "halo", cx, cy, r: 2.2 * r, "stroke-width": 0.8 * r });
      dot(i, "fail", 1.25 * r);
    }
    if (step.ended && box.end && columns) make(svg, "circle", { class: "goal", cx: box.end[0], cy: box.end[1], r: 1.3 * r });
    if (box.roomy) {
      step.path.forEach((i, k) => {
        if (k + 1 < way.length) {
          const x = (way[k][0] + way[k + 1][0]) / 2, y = (way[k][1] + way[k + 1][1]) / 2;
          make(svg, "text", { class: "action", x, y: y + 4, "text-anchor": "middle", "font-size": 12, "stroke-width": 5 }, step.actions[k]);
        }
      });
      const named = new Set([...step.path, ...step.failures.map((f) => f[0])]);
      named.forEach((i) => {
        const [x, y] = box.at(i);
        if (chart.spots[i][2].length <= 7)
          make(svg, "text", { class: "name", x, y: y - 1.3 * r - (step.failures.some((f) => f[0] === i) ? 1.6 * r : 4), "text-anchor": "middle", "font-size": 11 }, chart.spots[i][2]);
      });
    }
    const tip = way[way.length - 1], room = svg.parentElement;
    if (columns && tip) room.scrollLeft = tip[0] - room.clientWidth + 60; // keep the end of the rollout visible
    $("walk").textContent = box.roomy ? "· numbers on edges are actions" : "";
  }

  // -------------------------------------------------------------------------------- the puzzle's film
  function showFilm(k) {
    const step = steps[now];
    filmAt = k;
    const [move, spot] = step.film[k];
    $("picture").innerHTML = chart.pictures[spot]; // drawn by us, from numbers
    $("move").value = k;
    $("move").setAttribute("aria-valuetext", plural(move, data.move));
    const failing = step.walked && k === step.film.length - 1;
    $("moved").textContent = `after ${plural(move, data.move)}` + (failing ? ": fails" : spot < 0 ? ": the goal" : "");
    if (!columns) {
      const old = document.querySelector("#chart .here");
      if (old) old.remove();
      const [cx, cy] = spot < 0 ? box.end : box.at(spot);
      make($("chart"), "circle", { class: "here", cx, cy, r: 1.9 * box.r, "stroke-width": 1.6 });
    }
  }
  function runFilm(duration) {
    cancelAnimationFrame(frame);
    const film = steps[now].film;
    if (!film.length) return;
    $("move").max = film.length - 1;
    $("move").disabled = film.length < 2;
    if (!duration || still.matches || film.length < 2) return showFilm(film.length - 1);
    const began = performance.now();
    const tick = (time) => {
      const share = Math.min(1, Math.max(0, (time - began) / duration)), k = Math.round(share * (film.length - 1));
      if (k !== filmAt || share === 0) showFilm(k);
      if (share < 1) frame = requestAnimationFrame(tick);
    };
    showFilm(0);
    frame = requestAnimationFrame(tick);
  }

  // --------------------------------------------------------------------------------------------- Sol
  // Two views of one plane, in units of the disc: all of it, and the region enlarged.
  const MAGNIFIED = 1.7;
  const far = view("disc"), near = view("near");
  make(far.svg, "path", { class: "axis", d: "M-1.1 .98V.74M-1.125 .79L-1.1 .73L-1.075 .79" });
  make(far.svg, "text", { x: -1.06, y: 0.98 }, "φ(s₀)");
  function view(id) {
    const svg = $(id), clip = make(make(svg, "defs"), "clipPath", { id: `${id}-ball` });
    const inner = { svg, clip: make(clip, "circle"), ball: make(svg, "circle", { class: "ball" }) };
    inner.inside = make(svg, "g", { "clip-path": `url(#${id}-ball)` });
    inner.marks = make(svg, "g");
    inner.theta = make(svg, "g", { class: "theta" });
    make(inner.theta, "circle", { r: 0.036 });
    inner.name = make(inner.theta, "text", { x: 0.055, y: -0.045 }, "θ");
    inner.scale = make(svg, "text", { x: -1.12, y: -0.92 });
    return inner;
  }
  function closeUp(cut) {
    const points = [...cut.region, cut.theta, cut.last].filter(([x, y]) => x * x + y * y < 1.3);
    const low = (i) => Math.min(...points.map((p) => p[i])), high = (i) => Math.max(...points.map((p) => p[i]));
    const half = Math.max(high(0) - low(0), high(1) - low(1)) / 2;
    return [(low(0) + high(0)) / 2, (low(1) + high(1)) / 2, Math.min(100, Math.max(1, 0.8 / half))];
  }
  function drawSol(step) {
    const [x, y, zoom] = closeUp(step.slice);
    const close = zoom > MAGNIFIED;
    $("near").toggleAttribute("hidden", !close);
    $("disc").classList.toggle("small", close);
    drawView(far, step, 0, 0, 1);
    if (close)
      make(far.marks, "rect", { class: "frame", x: x - 1.1 / zoom, y: -y - 1 / zoom, width: 2.2 / zoom, height: 2 / zoom });
    drawView(near, step, x, y, zoom);
    near.scale.textContent = `× ${number(Number(zoom.toPrecision(2)))}`;
    const shown = step.theta.slice(0, 10).map(number).join(", ");
    $("theta").textContent = `θ = (${shown}${step.theta.length > 10 ? ", …" : ""})`;
  }
  function drawView(on, step, cx, cy, zoom) {
    const cut = step.slice, { inside, marks } = on;
    const at = ([x, y]) => [(x - cx) * zoom, (cy - y) * zoom], polygon = (points) => line(points.map(at)) + "Z";
    const [bx, by] = at([0, 0]);
    for (const circle of [on.clip, on.ball])
      for (const [key, value] of [["cx", bx], ["cy", by], ["r", zoom]]) circle.setAttribute(key, value);
    inside.replaceChildren(); marks.replaceChildren();
    const whole = !cut.sol; // no disjunction yet: Sol is all that T1 and T2 leave
    if (cut.left.length) make(inside, "path", { class: whole ? "sol area" : "region", d: polygon(cut.left) });
    if (cut.region.length && JSON.stringify(cut.region) !== JSON.stringify(cut.left)) {
      make(inside, "path", { class: "gone", d: polygon(cut.region) + (cut.left.length ? polygon(cut.left) : "") });
      make(inside, "path", { class: "edge", d: polygon(cut.region) });
    }
    if (!whole) for (const piece of cut.sol) make(inside, "path", { class: "sol", d: polygon(piece) });
    for (const piece of cut.cuts) make(inside, "path", { class: "cut", d: polygon(piece) });
    const heights = [cut.upper, cut.lower].map((y) => y === null ? null : at([0, y])[1]);
    const meet = heights[0] !== null && heights[1] !== null && Math.abs(heights[0] - heights[1]) < 0.015;
    const left = at(cut.theta)[0] > 0.3;
    [["upper", -0.03], ["lower", 0.09]].forEach(([kind, shift], i) => {
      const y = heights[i];
      if (y === null || Math.abs(y) > 1.04) return;
      make(marks, "path", { class: `level ${kind}`, d: zoom > 1 ? `M-3 ${y}H3` : `M-1.14 ${y}H1.14` });
      const [x, anchor] = left && y < 0.7 ? [-1.14, "start"] : [1.14, "end"];
      if (!meet || !i) make(marks, "text", { class: kind, x, y: y + shift, "text-anchor": anchor }, number(step[kind]));
    });
    if (cut.trail.length) make(marks, "path", { class: "trail", d: line([...cut.trail, cut.theta].map(at)) });
    for (const [x, y] of cut.trail.map(at)) make(marks, "circle", { class: "was", cx: x, cy: y, r: 0.02 });
    const [lx, ly] = at(cut.last), [x, y] = at(cut.theta);
    make(marks, "circle", { class: "last", cx: lx, cy: ly, r: 0.06 });
    on.theta.style.transform = `translate(${x}px, ${y}px)`;
    on.name.setAttribute("x", x > 0.9 ? -0.12 : 0.055);
  }

  // ------------------------------------------------------------------------------------------ bounds
  const margin = 50;
  const plotX = (k) => {
    const wide = $("plot").clientWidth || 600;
    return total === 1 ? wide / 2 : margin + k * ((wide - margin - 24) / (total - 1));
  };
  function drawBounds() {
    const svg = fresh("plot"), width = svg.clientWidth || 600, height = svg.clientHeight || 200, floor = height - 20;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const values = steps.flatMap((s) => [s.upper, s.lower]).filter((v) => v !== null);
    let low = Math.min(...values), high = Math.max(...values);
    const room = (high - low || 1) * 0.1;
    low -= room; high += room;
    const y = (v) => 6 + (high - v) / (high - low) * (floor - 10);
    const unit = 10 ** Math.floor(Math.log10((high - low) / 3)), tick = [5, 2, 1].find((m) => m * unit * 3 <= high - low) * unit;
    for (let v = Math.ceil(low / tick) * tick; v <= high; v += tick) {
      make(svg, "path", { class: "grid", d: `M${margin - 6} ${y(v)}H${width - 10}` });
      make(svg, "text", { x: margin - 12, y: y(v) + 4, "text-anchor": "end" }, number(Math.abs(v) < tick / 1e6 ? 0 : v));
    }
    const every = Math.ceil(total / Math.max(2, width / 40));
    for (let k = 0; k < total; k += every) make(svg, "text", { x: plotX(k), y: height - 4, "text-anchor": "middle" }, k + 1);
    const both = steps.slice(0, now + 1).map((s, k) => [s, k]).filter(([s]) => s.upper !== null && s.lower !== null);
    if (both.length > 1)
      make(svg, "path", { class: "band", d: line([...both.map(([s, k]) => [plotX(k), y(s.upper)]), ...both.reverse().map(([s, k]) => [plotX(k), y(s.lower)])]) + "Z" });
    make(svg, "path", { class: "now", d: `M${plotX(now)} 4V${floor}` });
    const { upper, lower } = steps[now], close = upper !== null && lower !== null && y(lower) - y(upper) < 34;
    for (const kind of ["upper", "lower"]) {
      const points = steps.map((s, k) => [plotX(k), s[kind] === null ? null : y(s[kind])]);
      const known = (list) => list.filter((p) => p[1] !== null);
      make(svg, "path", { class: `line future ${kind}`, d: line(known(points)) });
      const past = known(points.slice(0, now + 1));
      make(svg, "path", { class: `line ${kind}`, d: line(past) });
      past.forEach(([cx, cy], k) => {
        const current = k === past.length - 1;
        if (total <= 60 || current) make(svg, "circle", { class: kind, cx, cy, r: current ? 6 : 3.5 });
      });
      const value = steps[now][kind], right = plotX(now) > width - 140, up = kind === "upper" ? close : !close;
      if (value === null) {
        make(svg, "text", { class: kind, x: margin, y: floor - 6 }, `no ${kind} bound yet`);
        continue;
      }
      const height = Math.min(floor - 2, Math.max(11, y(value) + (up ? -9 : 18)));
      make(svg, "text", { class: kind, x: plotX(now) + (right ? -9 : 9), y: height, "text-anchor": right ? "end" : "start" }, number(value));
    }
  }

  // ----------------------------------------------------------------------------------------- queries
  function drawMeter(step) {
    $("queries").textContent = whole(step.queries);
    $("asked").textContent = `${whole(step.asked)} in this step`;
    $("learned").textContent = `Sol gains ${plural(step.rows, "row")} (T1, T2), ${plural(step.disjunctions, "disjunction")} (T3)`;
    const svg = fresh("bars"), most = Math.max(...steps.map((s) => s.asked), 1), all = steps[total - 1].queries || 1;
    const wide = 600 / total;
    steps.forEach((s, k) => {
      const h = 116 * s.asked / most;
      const bar = make(svg, "rect", { x: k * wide + wide * 0.08, width: wide * 0.84, y: 119 - h, height: h, class: k === now ? "current" : k < now ? "done" : "" });
      make(bar, "title", {}, `step ${k + 1}: ${plural(s.asked, "query").replace("querys", "queries")}`);
    });
    make(svg, "path", { class: "line", d: line(steps.map((s, k) => [(k + 0.5) * wide, 119 - 116 * s.queries / all])) });
  }

  // --------------------------------------------------------------------------------------- the player
  function show(k, animate = false) {
    k = Math.min(total - 1, Math.max(0, k));
    if (k === now) return;
    now = k;
    const step = steps[k];
    $("sentence").textContent = step.sentence;
    $("sentence").className = step.failures.length ? "" : "clean";
    $("puzzle").hidden = !step.film.length;
    drawStates(step); drawSol(step); drawBounds(); drawMeter(step);
    runFilm(animate ? 0.75 * delay() : 0);
    $("slider").value = k + 1;
    $("step").textContent = `step ${k + 1} of ${total}`;
    for (const id of ["first", "back"]) $(id).disabled = k === 0;
    for (const id of ["next", "end"]) $(id).disabled = k === total - 1;
    const link = `#step=${k + 1}`;
    if (location.hash !== link) history.replaceState(null, "", link);
  }
  const delay = () => Math.max(1800, Math.min(9000, 60 * steps[Math.max(0, now)].film.length)) / Number($("speed").value);
  function play(on) {
    playing = on;
    clearTimeout(timer);
    $("play").firstChild.data = on ? "❚❚ " : "▶\uFE0E ";
    $("play").lastChild.textContent = on ? "Pause" : "Play";
    $("play").setAttribute("aria-label", on ? "Pause" : "Play");
    if (on) {
      if (now === total - 1) show(0, true); else runFilm(0.75 * delay());
      timer = setTimeout(advance, delay());
    }
  }
  function advance() {
    show(now + 1, true);
    if (now === total - 1) play(false); else timer = setTimeout(advance, delay());
  }
  const go = (k) => { play(false); show(k); };
  const linked = () => {
    const found = /^#step=(\d+)$/.exec(location.hash);
    return found ? Math.min(total, Math.max(1, Number(found[1]))) - 1 : null;
  };
  const theme = () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
      (document.documentElement.style.colorScheme === "" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.style.colorScheme = dark ? "light" : "dark";
  };

  $("about").textContent = `mode ${data.mode} · d = ${data.dimension} · ${plural(total, "step")} · ${whole(steps[total - 1].queries)} queries`;
  $("caption").textContent = data.sol;
  $("slider").max = total;
  const buttons = { first: () => go(0), back: () => go(now - 1), play: () => play(!playing), next: () => go(now + 1), end: () => go(total - 1), theme };
  for (const id in buttons) $(id).addEventListener("click", (event) => { buttons[id](); if (event.detail) event.currentTarget.blur(); });
  $("slider").addEventListener("input", () => go(Number($("slider").value) - 1));
  $("move").addEventListener("input", () => { cancelAnimationFrame(frame); play(false); showFilm(Number($("move").value)); });
  const clicked = (id, step) => $(id).addEventListener("click", (event) => {
    const area = $(id).getBoundingClientRect();
    go(Math.round(step(event.clientX - area.left, area.width)));
  });
  clicked("plot", (x, width) => (x - margin) / (width - margin - 24) * (total - 1));
  clicked("bars", (x, width) => x / width * total - 0.5);
  addEventListener("resize", () => { drawStates(steps[now]); drawBounds(); if (steps[now].film.length) showFilm(filmAt); });
  const keys = { ArrowLeft: buttons.back, ArrowRight: buttons.next, Home: buttons.first, End: buttons.end, " ": buttons.play, d: theme };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    const on = event.target.tagName;
    if (on === "INPUT" || on === "SELECT" || (on === "BUTTON" && event.key === " ")) return;
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("hashchange", () => { const k = linked(); if (k !== null && k !== now) go(k); });
  show(linked() ?? 0);
})();
