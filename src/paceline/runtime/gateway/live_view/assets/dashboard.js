// The live view: follows /dashboard/events and shows the newest state.
//
// Every connection begins with the whole history, which replaces what is shown; updates are
// numbered. Names and texts come from replicas and engines: they enter the page as text only.

import { Chart } from "./charts.js";
import { addEvents, clearEvents } from "./events.js";
import { NOTHING, clock, decimal, fraction, millis, modelName, percent, whole } from "./formats.js";
import { askWhyRefused } from "./refusal.js";

const MAX_POINTS = 300;
const STALE_MS = 5000;
const RECONNECT_MS = 10000; // a connection that is half open reports no error
const RETRY_MS = 2000;

const byId = (id) => document.getElementById(id);

// State: what the server sent

const state = {
  number: 0,
  latest: null,
  times: [],
  traffic: new Map(),
  fleet: new Map(),
  replicas: new Map(), // name → Map of series
};
let chosen = ""; // name of a replica, "" for all
let cursor = null; // index of the point that a reader looks at

const columns = (object) => new Map(Object.entries(object));

function takeHistory(document) {
  state.number = document.number;
  state.latest = document.latest;
  state.times = document.points.at_s;
  state.traffic = columns(document.points.traffic);
  state.fleet = columns(document.points.fleet);
  state.replicas = new Map(
    Object.entries(document.points.replicas).map(([name, series]) => [name, columns(series)]),
  );
  cursor = null;
}

function push(series, values) {
  for (const [name, list] of series) {
    list.push(values === undefined ? null : values[name]);
    if (list.length > MAX_POINTS) list.shift();
  }
}

function takeUpdate(update) {
  state.number = update.number;
  state.latest = update.latest;
  const numBefore = state.times.length;
  state.times.push(update.latest.at_s);
  if (state.times.length > MAX_POINTS) {
    state.times.shift();
    if (cursor !== null) cursor = Math.max(0, cursor - 1);
  }
  push(state.traffic, update.latest.traffic);
  push(state.fleet, update.latest.fleet);
  const views = new Map(update.latest.replicas.map((view) => [view.name, view]));
  for (const name of state.replicas.keys()) if (!views.has(name)) state.replicas.delete(name);
  for (const [name, view] of views) {
    if (!state.replicas.has(name)) {
      const empty = () => Array(Math.min(numBefore, MAX_POINTS)).fill(null);
      state.replicas.set(name, new Map([...state.fleet.keys()].map((key) => [key, empty()])));
    }
    push(state.replicas.get(name), view);
  }
}

// Charts

const CHARTS = [
  {
    title: "Draft length", of: "replica", isWhole: true, format: decimal,
    empty: "no replica reports a draft length",
    lines: [{ name: "tokens", class: "a", key: "draft_length" }],
  },
  {
    title: "Acceptance", of: "replica", top: 1, format: fraction,
    empty: "no replica reports drafts",
    lines: [{ name: "accepted / drafted", class: "a", key: "accepted_fraction" }],
  },
  {
    title: "Goodput, tokens/s", of: "replica", format: decimal, empty: "no replica is at work",
    lines: [
      { name: "measured", class: "a", key: "tokens_per_s" },
      { name: "expected", class: "b", key: "expected_tokens_per_s" },
    ],
  },
  {
    title: "Time to first token, last minute", of: "traffic", format: millis,
    empty: "no streams in the last minute",
    lines: [
      { name: "p50", class: "a", key: "ttft_p50_ms" },
      { name: "p90", class: "b", key: "ttft_p90_ms" },
      { name: "p99", class: "c", key: "ttft_p99_ms" },
    ],
  },
  {
    title: "Time per output token, last minute", of: "traffic", format: millis,
    empty: "no complete streams in the last minute",
    lines: [
      { name: "p50", class: "a", key: "tpot_p50_ms" },
      { name: "p90", class: "b", key: "tpot_p90_ms" },
      { name: "p99", class: "c", key: "tpot_p99_ms" },
    ],
  },
  {
    title: "Requests", of: "traffic", isWhole: true, format: whole, empty: "",
    lines: [
      { name: "in flight", class: "a", key: "num_in_flight" },
      { name: "waiting in the gateway", class: "b", key: "num_waiting" },
    ],
  },
];

const charts = CHARTS.map((definition) => new Chart(definition, moveCursor));
byId("charts").append(...charts.map((chart) => chart.figure));

function moveCursor(index) {
  cursor = index !== null && index >= state.times.length - 1 ? null : index;
  drawCharts();
}

function drawCharts() {
  if (!state.latest) return;
  for (const chart of charts) {
    const { of, lines } = chart.definition;
    let series = of === "traffic" ? state.traffic : state.fleet;
    if (of === "replica" && chosen) series = state.replicas.get(chosen) ?? new Map();
    const values = lines.map((line) => series.get(line.key) ?? []);
    chart.show({ times: state.times, values }, cursor);
  }
}

