"use strict";
(() => {
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // Light and dark: as the system prefers, until the user chooses.
  const themes = ["auto", "light", "dark"], toggle = document.getElementById("theme");
  const paint = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    toggle.textContent = "theme: " + theme;
  };
  let theme = "auto";
  try { theme = themes.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto"; } catch { /* none kept */ }
  paint(theme);
  toggle.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    paint(theme);
    try { localStorage.setItem("theme", theme); } catch { /* not kept */ }
  });

  // The legend shows and hides planners in all plots.
  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.addEventListener("click", () => {
      const off = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!off));
      const name = `[data-series="${button.dataset.toggle}"]`;
      for (const series of document.querySelectorAll(name)) series.classList.toggle("off", off);
    });
  }

  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });

  // The table of all runs: rows are filtered, then sorted, then one page of them is shown.
  const data = JSON.parse(document.getElementById("runs-data").textContent), PAGE = 50;
  const at = Object.fromEntries(data.fields.map((field, index) => [field, index]));
  for (const row of data.rows)
    for (const field of data.wordy) if (row[at[field]] !== null) row[at[field]] = data.words[row[at[field]]];

  const show = (value, digits) => {
    if (value === null) return "–";
    if (typeof value === "string") return value; // an integer beyond the precision of JavaScript
    if (Number.isInteger(value)) return value.toLocaleString("en");
    if (Math.abs(value) < 5e-10) return "0";
    const size = Math.abs(value);
    return size >= 1e6 || size < 1e-4 ? value.toExponential(2) : Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
  };
  const text = (field) => ({ value: (row) => row[at[field]], show: (row) => row[at[field]] ?? "–" });
  const numeric = (field, digits = 5) => ({ n: true, value: (row) => row[at[field]], show: (row) => show(row[at[field]], digits) });
  const gap = (row) => (row[at.upper] === null || row[at.lower] === null ? null : row[at.upper] - row[at.lower]);
  const confidence = (field) => (row) => (row[at[field]] === null ? null : 1 - row[at[field]]);
  const assumes = (row) => (row[at.assumes] === "" ? "nothing but the declared ranges" : row[at.assumes]);
  const explained = (row) => row[at.explained] || null;
  const link = (row) => {
    const name = row[at.trace];
    return name === null ? "–" : make("a", { href: data.traces + encodeURIComponent(name) }, "trace");
  };
  const all = [
    { name: "problem", ...text("problem") },
    { name: "planner", ...text("planner") },
    { name: "seed", ...numeric("seed") },
    { name: "status", ...text("status") },
    { name: "return", ...numeric("total_reward") },
    { name: "v*", ...numeric("optimal") },
    { name: "regret", ...numeric("regret") },
    { name: "queries", ...numeric("queries") },
    { name: "worst call", ...numeric("worst_call") },
    { name: "steps", ...numeric("steps") },
    { name: "A", ...numeric("actions") },
    { name: "d", ...numeric("dimension") },
    { name: "H", ...numeric("horizon") },
    { name: "lower", ...numeric("lower") },
    { name: "upper", ...numeric("upper") },
    { name: "gap", n: true, value: gap, show: (row) => show(gap(row), 3) },
    { name: "certificate", ...text("certificate") },
    { name: "seconds", ...numeric("seconds", 3) },
    { name: "attempts", ...numeric("attempts") },
    { name: "trace", value: (row) => row[at.trace], show: link },
    { name: "confidence", n: true, value: confidence("failure"), show: (row) => show(confidence("failure")(row), 4) },
    { name: "of lower", n: true, value: confidence("lower_failure"), show: (row) => show(confidence("lower_failure")(row), 4) },
    { name: "eta explains", n: true, value: explained, show: (row) => show(explained(row), 3) },
    { name: "message", kind: "error", ...text("error") },
    { name: "upper assumes", kind: "error", value: assumes, show: (row) => assumes(row) ?? "–" },
    { name: "doubts", kind: "error", ...text("warnings") },
  ];
  const detail = ["worst call", "steps", "A", "d", "H", "lower", "upper", "certificate", "attempts", "trace", "confidence", "of lower", "eta explains", "upper assumes", "doubts"];
  for (const column of all)
    column.kind = [column.kind, column.n && "n", detail.includes(column.name) && "detail"].filter(Boolean).join(" ");
  const columns = all.filter((column) => data.rows.some((row) => column.value(row) !== null));

  const search = make("input", { type: "search", id: "runs-search", autocomplete: "off" });
  const choices = ["problem", "planner", "status"].map((field) => {
    const select = make("select", { id: "runs-" + field }, make("option", { value: "" }, "all"));
    for (const value of new Set(data.rows.map((row) => row[at[field]]))) select.append(make("option", { value }, value));
    return { field, select };
  });
  const controls = make("div", { class: "controls" }, make("label", {}, "search", search));
  for (const { field, select } of choices) controls.append(make("label", {}, field, select));

  const state = { column: null, down: false, page: 0 };
  const heads = columns.map((column) => {
    const button = make("button", { type: "button" }, column.name);
    const head = make("th", { scope: "col", "aria-sort": "none", class: column.kind }, button);
    button.addEventListener("click", () => {
      state.down = state.column === column && !state.down;
      state.column = column;
      state.page = 0;
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      draw();
    });
    return head;
  });
  const body = make("tbody"), status = make("span", { role: "status", id: "runs-count" });
  const back = make("button", { type: "button", id: "runs-back" }, "previous");
  const forth = make("button", { type: "button", id: "runs-next" }, "next");
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
  document.getElementById("runs-table").append(
    controls,
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All runs" }, table),
    make("div", { class: "pages" }, back, forth, status),
  );

  // Natural order of texts, so that hanoi/9 is before hanoi/10; missing values come last either way.
  const collator = new Intl.Collator("en", { numeric: true });
  const before = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "string" ? collator.compare(a, b) : a - b;
    return state.down ? -order : order;
  };
  const texts = data.rows.map((row) => data.wordy.map((field) => row[at[field]] ?? "").join("\n").toLowerCase());

  const draw = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let rows = data.rows.filter((row, index) =>
      words.every((word) => texts[index].includes(word)) &&
      choices.every(({ field, select }) => select.selectedIndex === 0 || row[at[field]] === select.value));
    if (state.column !== null) {
      const value = state.column.value;
      rows = rows.slice().sort((a, b) => before(value(a), value(b)));
    }
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const first = state.page * PAGE, shown = rows.slice(first, first + PAGE);
    body.replaceChildren(...shown.map((row) => make("tr", {}, ...columns.map((column, index) => {
      if (index === 0) return make("th", { scope: "row" }, column.show(row));
      const bad = column.name === "status" && row[at.status] !== "done";
      return make("td", { class: bad ? "bad" : column.kind }, column.show(row));
    }))));
    status.textContent = rows.length === 0 ? "no runs"
      : `${(first + 1).toLocaleString("en")} to ${(first + shown.length).toLocaleString("en")} of ${rows.length.toLocaleString("en")} runs`;
    back.disabled = state.page === 0;
    forth.disabled = state.page === pages - 1;
  };
  const restart = () => { state.page = 0; draw(); };
  search.addEventListener("input", restart);
  for (const { select } of choices) select.addEventListener("change", restart);
  back.addEventListener("click", () => { state.page -= 1; draw(); });
  forth.addEventListener("click", () => { state.page += 1; draw(); });
  draw();
})();
