// The page: three views, chosen by what stands behind the # of its address.

import { showFigures } from "./charts.js";
import { chip, counted, make, seconds, table } from "./dom.js";
import { apply, foldAll, newRun, totals } from "./folding.js";
import { RunView } from "./lanes.js";
import { download, listen, read } from "./reading.js";

const MOST_RUNS = 50;
const FILTERS = { model: "Model", tool: "Tool", verdict: "Verdict", reason: "Reason", oddity: "Inconsistency", fate: "End" };
const WORDS = {
  verdict: ["", "released", "repaired", "rejected"],
  fate: ["", "done", "failed", "gone"],
};
const main = document.getElementById("main");
const state = document.getElementById("state");
let leave = new AbortController();

// ── Live ────────────────────────────────────────────────────────────────────────────

function showLive(signal) {
  const runs = new Map();
  const list = make("ul", { class: "list", "aria-label": "Runs" });
  const view = new RunView();
  const empty = make("p", { class: "empty" }, "Nothing happens yet. Send a request to the proxy.");
  let chosen = null;
  let current = null;
  let drawn = false;

  const paint = () => {
    drawn = false;
    empty.hidden = runs.size > 0;
    const shown = runs.get(chosen) ?? [...runs.values()].at(-1);
    list.replaceChildren(...[...runs.values()].reverse().map((run) => showLine(run, run === shown, () => { chosen = run.id; schedule(); })));
    if (!shown) return;
    if (current !== shown) view.clear(); // another run has other turns
    current = shown;
    view.show(shown);
  };
  const schedule = () => {
    if (!drawn) requestAnimationFrame(paint);
    drawn = true;
  };
  const take = (message) => {
    if (message.missed) { state.textContent = `this page missed ${message.missed} messages`; return; }
    if (!runs.has(message.run)) runs.set(message.run, newRun(message.run));
    for (const event of message.events) apply(runs.get(message.run), event);
    if (runs.size > MOST_RUNS) runs.delete(runs.keys().next().value);
    schedule();
  };
  main.replaceChildren(make("div", { class: "split" }, list, make("div", { class: "place" }, empty, view.element)));
  listen({ signal, onMessage: take, onState: (word) => { state.textContent = word; } });
}

function showLine(run, isChosen, choose) {
  const sums = totals(run);
  const bad = sums.rejected || (run.over && run.over.fate !== "done");
  const word = run.over ? run.over.fate : "live";
  return make("li", {}, make("button", { type: "button", "aria-pressed": String(isChosen), onclick: choose },
    make("b", {}, run.head.model || run.id), " ", chip(word, run.over ? (bad ? "bad" : "good") : "live"),
    make("span", { class: "fact" }, `${counted(sums.calls, "call")} · ${seconds(sums.seconds)}`)));
}

// ── Looking back ────────────────────────────────────────────────────────────────────

async function showRuns(signal, asked) {
  const form = make("form", { class: "filters", "aria-label": "Filters", onsubmit: (event) => {
    event.preventDefault();
    const wanted = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    location.hash = `#/runs?${wanted}`;
  } });
  for (const [name, label] of Object.entries(FILTERS)) {
    const value = asked.get(name) ?? "";
    const field = WORDS[name]
      ? make("select", { name }, WORDS[name].map((word) => make("option", { value: word, selected: word === value }, word || "any")))
      : make("input", { name, value, size: "12" });
    form.append(make("label", {}, label, " ", field));
  }
  form.append(make("button", {}, "Filter"));
  const place = make("div", {});
  main.replaceChildren(form, place);
  const { runs, failed } = await read(`runs?${asked}`);
  if (signal.aborted) return;
  if (failed) place.append(make("p", { class: "message" }, `${failed} runs could not be written to the file`));
  place.append(runs.length ? listRuns(runs) : make("p", { class: "empty" }, "No run fits."));
  if (runs.length >= 50) {
    const older = new URLSearchParams(asked);
    older.set("before", runs.at(-1).number);
    place.append(make("a", { href: `#/runs?${older}` }, "Older ones"));
  }
}