// Tiles

const TILES = [
  {
    name: "Replicas ready",
    show: ({ replicas }) => {
      const ready = replicas.filter((view) => view.state === "ready").length;
      return [`${ready} of ${replicas.length}`, "", ready < replicas.length];
    },
  },
  {
    name: "Breakers tripped",
    show: ({ replicas }) => {
      const open = replicas.filter((view) => view.breaker !== "closed").length;
      return [String(open), "", open > 0];
    },
  },
  { name: "In flight", show: ({ traffic }) => [whole(traffic.num_in_flight), ""] },
  {
    name: "Waiting",
    show: ({ traffic }) => [whole(traffic.num_waiting), `p99 ${millis(traffic.queue_p99_ms)}`],
  },
  {
    name: "Requests/s",
    show: ({ traffic }) => [
      decimal(traffic.requests_per_s), `${decimal(traffic.failed_per_s)} failed`,
      traffic.failed_per_s > 0,
    ],
  },
  {
    name: "Output tokens/s",
    show: ({ traffic }) => [decimal(traffic.output_tokens_per_s), "in ended requests"],
  },
  {
    name: "Time to first token",
    show: ({ traffic }) => [millis(traffic.ttft_p50_ms), `p50; p99 ${millis(traffic.ttft_p99_ms)}`],
  },
  {
    name: "Time per token",
    show: ({ traffic }) => [millis(traffic.tpot_p50_ms), `p50; p99 ${millis(traffic.tpot_p99_ms)}`],
  },
];

const tiles = TILES.map(({ name }) => {
  const tile = document.createElement("div");
  tile.className = "tile";
  const term = document.createElement("dt");
  term.textContent = name;
  const value = document.createElement("dd");
  const main = document.createElement("span");
  const more = document.createElement("span");
  more.className = "more";
  value.append(main, more);
  tile.append(term, value);
  byId("tiles").append(tile);
  return { tile, main, more };
});

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function drawTiles() {
  TILES.forEach(({ show }, index) => {
    const [main, more, isProblem] = show(state.latest);
    setText(tiles[index].main, main);
    setText(tiles[index].more, more);
    tiles[index].tile.classList.toggle("problem", Boolean(isProblem));
  });
}

// Replicas

const CELLS = [
  "State", "Breaker", "Length", "Acceptance", "Tokens/s", "Expected", "In flight",
  "Engine queue", "KV cache", "Policy and its reason",
];
const rows = new Map(); // name → nodes of its row

function makeRow(name) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.title = "Show this replica in the charts";
  button.addEventListener("click", () => choose(chosen === name ? "" : name));
  const note = document.createElement("small");
  head.append(button, note);
  row.append(head);
  const cells = CELLS.map((label, index) => {
    const cell = document.createElement("td");
    cell.dataset.name = label;
    if (index >= 2 && index < CELLS.length - 1) cell.className = "number";
    if (index === CELLS.length - 1) cell.className = "why";
    const text = document.createElement("span");
    const small = document.createElement("small");
    small.hidden = true;
    cell.append(text, small);
    row.append(cell);
    return { cell, text, small };
  });
  return { row, button, note, cells };
}

const hasProblem = (view) =>
  view.state !== "ready" || view.breaker !== "closed" || Boolean(view.governor?.uses_static_setting);

/** Some policies begin their reason with their own name. */
const withoutRepeat = (policy, reason) =>
  reason.startsWith(policy) ? reason : `${policy}, ${reason}`;

/** What a step takes at each draft length, and how that compares with the table of costs. */
const stepTimes = ({ forecast_step_ms: times, step_slowdown: slowdown }) =>
  [
    times?.length ? `a step with 0 to ${times.length - 1} drafts: ${times.map(decimal).join(", ")} ms` : "",
    slowdown == null ? "" : `${decimal(slowdown)} times the table of costs`,
  ].filter(Boolean).join("; ");

