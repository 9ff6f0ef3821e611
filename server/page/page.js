"use strict";
// Shows state.json and keeps it up to date by events. Whatever comes from a device is set as text, never as markup.

const $ = (id) => document.getElementById(id);
const state = { facts: {}, rounds: [], devices: new Map(), skew: 0, sort: "client", descending: false };
const MODELS = { personal: "own models", adapted: "adapted models", global_local: "global model" };
const DASH = "–";

// How values read.

const formats = new Map(); // by digits: to make one takes longer than to use it a thousand times
const number = (value, digits = 3) => {
  if (value == null) return "";
  if (!formats.has(digits)) formats.set(digits, new Intl.NumberFormat("en", { maximumSignificantDigits: digits }));
  return formats.get(digits).format(value);
};
const seconds = (value) => value == null ? "" : value < 90 ? `${number(value, value < 10 ? 2 : 3)} s` : value < 5400 ? `${Math.round(value / 60)} min` : value < 172800 ? `${number(value / 3600, 2)} h` : `${Math.round(value / 86400)} d`;
const share = (value) => value == null ? "" : `${(100 * value).toFixed(1)} %`;
const bytes = (value) => {
  if (value == null) return "";
  const unit = ["B", "kB", "MB", "GB", "TB"][Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(value, 1)) / 3)))];
  return `${number(value / 1000 ** ["B", "kB", "MB", "GB", "TB"].indexOf(unit))} ${unit}`;
};
const joules = (found) => Object.entries(found).map(([kind, value]) => `${number(value)} J (${kind})`).join(", ");
const now = () => Date.now() / 1000 + state.skew;
const age = (row) => row.last_seen == null ? null : Math.max(0, now() - row.last_seen);
const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };

// The columns of the table: key, heading, class, how a row reads, and by what it is sorted.

const COLUMNS = [
  ["client", "Device", "name", (row) => `client ${row.client}`, (row) => row.client],
  ["doing", "Does", "does", (row) => row.doing, (row) => row.doing],
  ["last_seen", "Last seen", "number", (row) => age(row) == null ? "" : seconds(Math.round(age(row))), (row) => age(row)],
  ["capacity", "Tier", "number", (row) => row.capacity == null ? "" : `p = ${number(row.capacity)}`, (row) => row.capacity],
  ["median_seconds", "Median round", "number", (row) => seconds(row.median_seconds), (row) => row.median_seconds],
  ["accepted", "Accepted", "number", (row) => String(row.accepted), (row) => row.accepted],
  ["late", "Late", "number count", (row) => String(row.late), (row) => row.late],
  ["absent", "Absent", "number count", (row) => String(row.absent), (row) => row.absent],
  ["refused", "Refused", "number count", (row) => String(row.refused), (row) => row.refused],
  ["why", "Why", "text why", (row) => row.why, (row) => row.why],
  ["accuracy", "Accuracy", "number", (row) => share(row.accuracy), (row) => row.accuracy],
  ["examples", "Samples", "number", (row) => row.examples == null ? "" : String(row.examples), (row) => row.examples],
  ["memory_bytes", "Memory", "number", (row) => bytes(row.memory_bytes), (row) => row.memory_bytes],
  ["joules", "Energy", "number", (row) => joules(row.joules), (row) => Object.values(row.joules).reduce((a, b) => a + b, 0) || null],
  ["version", "Version", "text version", (row) => row.version, (row) => row.version],
].map(([key, heading, kind, read, rank]) => ({ key, heading, kind, read, rank }));
const OPTIONAL = ["memory_bytes", "joules"];
const isTold = (key) => !OPTIONAL.includes(key) || [...state.devices.values()].some((row) => key === "joules" ? Object.keys(row.joules).length : row[key] != null);

// The table.

const lines = new Map(); // by client: its line and its cells
let columns = [];

function buildHead() {
  columns = COLUMNS.filter((column) => isTold(column.key));
  $("head").replaceChildren(...columns.map((column) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.className = column.kind.split(" ")[0];
    cell.dataset.key = column.key;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = column.heading;
    button.addEventListener("click", () => sortBy(column.key, state.sort === column.key && !state.descending));
    cell.append(button);
    return cell;
  }));
  $("sort").replaceChildren(...columns.map((column) => new Option(column.heading, column.key)));
  lines.clear();
  $("body").replaceChildren();
  showSort();
}

