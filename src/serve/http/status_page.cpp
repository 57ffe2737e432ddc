#include "serve/http/status_page.h"

namespace tessera::serve {
namespace {

// Length: the page is one text. Values are put in with textContent alone, so that names of models are never markup. A
// token, where one is needed, is asked for and kept for the tab.
constexpr const char* kHead = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tessera server</title><style>
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --ink: #1b1f24; --soft: #5b6470; --line: #dde1e6;
  --good: #1a7f37; --bad: #b42318; --bar: #2f6fde; --first: #c2410c; --last: #6b7785; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1d2125; --ink: #e8eaed; --soft: #9aa4af;
  --line: #31373d; --good: #57c278; --bad: #ff8478; --bar: #7aa7ff; --first: #ff9d5c; --last: #a8b3bf; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.35rem; margin: .3rem 0 .8rem; } h2 { font-size: 1.05rem; margin: 0 0 .1rem; overflow-wrap: anywhere; }
.tiles, .cards { display: grid; gap: .7rem; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); }
.cards { grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); margin-top: 1rem; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.soft { color: var(--soft); font-size: .875rem; } .good { color: var(--good); } .bad { color: var(--bad); }
dl { display: grid; grid-template-columns: 1fr auto; gap: .15rem .8rem; margin: .5rem 0 0; font-size: .9375rem; }
dt { color: var(--soft); } dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: 2.6rem; margin-top: .5rem; }
polyline { fill: none; stroke: var(--bar); stroke-width: 2; vector-effect: non-scaling-stroke; }
#timeline { margin-top: .7rem; } #lanes { margin-top: .5rem; }
.lane { display: grid; grid-template-columns: minmax(6rem, 14rem) 1fr; gap: .1rem .8rem; align-items: center;
  padding: .15rem 0; font-size: .9375rem; }
.lane > span { overflow-wrap: anywhere; } .lane svg { height: 1.4rem; margin: 0; background: var(--ground);
  border-radius: .2rem; }
.realtime { fill: var(--first); background: var(--first); } .standard { fill: var(--bar); background: var(--bar); }
.background { fill: var(--last); background: var(--last); }
.mark { display: inline-block; width: .7rem; height: .7rem; border-radius: .15rem; margin-left: .4rem; }
.axis { display: flex; justify-content: space-between; margin-left: calc(min(14rem, 30%) + .8rem); }
@media (max-width: 40rem) { .lane { grid-template-columns: 1fr; } .axis { margin-left: 0; } }
form { margin: 1rem 0; display: flex; gap: .5rem; flex-wrap: wrap; }
input, button { font: inherit; padding: .4rem .6rem; border: 1px solid var(--line); border-radius: .4rem;
  background: var(--card); color: var(--ink); max-width: 100%; }
[hidden] { display: none; }
</style></head><body><main>
<h1>Tessera server <span id="state" class="soft" role="status">loading</span></h1>
<form id="login" hidden><input id="token" type="password" aria-label="Token" placeholder="Token" autocomplete="off">
<button>Show</button></form>
<div class="tiles" id="tiles"></div>
<section class="card" id="timeline" aria-label="Timeline of the device">
<h2>Timeline of the device</h2>
<div class="soft">What ran in the last 10 seconds. A strip is a lane of a model: runs at the same time have lanes of
their own, and a paler bar is a row of short runs with pauses.</div>
<div id="lanes"></div>
<div class="axis soft"><span>10 s ago</span><span>5 s</span><span>now</span></div>
<div class="soft"><span class="mark realtime"></span> realtime <span class="mark standard"></span> standard
<span class="mark background"></span> background</div></section>
<div class="cards" id="cards"></div>
<p class="soft">Figures of the last second and since the start. The line shows requests a second over two minutes.</p>
</main>)page";

constexpr const char* kScript = R"page(<script>
const $ = id => document.getElementById(id), history = new Map();
let before = null, token = sessionStorage.getItem("token") || "";
const element = (tag, text, kind) => { const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind; return e; };
const bytes = n => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(2) + " GiB" :
  n < 2 ** 20 ? (n / 1024).toFixed(1) + " KiB" : (n / 2 ** 20).toFixed(1) + " MiB";
const ms = n => n < 10 ? n.toFixed(2) + " ms" : n.toFixed(1) + " ms";
const time = s => s < 90 ? s.toFixed(0) + " s" : s < 5400 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(1) + " h";
function tile(name, value) { const t = element("div", undefined, "tile"); t.append(element("b", value),
  element("span", name, "soft")); return t; }