function listRuns(runs) {
  const rows = runs.map((run) => [
    make("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, new Date(run.began * 1000).toLocaleString()),
    run.model,
    (run.tools ?? []).join(", "),
    make("span", {}, Object.entries(run.verdicts ?? {}).map(([verdict, count]) => chip(`${count} ${verdict}`, verdict === "rejected" ? "bad" : "good")), (run.reasons ?? []).map((reason) => chip(reason, "bad"))),
    make("span", {}, chip(run.fate ?? "", run.fate === "done" ? "good" : "bad"), run.code ? chip(run.code, "bad") : null),
    `${run.input_tokens} + ${run.output_tokens}`,
    seconds(run.seconds),
  ]);
  return table("Runs, the last first", ["when", "model", "tools", "calls", "end", "tokens", "time"], rows);
}

async function showRun(signal, id) {
  const { summary, events } = await read(`runs/${encodeURIComponent(id)}`);
  if (signal.aborted) return;
  const run = foldAll(id, events);
  const view = new RunView();
  const raw = make("div", {});
  const complain = (error) => raw.replaceChildren(make("p", { class: "message" }, error.message));
  const tools = make("div", { class: "tools" },
    make("button", { type: "button", onclick: () => download(`runs/${encodeURIComponent(id)}/case`, `${id}.jsonl`).catch(complain) }, "Export as a case"),
    make("button", { type: "button", onclick: () => showChunks(id, raw).catch(complain) }, "Raw chunks"),
    ...makePlayer(signal, { id, events, view }));
  main.replaceChildren(tools, view.element, raw);
  view.show(run);
  document.title = `${summary.model} · Wholecall inspector`;
}

async function showChunks(id, place) {
  const { answers } = await read(`runs/${encodeURIComponent(id)}/chunks`);
  const none = make("p", { class: "empty" }, "The chunks of this run were not kept.");
  const rows = answers.map((answer, number) => {
    let at = 0;
    const cells = answer.chunks.map((chunk, index) => {
      at += answer.pauses[index] ?? 0;
      return [seconds(at), make("pre", { class: "text" }, chunk)];
    });
    return table(`Answer ${number + 1}, as received (${answer.protocol})`, ["at", "chunk"], cells);
  });
  place.replaceChildren(...(rows.length ? rows : [none]));
}

// ── Replay ──────────────────────────────────────────────────────────────────────────

function makePlayer(signal, { id, events, view }) {
  const speed = make("select", { "aria-label": "Speed" }, ["0.25", "0.5", "1", "4"].map((value) => make("option", { value, selected: value === "1" }, `${value}×`)));
  const button = make("button", { type: "button" }, "Replay");
  let playing = false;
  let run = null;
  let place = 0;
  let clock = 0;
  let last = 0;
  const step = (now) => {
    if (!playing || signal.aborted) return;
    clock += ((now - last) / 1000) * Number(speed.value);
    last = now;
    while (place < events.length && events[place].at <= clock) apply(run, events[place++]);
    view.show(run);
    if (place >= events.length) { playing = false; run = null; button.textContent = "Replay"; return; }
    requestAnimationFrame(step);
  };
  button.addEventListener("click", () => {
    playing = !playing;
    button.textContent = playing ? "Pause" : "Go on";
    if (!playing) return;
    if (!run) { run = newRun(id); place = 0; clock = 0; view.clear(); }
    requestAnimationFrame((now) => { last = now; step(now); });
  });
  return [button, speed];
}

// ── Views ───────────────────────────────────────────────────────────────────────────

async function go() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  state.textContent = "";
  document.title = "Wholecall inspector";
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const [, view = "live", id] = path.split("/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${view || "live"}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    if (view === "runs" && id) await showRun(signal, decodeURIComponent(id));
    else if (view === "runs") await showRuns(signal, new URLSearchParams(query));
    else if (view === "figures") main.replaceChildren(...showFigures(await read("figures")));
    else showLive(signal);
  } catch (error) {
    if (!signal.aborted) main.replaceChildren(make("p", { class: "message", role: "alert" }, error.message));
  }
}

addEventListener("hashchange", go);
go();