function showSort() {
  for (const cell of $("head").children) {
    if (cell.dataset.key === state.sort) cell.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
  $("sort").value = state.sort;
}

function sortBy(key, descending) {
  state.sort = key;
  state.descending = descending;
  showSort();
  showTable();
}

function line(client) {
  if (!lines.has(client)) {
    const row = document.createElement("tr");
    const cells = columns.map((column) => {
      const tag = document.createElement("td");
      tag.className = `${column.kind} nothing`;
      if (!["client", "doing", "why"].includes(column.key)) {
        tag.classList.add("labelled");
        tag.dataset.label = column.heading;
      }
      return tag;
    });
    row.append(...cells);
    row.dataset.client = client;
    lines.set(client, { row, cells, texts: columns.map(() => ""), text: "" });
  }
  return lines.get(client);
}

function fill(device) {
  const found = line(device.client), { texts } = found;
  columns.forEach((column, at) => {
    const text = column.read(device);
    const cell = found.cells[at];
    if (texts[at] === text) return;
    texts[at] = cell.textContent = text;
    cell.classList.toggle("nothing", text === "" || (column.kind.includes("count") && text === "0"));
    if (column.kind.includes("count")) cell.classList.toggle("some", text !== "0");
  });
  const row = found.row;
  row.toggleAttribute("data-connected", device.connected === true);
  row.toggleAttribute("data-waited", device.waited_for);
  row.toggleAttribute("data-refused", device.doing === "refused");
  found.text = `${texts.join(" ")} ${device.address}`.toLowerCase();
}

const SHOWN = {
  all: () => true,
  waited: (device) => device.waited_for,
  away: (device) => device.connected !== true,
  trouble: (device) => device.late + device.absent + device.refused > 0 || device.doing === "refused",
};

function showTable() {
  const wanted = columns.map((column) => column.key).join();
  if (wanted !== COLUMNS.filter((column) => isTold(column.key)).map((column) => column.key).join()) {
    buildHead();
    for (const device of state.devices.values()) fill(device);
  }
  const rank = COLUMNS.find((column) => column.key === state.sort).rank;
  const ranked = [...state.devices.values()].map((device) => [rank(device), device]);
  const sign = state.descending ? -1 : 1;
  ranked.sort(([a, one], [b, other]) => {
    const blank = (a == null || a === "") - (b == null || b === ""); // what is not known stays at the end
    return blank || sign * (a < b ? -1 : a > b ? 1 : 0) || one.client - other.client;
  });
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const keep = SHOWN[$("show").value];
  let shown = 0, before = null, moved = false;
  for (const [, device] of ranked) {
    const { row, text } = line(device.client);
    const is = keep(device) && words.every((word) => /^\d+$/.test(word) ? String(device.client) === word : text.includes(word));
    if (row.hidden === is) row.hidden = !is;
    shown += is;
    if ((before ? before.nextSibling : $("body").firstChild) !== row) moved = true;
    before = row;
  }
  if (moved || $("body").childElementCount !== ranked.length) {
    const held = document.activeElement;
    $("body").replaceChildren(...ranked.map(([, device]) => line(device.client).row));
    if (held && held.isConnected && held !== document.activeElement) held.focus();
  }
  say($("shown"), `${shown} of ${state.devices.size} devices`);
}

function showAges() {
  const at = columns.findIndex((column) => column.key === "last_seen");
  for (const device of state.devices.values()) {
    const { row, cells, texts } = line(device.client);
    if (row.hidden) continue;
    const text = columns[at].read(device);
    if (texts[at] !== text) texts[at] = cells[at].textContent = text;
  }
}

// The tiles.

function showFacts() {
  const f = state.facts, open = f.open;
  document.title = `${f.closed}/${f.rounds} · ${f.run} · edgefl`;
  say($("name"), f.run);
  say($("about"), `${f.method} on ${f.data}` + (f.listening ? `, listening on ${f.listening}` : ""));
  say($("rounds"), `${f.closed} of ${f.rounds}`);
  $("progress").max = f.rounds;
  $("progress").value = f.closed;
  say($("count"), f.running ? `${f.connected} connected` : `${f.enrolled} enrolled`);
  say($("count-more"), `${f.enrolled} of ${f.clients} enrolled`);
  const sums = { accepted: 0, late: 0, absent: 0, refused: 0 };
  let payload = 0;
  for (const each of state.rounds) {
    for (const name of Object.keys(sums)) sums[name] += each.replies[name] || 0;
    payload += each.down + each.up;
  }
  say($("replies"), `${sums.accepted} accepted`);
  say($("replies-more"), `${sums.late} late, ${sums.absent} absent, ${sums.refused} refused`);
  say($("bytes"), bytes(payload));
  say($("bytes-more"), `${bytes(f.socket_bytes)} through the sockets`);
  $("problem").hidden = !f.problem;
  say($("problem"), f.problem);
  showWaiting();
  showState();
}

function showWaiting() {
  const f = state.facts, waiting = f.waiting_for || [];
  const what = f.phase === "training" ? `round ${f.closed + 1}` : f.phase === "scoring" ? `the evaluation after round ${f.closed}` : "";
  let text = "nobody";
  if (waiting.length) text = `${what}: ${waiting.length} ${waiting.length === 1 ? "device" : "devices"}`;
  else if (f.waiting) text = f.waiting;
  if (what && f.opened) text += `, open for ${seconds(Math.max(0, Math.round(now() - f.opened)))}`;
  if (what && f.closes) text += `, closes in ${seconds(Math.max(0, Math.round(f.closes - now())))}`;
  say($("open"), text);
  const wanted = waiting.slice(0, 12), box = $("waiting");
  if (box.dataset.shown === waiting.join()) return;
  box.dataset.shown = waiting.join();
  box.replaceChildren(...wanted.map((client) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `client ${client}`;
    button.setAttribute("aria-label", `show client ${client} in the table`);
    button.addEventListener("click", () => {
      $("filter").value = String(client);
      $("show").value = "all";
      showTable();
      $("devices").scrollIntoView();
      $("filter").focus();
    });
    return button;
  }), ...(waiting.length > wanted.length ? [`and ${waiting.length - wanted.length} more`] : []));
}