function fillRow({ row, button, note, cells }, view) {
  const { governor } = view;
  const stateClass = { ready: "good", down: "bad" }[view.state] ?? "warn";
  const breakerClass = { closed: "good", open: "bad" }[view.breaker] ?? "warn";
  const length =
    view.draft_length !== null && governor?.ceiling != null
      ? `${view.draft_length} of ${governor.ceiling}`
      : whole(view.draft_length);
  const planned = view.planned_restarts ? ` (${view.planned_restarts} planned)` : "";
  const restarts = view.restarts ? `, ${view.restarts} restarts${planned}` : "";
  const texts = [
    view.state, view.breaker.replace("_", "-"), length, fraction(view.accepted_fraction),
    decimal(view.tokens_per_s), decimal(view.expected_tokens_per_s), whole(view.in_flight),
    view.running === null ? NOTHING : `${view.running} run, ${whole(view.waiting)} wait`,
    percent(view.kv_usage_fraction),
    governor ? withoutRepeat(governor.policy ?? NOTHING, governor.reason ?? NOTHING) : "no governor",
  ];
  texts.forEach((text, index) => setText(cells[index].text, text));
  cells[0].text.className = stateClass;
  cells[1].text.className = breakerClass;
  setText(cells[0].small, view.state === "ready" ? "" : (view.reason ?? ""));
  setText(cells[9].small, governor ? stepTimes(governor) : "");
  for (const index of [0, 9]) cells[index].small.hidden = cells[index].small.textContent === "";
  const draft = view.draft && view.draft !== "none" ? `draft ${modelName(view.draft)}` : "";
  setText(note, [modelName(view.model ?? ""), draft].filter(Boolean).join(", ") + restarts);
  note.title = [view.model, draft && view.draft].filter(Boolean).join(", ");
  row.hidden = byId("only-problems").checked && !hasProblem(view);
  row.classList.toggle("chosen", view.name === chosen);
  button.setAttribute("aria-pressed", String(view.name === chosen));
}

function drawReplicas() {
  const views = state.latest.replicas;
  const names = new Set(views.map((view) => view.name));
  for (const [name, { row }] of rows) {
    if (!names.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
  const body = byId("replicas");
  views.forEach((view, index) => {
    if (!rows.has(view.name)) rows.set(view.name, makeRow(view.name));
    const made = rows.get(view.name);
    fillRow(made, view);
    if (body.children[index] !== made.row) body.insertBefore(made.row, body.children[index] ?? null);
  });
  const numProblems = views.filter(hasProblem).length;
  setText(byId("replica-count"), `${views.length}, ${numProblems || "none"} with a problem`);
  drawChoices(views.map((view) => view.name));
}

function drawChoices(names) {
  const select = byId("chosen");
  const shown = [...select.options].slice(1).map((option) => option.value);
  if (shown.length === names.length && shown.every((name, index) => name === names[index])) return;
  while (select.options.length > 1) select.remove(1);
  for (const name of names) select.add(new Option(name, name));
  choose(names.includes(chosen) ? chosen : "");
}

function choose(name) {
  chosen = name;
  byId("chosen").value = name;
  for (const [rowName, { row, button }] of rows) {
    row.classList.toggle("chosen", rowName === chosen);
    button.setAttribute("aria-pressed", String(rowName === chosen));
  }
  drawCharts();
}

byId("chosen").addEventListener("change", (event) => choose(event.target.value));
byId("only-problems").addEventListener("change", () => state.latest && drawReplicas());

// The connection

let source = null;
let heardAt = 0;
let connectedAt = 0; // when the last attempt began

/** Screen readers speak the text when it changes; what changes each second stands beside it. */
function setStatus(kind, text, detail = "") {
  const status = byId("status");
  status.className = `status ${kind}`;
  document.body.dataset.connection = kind; // what is shown fades while it may be old
  setText(status, text);
  setText(byId("status-detail"), detail);
}

function draw() {
  heardAt = Date.now();
  setStatus("live", "live", clock(state.latest.at_s));
  drawTiles();
  drawReplicas();
  drawCharts();
}

function connect() {
  source?.close();
  connectedAt = Date.now();
  source = new EventSource("/dashboard/events");
  source.addEventListener("history", (event) => {
    const document = JSON.parse(event.data);
    takeHistory(document);
    clearEvents();
    addEvents(document.events);
    draw();
  });
  source.addEventListener("update", (event) => {
    const update = JSON.parse(event.data);
    if (update.number !== state.number + 1) {
      connect(); // something was lost: begin again with the history
      return;
    }
    takeUpdate(update);
    addEvents(update.events);
    draw();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) explainAndRetry();
    else setStatus("lost", "connection lost, reconnecting");
  });
}

async function explainAndRetry() {
  const { status, reason } = await askWhyRefused(RECONNECT_MS);
  if (status === 401) {
    location.assign("/dashboard/login");
    return;
  }
  setStatus("lost", `${reason}; retrying`);
  setTimeout(connect, RETRY_MS);
}

setInterval(() => {
  const silentMs = Date.now() - heardAt;
  if (heardAt && silentMs > STALE_MS && source.readyState === EventSource.OPEN) {
    setStatus("lost", "no data", `for ${Math.round(silentMs / 1000)} s`);
  }
  const isClosed = source.readyState === EventSource.CLOSED; // explainAndRetry connects again
  if (!isClosed && Date.now() - Math.max(heardAt, connectedAt) > RECONNECT_MS) {
    setStatus("lost", "no data, reconnecting");
    connect();
  }
}, 1000);

connect();
