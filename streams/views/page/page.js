// The page: asks the API, draws what it says, and follows the decisions as they come.
//
// 1. Text from the server is only ever put into the page as text.
// 2. Quantities are integers of any size: they are BigInt here until they are words.
// 3. After a decision the figures are asked for again, at most once in `REFRESH_MS`.

import { KINDS, REASONS } from "./words.js";
import { Failed, verify } from "./verify.js";

const REFRESH_MS = 700;
const POLL_MS = 15000;
const DECISIONS_MAX = 60;
const WAITING_SHOWN = 50;
const $ = (id) => document.getElementById(id);
const state = { pool: null, token: "", etags: new Map(), stream: null, paused: false, due: null, seqLast: null, trees: null };

// --- words -----------------------------------------------------------------------------------

const ENERGIES = [[3600000000000000n, "MWh"], [3600000000000n, "kWh"], [1000000000000n, "MJ"], [1000000000n, "kJ"], [1000000n, "J"], [1000n, "mJ"]];

function grouped(number) {
  return number.toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

function scaled(value, size) {
  const tenths = (value * 10n + size / 2n) / size;
  return tenths < 1000n ? `${tenths / 10n}.${tenths % 10n}` : grouped((tenths + 5n) / 10n);
}

function energy(uj) {
  const value = BigInt(uj);
  for (const [size, unit] of ENERGIES) if (value >= size) return `${scaled(value, size)} ${unit}`;
  return `${value} µJ`;
}

function devices(mdev) {
  const value = BigInt(mdev);
  const rest = (value % 1000n).toString().padStart(3, "0").replace(/0+$/, "");
  return grouped(value / 1000n) + (rest ? `.${rest}` : "");
}

function amount(resource, value) {
  if (resource === "uj") return energy(value);
  if (resource === "mdev") return `${devices(value)} device${BigInt(value) === 1000n ? "" : "s"}`;
  return `${grouped(BigInt(value))} ${resource}`;
}

function amounts(demand) {
  return Object.entries(demand).filter(([, value]) => BigInt(value) > 0n).map(([name, value]) => amount(name, value)).join(", ") || "nothing";
}

function duration(ms) {
  for (const [size, unit] of [[86400000, "days"], [3600000, "h"], [60000, "min"], [1000, "s"]]) {
    if (ms >= size) return `${(ms / size).toFixed(1)} ${unit}`;
  }
  return `${ms} ms`;
}

function power(uw) {
  const value = BigInt(uw);
  return value >= 1000000000n ? `${scaled(value, 1000000000n)} kW` : `${scaled(value, 1000000n)} W`;
}

function instant(ms) {
  return new Date(Number(ms)).toISOString().replace("T", " ").slice(0, 16) + " UTC";
}

function because(one) {
  if (!one.reason) return "It fits: the next pass starts it.";
  const words = REASONS[one.reason] ?? one.reason;
  const short = one.short !== null && one.short !== undefined && one.resource ? `; ${amount(one.resource, one.short)} short` : "";
  const at = !one.node ? "" : one.node === "/" ? " in the whole pool" : ` at ${one.node}`;
  return `${words[0].toUpperCase()}${words.slice(1)}${short}${at}.`;
}

// --- the page's parts ------------------------------------------------------------------------

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function facts(list, pairs) {
  list.replaceChildren(...pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function trouble(text) {
  $("trouble").hidden = !text;
  $("trouble").textContent = text ?? "";
}

function bar(figures, whole, resource, label) {
  const scale = (value) => Number(BigInt(value) * 1000n / whole);
  const width = (from, to) => Math.max(0, scale(to) - scale(from));
  const used = BigInt(figures.used), guarantee = BigInt(figures.guarantee);
  const spent = BigInt(figures.spent ?? 0), lent = BigInt(figures.lent ?? 0);
  const borrowed = BigInt(figures.borrowed ?? 0);
  const own = used - borrowed;
  const parts = [draw("rect", { class: "track", x: 0, y: 0, width: 1000, height: 18 })];
  const put = (name, from, to) => {
    if (to > from) parts.push(draw("rect", { class: name, x: scale(from), y: 3, width: width(from, to), height: 12 }));
  };
  put("spent", 0n, spent < own ? spent : own);
  put("held", spent < own ? spent : own, own);
  put("borrowed", own, used);
  put("lent", guarantee - lent > own ? guarantee - lent : own, guarantee);
  parts.push(draw("rect", { class: "guarantee", x: 0, y: 0.75, width: scale(guarantee), height: 16.5 }));
  if (figures.limit !== null) {
    const at = Math.min(998, scale(figures.limit));
    parts.push(draw("line", { class: "limit", x1: at, x2: at, y1: 0, y2: 18 }));
  }
  const words = told(figures, resource);
  const svg = draw("svg", { class: "bar", viewBox: "0 0 1000 18", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${words}` }, ...parts);
  return [svg, make("span", { class: "words", "aria-hidden": "true" }, words)];
}

function told(figures, resource) {
  const said = [];
  if (figures.spent !== undefined) said.push(`${amount(resource, figures.spent)} spent`);
  if (figures.held !== undefined) said.push(`${amount(resource, figures.held)} held`);
  else said.push(`${amount(resource, figures.used)} used`);
  said.push(`of ${amount(resource, figures.guarantee)}`);
  if (BigInt(figures.borrowed ?? 0) > 0n) said.push(`${amount(resource, figures.borrowed)} borrowed`);
  if (BigInt(figures.lent ?? 0) > 0n) said.push(`${amount(resource, figures.lent)} lent out`);
  if (figures.limit !== null) said.push(`limit ${amount(resource, figures.limit)}`);
  return said.join(", ");
}

function showTree(pool) {
  const root = pool.nodes[0];
  const whole = (resource) => {
    const most = [root.resources[resource].guarantee, root.resources[resource].used].map(BigInt);
    return most[0] > most[1] ? most[0] || 1n : most[1];
  };
  const rows = pool.nodes.map((node) => {
    const depth = node.node === "/" ? 0 : node.node.split("/").length;
    const name = node.node === "/" ? "whole pool" : node.node;
    const row = make("tr", { "data-node": node.node }, make("th", { scope: "row", class: `depth-${Math.min(depth, 4)}` }, name));
    for (const [resource, label] of [["mdev", "Devices"], ["uj", "Energy"]]) {
      const figures = node.resources[resource];
      row.append(make("td", { "data-label": label, "data-resource": resource, "data-used": figures.used, "data-guarantee": figures.guarantee }, ...bar(figures, whole(resource), resource, `${label} of ${name}`)));
    }
    for (const [member, label] of [["live", "Live"], ["waiting", "Waiting"]]) {
      row.append(make("td", { class: "number", "data-label": label, "data-count": member }, node[member] === undefined ? "–" : String(node[member])));
    }
    return row;
  });
  $("tree").tBodies[0].replaceChildren(...rows);
  $("others").hidden = pool.others === null;
  $("others").textContent = pool.others === null ? "" : `Everybody else together uses ${amounts(pool.others)}.`;
  const known = ["measured", "modelled", "guessed"].map((part) => [`Spent, ${part}`, energy(pool.energy.charged_uj[part])]);
  facts($("energy"), [
    ...known,
    ["Settled at the reservation, never measured", energy(pool.energy.charged_uj.reserved)],
    ["Held for what runs", energy(Object.values(pool.energy.held_uj).reduce((sum, part) => sum + BigInt(part), 0n))],
    ...(pool.overhead_uj === null ? [] : [["Overhead, nobody's", energy(pool.overhead_uj)]]),
  ]);
  showSeries(pool);
}

function showLedger(pool) {
  const standing = pool.standing;
  const good = standing.grade === "witnessed" ? "good" : standing.grade === "forked" ? "bad" : "";
  const grade = make("span", { class: good, id: "grade" }, standing.grade);
  const reach = standing.grade === "witnessed" ? ` to ${grouped(BigInt(standing.witnessed_length))} by ${standing.witnessed_by.join(", ")}` : "";
  facts($("ledger"), [
    ["Length", make("span", { id: "length" }, `${grouped(BigInt(pool.length))} receipts`)],
    ["Head", make("span", { class: "hash", id: "head", title: pool.head }, `${pool.head.slice(0, 16)}…`)],
    ["Attested", make("span", {}, grade, reach)],
    ["As of", instant(pool.at_ms)],
    ["Steward", make("span", { class: "hash" }, pool.steward ?? "none yet")],
  ]);
  const objections = [...standing.objections, ...standing.warnings];
  if (pool.broken) trouble(`The ledger does not verify at receipt ${pool.broken.index} (${pool.broken.check}): nothing after it is shown.`);
  else trouble(objections.length ? objections.join("; ") : null);
  // Never under the hands of whoever is typing there.
  if (!$("seq").value && document.activeElement !== $("seq") && pool.length > 0) $("seq").value = String(BigInt(pool.length) - 1n);
}

function showWaiting(waiting) {
  if (!waiting.length) {
    $("waiting").replaceChildren(make("li", { class: "quiet" }, "Nobody waits."));
    return;
  }
  const items = waiting.slice(0, WAITING_SHOWN).map((one) => {
    const notes = [];
    if (one.starved) notes.push("It has waited too long and goes before later ones.");
    if (one.guarded_by) notes.push(`${one.guarded_by} goes first.`);
    if (one.victims.length) notes.push(`Told to stop for it: ${one.victims.join(", ")}.`);
    return make("li", { "data-claim": one.claim, "data-reason": one.reason ?? "" },
      make("strong", {}, one.claim), ` for ${amounts(one.demand)} at ${one.leaf}, since ${duration(Number(one.waits_ms))}. `,
      because(one), notes.length ? ` ${notes.join(" ")}` : "");
  });
  if (waiting.length > WAITING_SHOWN) items.push(make("li", { class: "quiet" }, `and ${waiting.length - WAITING_SHOWN} more`));
  $("waiting").replaceChildren(...items);
}

// --- power -----------------------------------------------------------------------------------

function showSeries(pool) {
  const leaves = pool.nodes.filter((node) => node.leaf).map((node) => node.node);
  const names = leaves.join("\n");
  if (state.trees === names) return;
  state.trees = names;
  const chosen = $("series").value;
  $("series").replaceChildren(...leaves.map((leaf) => make("option", { value: leaf }, leaf)));
  if (leaves.includes(chosen)) $("series").value = chosen;
}

function showPower(said) {
  const windows = said.windows.filter((window) => window.uj !== null).slice(-96);
  if (!windows.length) {
    $("power").replaceChildren(make("p", { class: "quiet" }, "No meter has read anything here."));
    return;
  }
  const from = Number(windows[0].from_ms), to = Number(windows.at(-1).to_ms);
  const most = windows.reduce((top, one) => (BigInt(one.mean_uw) > top ? BigInt(one.mean_uw) : top), 1n);
  const x = (ms) => ((Number(ms) - from) / (to - from)) * 1000;
  const y = (uw) => 200 - Number(BigInt(uw) * 190n / most);
  let area = "", edge = "";
  for (const one of windows) {
    const [left, right, top] = [x(one.from_ms), x(one.to_ms), y(one.mean_uw)];
    area += `M${left} 200V${top}H${right}V200Z`;
    edge += `M${left} ${top}H${right}`;
  }
  const lines = [0, 0.5, 1].map((part) => draw("line", { class: "grid", x1: 0, x2: 1000, y1: 200 - 190 * part, y2: 200 - 190 * part }));
  const label = `Mean power of ${said.name}, ${instant(from)} to ${instant(to)}, at most ${power(most)}`;
  const chart = draw("svg", { class: "chart", viewBox: "0 0 1000 205", preserveAspectRatio: "none", role: "img", "aria-label": label }, ...lines, draw("path", { class: "area", d: area }), draw("path", { class: "edge", d: edge }));
  const rows = windows.map((one) => make("tr", {}, make("th", { scope: "row" }, instant(one.from_ms)), make("td", {}, power(one.mean_uw)), make("td", {}, energy(one.uj))));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...["From", "Mean power", "Energy"].map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...rows));
  $("power").replaceChildren(
    make("p", { class: "quiet" }, `Highest window: ${power(most)}; a window is ${duration(Number(windows[0].to_ms) - from)}.`), chart,
    make("div", { class: "axis", "aria-hidden": "true" }, make("span", {}, instant(from)), make("span", {}, instant(to))),
    make("details", {}, make("summary", {}, "As a table"), make("div", { class: "scroll", tabindex: "0" }, table)));
}

async function refreshPower() {
  const name = $("series").value;
  if (!name) return;
  try {
    const said = await ask(`${room()}/power?of=leaf&name=${encodeURIComponent(name)}`);
    if (said) showPower(said);
  } catch (error) {
    if (error.status !== 403) throw error;
    $("power").replaceChildren(make("p", { class: "quiet" }, "This token may not see that."));
  }
}

// --- asking ----------------------------------------------------------------------------------

const room = () => `/compute-pools/${encodeURIComponent(state.pool)}`;

function headers(more = {}) {
  return state.token ? { Authorization: `Bearer ${state.token}`, ...more } : more;
}

async function fetched(path, more) {
  const answer = await fetch(path, { headers: headers(more), cache: "no-store" });
  if (answer.ok || answer.status === 304) return answer;
  const said = await answer.json().catch(() => ({}));
  const error = new Error(said.detail ?? `the server answers ${answer.status}`);
  error.status = answer.status;
  throw error;
}

// The answer's JSON, or null if it is what was shown last.
async function ask(path) {
  const tag = state.etags.get(path);
  const answer = await fetched(path, tag ? { "If-None-Match": tag } : {});
  if (answer.status === 304) return null;
  if (answer.headers.get("ETag")) state.etags.set(path, answer.headers.get("ETag"));
  return answer.json();
}

async function refresh() {
  if (state.pool === null) return;
  try {
    const pool = await ask(room());
    if (pool) {
      showLedger(pool);
      showTree(pool);
    }
    const waiting = await ask(`${room()}/waiting`);
    if (waiting) showWaiting(waiting.waiting);
    await refreshPower();
  } catch (error) {
    failed(error);
  }
}

function refreshSoon() {
  state.due ??= setTimeout(() => {
    state.due = null;
    refresh();
  }, REFRESH_MS);
}

function failed(error) {
  $("status").textContent = "Not connected";
  if (error.status === 401) {
    $("access").open = true;
    trouble("This server asks for a token.");
  } else {
    trouble(`The server cannot be asked: ${error.message}`);
  }
}

// --- decisions as they come ------------------------------------------------------------------

function showDecision(one) {
  const body = one.body;
  const subject = body.claim ?? body.device ?? body.scope ?? "";
  const details = [];
  if (body.reason) details.push(REASONS[body.reason] ?? body.reason);
  if (body.mode) details.push(body.mode === "borrowed" ? "borrowing" : "inside its guarantee");
  if (body.demand && one.kind === "claim.admitted") details.push(amounts(body.demand));
  if (body.spent) details.push(`${energy(body.spent.uj)} ${body.spent.basis}`);
  if (body.for) details.push(`for ${body.for}`);
  if (body.shares) details.push(body.shares.map((share) => `${share.claim} ${energy(share.uj)}`).join(", ") || "nobody on it");
  const item = make("li", { class: "new", "data-seq": one.seq, "data-kind": one.kind, "data-claim": body.claim ?? "" },
    make("span", { class: "seq" }, `#${one.seq}`), make("strong", {}, subject), subject ? " " : "",
    KINDS[one.kind] ?? one.kind, details.length ? `: ${details.join(", ")}` : "");
  $("decisions").prepend(item);
  while ($("decisions").children.length > DECISIONS_MAX) $("decisions").lastChild.remove();
}

async function follow(signal) {
  let pause = 500;
  while (!signal.aborted) {
    try {
      const more = state.seqLast === null ? {} : { "Last-Event-ID": String(state.seqLast) };
      const answer = await fetch(`${room()}/decisions${state.seqLast === null ? await recent() : ""}`, { headers: headers(more), signal, cache: "no-store" });
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      $("status").textContent = "Live";
      pause = 500;
      await read(answer.body.getReader());
    } catch (error) {
      if (signal.aborted) return;
    }
    $("status").textContent = "Reconnecting…";
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, 15000);
  }
}

// From where the list begins: the newest decisions that are there already.
async function recent() {
  const answer = await fetched(room());
  const length = BigInt((await answer.json()).length);
  return `?from=${length > 30n ? length - 30n : 0n}`;
}

async function read(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) take(block);
  }
}

function take(block) {
  const data = block.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
  if (!data) return;
  const one = JSON.parse(data);
  state.seqLast = one.seq;
  if (!state.paused) showDecision(one);
  refreshSoon();
}

// --- verifying -------------------------------------------------------------------------------

async function check() {
  const verdict = $("verdict");
  const steps = make("ul");
  verdict.className = "";
  verdict.replaceChildren(make("p", {}, "Checking…"));
  const step = (name, sentence, good) => steps.append(make("li", { class: good ? "good" : "bad", "data-check": name }, `${good ? "✓" : "✗"} ${sentence}`));
  const seq = Number($("seq").value);
  try {
    if (!globalThis.crypto?.subtle) throw new Error("this browser gives no WebCrypto here: use https, or localhost");
    const bytes = async (what) => new Uint8Array(await (await fetched(`${room()}/${what}/${seq}`)).arrayBuffer());
    const [receipt, proof] = await Promise.all([bytes("receipts"), bytes("proofs")]);
    const found = await verify({ receipt, proof, pool: state.pool, seq, trusted: $("trusted").value.trim() }, (name, sentence) => step(name, sentence, true));
    const kind = found.core.get("kind");
    verdict.className = "verified";
    verdict.replaceChildren(make("p", { class: "outcome good" }, `Verified: receipt ${seq} (${KINDS[kind] ?? kind}) stands in a ledger of ${found.length} that its steward signed.`), steps);
  } catch (error) {
    const known = error instanceof Failed;
    step(known ? error.check : "trouble", error.message, false);
    verdict.className = known ? "refused" : "unknown";
    verdict.replaceChildren(make("p", { class: "outcome bad" }, known ? `Not verified: receipt ${seq} fails at “${error.check}”.` : `Not checked: ${error.message}.`), steps);
  }
}

// --- start -----------------------------------------------------------------------------------

function choose(pool) {
  state.pool = pool;
  state.etags.clear();
  state.seqLast = null;
  state.trees = null;
  state.stream?.abort();
  state.stream = new AbortController();
  $("decisions").replaceChildren();
  $("seq").value = "";
  $("verdict").replaceChildren();
  refresh();
  follow(state.stream.signal);
}

async function begin() {
  try {
    const { pools } = await (await fetched("/compute-pools")).json();
    $("pools").replaceChildren(...pools.map((pool) => make("option", { value: pool.pool_id }, pool.pool_id)));
    $("pools").disabled = pools.length === 0;
    if (!pools.length) {
      $("status").textContent = "No pool yet";
      setTimeout(begin, POLL_MS);
      return;
    }
    trouble(null);
    choose(pools[0].pool_id);
  } catch (error) {
    failed(error);
    if (error.status !== 401) setTimeout(begin, POLL_MS);
  }
}

$("pools").addEventListener("change", (event) => choose(event.target.value));
$("series").addEventListener("change", () => {
  state.etags.clear();
  refreshPower().catch(failed);
});
$("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  $("pause").setAttribute("aria-pressed", String(state.paused));
  $("pause").textContent = state.paused ? "Go on" : "Pause";
});
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = $("token").value.trim();
  $("access").open = false;
  begin();
});
$("verify-form").addEventListener("submit", (event) => {
  event.preventDefault();
  check();
});
setInterval(refresh, POLL_MS);
begin();