let lost = false;

function showState() {
  const f = state.facts, pill = $("state");
  const phases = { waiting: "waiting", training: `round ${f.closed + 1} is open`, storing: "storing", scoring: "evaluating", over: "over" };
  const old = f.running && f.seen && now() - f.seen > 30;
  say(pill, lost ? "the page is out of reach; trying again" : old ? "no news of the server" : phases[f.phase] || f.phase);
  pill.className = "pill " + (lost || old ? "bad" : f.running || f.done ? "good" : "bad");
}

// The curves.

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function ticks(low, high, most) {
  const span = high - low || Math.abs(high) || 1, raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

const charts = new Map(); // by id: what was drawn and where the cursor is

function draw(id, series, format, low, high) {
  const box = $(id), drawn = series.filter((each) => each.points.length);
  if (!drawn.length) {
    if (!box.querySelector(".empty")) box.replaceChildren(Object.assign(document.createElement("p"), { className: "empty", textContent: "nothing yet" }));
    return;
  }
  const width = Math.max(box.clientWidth, 240), height = 210, left = 58, right = 14, top = 10, bottom = 26;
  const last = Math.max(state.facts.closed || 1, 2), values = drawn.flatMap((each) => each.points.map(([, y]) => y));
  const min = low ?? Math.min(...values), max = Math.max(high ?? -Infinity, ...values);
  const pad = high == null && low == null ? (max - min || Math.abs(max) || 1) * 0.06 : 0;
  const bottomValue = min - pad, topValue = max + (low == null || high == null ? (max - min || Math.abs(max) || 1) * 0.06 : 0);
  const x = (round) => left + (round - 1) / (last - 1) * (width - left - right);
  const y = (value) => height - bottom - (value - bottomValue) / (topValue - bottomValue || 1) * (height - top - bottom);
  const parts = ticks(bottomValue, topValue, 4).flatMap((value) => [
    svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
  for (const round of new Set(ticks(1, last, width < 420 ? 4 : 6).map(Math.round)))
    if (round >= 1 && round <= last) parts.push(svg("text", { x: x(round), y: height - 6, "text-anchor": round > last - (last - 1) / 20 ? "end" : "middle" }, String(round)));
  parts.push(svg("text", { x: left - 8, y: height - 6, "text-anchor": "end" }, "round"));
  drawn.forEach((each) => {
    const path = each.points.map(([round, value], at) => `${at ? "L" : "M"}${x(round).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    parts.push(svg("path", { class: `curve c${each.at}`, d: path }));
    if (each.points.length <= 30) for (const [round, value] of each.points) parts.push(svg("circle", { class: `m${each.at}`, cx: x(round), cy: y(value), r: 3 }));
  });
  const cursor = svg("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
  const words = drawn.map((each) => `${each.name} ${format(each.points.at(-1)[1])} after round ${each.points.at(-1)[0]}`).join("; ");
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "aria-label": `${words}. Left and right arrows read single rounds.` }, ...parts, cursor);
  const legend = Object.assign(document.createElement("div"), { className: "legend" });
  legend.setAttribute("aria-live", "polite");
  const chart = charts.get(id) || { round: null };
  Object.assign(chart, { drawn, format, x, cursor, legend, last, left, width, right });
  charts.set(id, chart);
  const focused = box.contains(document.activeElement);
  box.replaceChildren(picture, legend);
  point(chart, chart.round);
  picture.addEventListener("pointermove", (event) => {
    const rect = picture.getBoundingClientRect();
    const share = ((event.clientX - rect.left) / rect.width * width - left) / (width - left - right);
    point(chart, Math.round(1 + share * (last - 1)));
  });
  picture.addEventListener("pointerleave", () => point(chart, null));
  picture.addEventListener("blur", () => point(chart, null));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    point(chart, Math.min(last, Math.max(1, (chart.round ?? last) + step)));
  });
  if (focused) picture.focus();
}

function point(chart, round) {
  const { drawn, format, x, cursor, legend, last } = chart;
  chart.round = round == null ? null : Math.min(last, Math.max(1, round));
  cursor.setAttribute("visibility", chart.round == null ? "hidden" : "visible");
  if (chart.round != null) { cursor.setAttribute("x1", x(chart.round)); cursor.setAttribute("x2", x(chart.round)); }
  legend.replaceChildren(...drawn.map((each) => {
    const near = chart.round == null ? each.points.at(-1) : each.points.reduce((a, b) => Math.abs(b[0] - chart.round) < Math.abs(a[0] - chart.round) ? b : a);
    const entry = document.createElement("span");
    const value = Object.assign(document.createElement("b"), { textContent: format(near[1]) });
    const key = svg("svg", { class: "key", viewBox: "0 0 26 10", "aria-hidden": "true" }, svg("path", { class: `curve c${each.at}`, d: "M0 5H26" }));
    entry.append(key, ` ${each.name} `, value, ` round ${near[0]}`);
    return entry;
  }));
}

function showCurves() {
  const rounds = state.rounds, kinds = Object.keys(MODELS);
  const scored = (what) => kinds.map((kind, at) => ({
    name: MODELS[kind], at,
    points: rounds.filter((each) => each.evaluation && each.evaluation[kind] && each.evaluation[kind][what] != null).map((each) => [each.round, each.evaluation[kind][what]]),
  })).filter((each) => each.points.length).map((each, at) => ({ ...each, at }));
  draw("accuracy", scored("accuracy"), (value) => `${number(100 * value, 4)} %`, null, null);
  const train = { name: "training", points: rounds.filter((each) => each.train_loss != null).map((each) => [each.round, each.train_loss]) };
  const losses = [...scored("loss").map((each) => ({ ...each, name: `test, ${each.name}` })), train].slice(0, 3).map((each, at) => ({ ...each, at }));
  draw("loss", losses, (value) => number(value), null, null);
  let down = 0, up = 0;
  const sums = rounds.map((each) => [each.round, (down += each.down), (up += each.up)]);
  draw("payload", [
    { name: "to the devices", at: 0, points: sums.map(([round, value]) => [round, value]) },
    { name: "from the devices", at: 1, points: sums.map(([round, , value]) => [round, value]) },
  ], bytes, 0, null);
}

// News.

const due = new Set();

function show(...parts) {
  if (!due.size) requestAnimationFrame(() => {
    const wanted = [...due];
    due.clear();
    for (const each of wanted) each();
  });
  for (const part of parts) due.add(part);
}

async function load() {
  const answer = await fetch("/state.json", { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`state.json: ${answer.status}`);
  const found = await answer.json();
  state.skew = found.now - Date.now() / 1000;
  state.facts = found.facts;
  state.rounds = found.rounds;
  state.devices = new Map(found.devices.map((row) => [row.client, row]));
  if (!columns.length) buildHead();
  for (const row of found.devices) fill(row);
  lost = false;
  show(showFacts, showCurves, showTable);
  return found.event;
}

function listen(after) {
  const events = new EventSource(`/events?after=${after}`);
  const on = (name, take) => events.addEventListener(name, (event) => { lost = false; take(JSON.parse(event.data)); });
  on("run", (facts) => { state.facts = facts; show(showFacts); });
  on("rounds", (rounds) => {
    for (const each of rounds) state.rounds[each.round - 1] = each;
    state.facts.closed = Math.max(state.facts.closed, rounds.at(-1).round);
    show(showFacts, showCurves);
  });
  on("devices", (rows) => {
    for (const row of rows) { state.devices.set(row.client, row); fill(row); }
    show(showTable);
  });
  on("again", () => { events.close(); begin(); });
  events.addEventListener("open", () => { lost = false; showState(); });
  events.addEventListener("error", () => {
    lost = true;
    showState();
    if (events.readyState === EventSource.CLOSED) setTimeout(begin, 3000);
  });
}

function begin() {
  load().then(listen, () => { lost = true; if (state.facts.run) showState(); else say($("state"), "the page is out of reach; trying again"); setTimeout(begin, 3000); });
}

$("filter").addEventListener("input", () => show(showTable));
$("filter").addEventListener("keydown", (event) => { if (event.key === "Escape") { event.target.value = ""; showTable(); } });
$("show").addEventListener("change", () => show(showTable));
$("sort").addEventListener("change", (event) => sortBy(event.target.value, ["late", "absent", "refused", "median_seconds", "last_seen"].includes(event.target.value)));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) { event.preventDefault(); $("filter").focus(); }
});
addEventListener("resize", () => show(showCurves));
setInterval(() => { if (state.facts.run) { showAges(); showWaiting(); showState(); } }, 1000);
if (location.search) history.replaceState(null, "", "/");
begin();