function sparkline(values) {
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 120 40"); svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "requests a second, now " + (values.at(-1) || 0).toFixed(0));
  const line = document.createElementNS(ns, "polyline"), most = Math.max(1, ...values);
  line.setAttribute("points",
    values.map((v, i) => (120 - values.length + i + 1) + "," + (38 - 36 * v / most)).join(" "));
  svg.append(line); return svg;
}
function card(model, seconds) {
  const key = model.name + "/" + model.version;
  const old = before && before.models.find(m => m.name + "/" + m.version === key);
  const rate = old && seconds > 0 ? Math.max(0, model.success - old.success) / seconds : 0;
  const values = history.get(key) || []; values.push(rate); if (values.length > 120) values.shift();
  history.set(key, values);
  const c = element("section", undefined, "card"), list = element("dl");
  c.append(element("h2", model.name), element("div", "version " + model.version + ", " + model.class, "soft"));
  const add = (name, value, kind) => list.append(element("dt", name), element("dd", value, kind));
  add("requests a second", rate.toFixed(1));
  add("p50, p99", model.success ? ms(model.p50_ms) + ", " + ms(model.p99_ms) : "none yet");
  add("mean wait", model.success ? ms(model.queue_ms) : "none yet");
  add("waiting, computing", model.waiting + ", " + model.running);
  add("rows a batch", model.executions ? (model.inferences / model.executions).toFixed(2) : "none yet");
  add("answered", model.success.toLocaleString());
  add("refused or failed", model.fail.toLocaleString(), model.fail ? "bad" : "");
  if (model.memory_bytes > 0) add("memory", bytes(model.memory_bytes));  // an ensemble has none of its own
  if (model.device_s !== undefined) {
    const share = old && seconds > 0 ? 100 * (model.device_s - old.device_s) / seconds : 0;
    add("of the device's time", share.toFixed(0) + " %");
  }
  c.append(list, sparkline(values)); return c;
}
function lane(entry, classes, window_ms) {
  const ns = "http://www.w3.org/2000/svg", row = element("div", undefined, "lane"), svg =
    document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 " + window_ms + " 10"); svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  let busy = 0;
  for (const [before_ms, length, work, runs, rows] of entry.bars) {
    const bar = document.createElementNS(ns, "rect"), width = Math.max(length, window_ms / 500);
    busy += work;
    bar.setAttribute("x", window_ms - before_ms); bar.setAttribute("width", width);
    bar.setAttribute("y", 0); bar.setAttribute("height", 10);
    bar.setAttribute("class", classes.get(entry.model) || "standard");
    bar.setAttribute("opacity", (.2 + .8 * Math.min(1, work / width)).toFixed(2));
    const title = document.createElementNS(ns, "title");
    title.textContent = runs + (runs === 1 ? " run of " : " runs of ") + rows + (rows === 1 ? " row, " : " rows, ") +
      ms(work);
    bar.append(title); svg.append(bar);
  }
  const share = (100 * busy / window_ms).toFixed(0) + " %";
  svg.setAttribute("aria-label", entry.model + ", lane " + (entry.lane + 1) + ": busy " + share);
  const name = element("span", entry.model + (entry.lane > 0 ? ", lane " + (entry.lane + 1) : "") + " ");
  name.append(element("span", share, "soft"));
  row.append(name, svg); return row;
}
function show(data) {
  const seconds = before ? data.uptime_s - before.uptime_s : 0;
  $("state").textContent = data.ready ? "ready" : "not ready"; $("state").className = data.ready ? "good" : "bad";
  $("tiles").replaceChildren(tile("version", data.version), tile("uptime", time(data.uptime_s)),
    tile("connections", data.connections), tile("HTTP requests", data.http_requests.toLocaleString()),
    tile("gRPC requests", data.grpc_requests.toLocaleString()), tile("refused callers", data.refused_callers),
    tile("resident memory", bytes(data.resident_bytes)));
  const classes = new Map(data.models.map(m => [m.name + "/" + m.version, m.class]));
  const lanes = data.timeline.lanes.map(entry => lane(entry, classes, data.timeline.window_ms));
  $("lanes").replaceChildren(...(lanes.length ? lanes : [element("div", "Nothing ran.", "soft")]));
  $("cards").replaceChildren(...data.models.map(m => card(m, seconds)), ...data.unavailable.map(m => {
    const c = element("section", undefined, "card"); c.append(element("h2", m.name),
      element("div", "not available: " + m.reason, "bad")); return c; }));
  before = data;
}
async function tick() {
  try {
    const answer = await fetch("/status/data", { headers: token ? { Authorization: "Bearer " + token } : {} });
    $("login").hidden = answer.status !== 401 && answer.status !== 403;
    if (answer.ok) show(await answer.json());
    else { $("state").textContent = answer.status === 401 ? "a token is needed" : "error " + answer.status;
      $("state").className = "bad"; }
  } catch (error) { $("state").textContent = "no answer"; $("state").className = "bad"; }
  setTimeout(tick, 1000);
}
$("login").addEventListener("submit", event => { event.preventDefault(); token = $("token").value;
  sessionStorage.setItem("token", token); });
tick();
</script></body></html>
)page";

}  // namespace

std::string status_page() {
  return std::string(kHead) + kScript;
}

}  // namespace tessera::serve
