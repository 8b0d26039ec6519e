// Looking back: the list with its filters, and one run by its link.

import { brief, chip, counted, countStatuses, empty, make, seconds, table, writeAddresses } from "./dom.js";
import { apply, foldAll, newRun } from "./folding.js";
import { RunView } from "./lanes.js";
import { download, read } from "./reading.js";

const FILTERS = {
  model: "Model", tool: "Tool", verdict: "Verdict", reason: "Reason", status: "Tool's end",
  oddity: "Inconsistency", fate: "End", stop: "Stopped by", code: "Error",
};
const WORDS = {
  verdict: ["", "released", "repaired", "rejected"],
  status: ["", "done", "failed", "timed_out", "denied", "skipped", "cancelled", "unknown"],
  fate: ["", "done", "failed", "gone", "stopped"],
  stop: ["", "tool", "condition", "client_calls", "content_filter", "length", "turns", "calls", "seconds", "tokens", "identical"],
};
const PAGE = 50;

// ── The list ────────────────────────────────────────────────────────────────────────

export async function showRuns(signal, { main, asked }) {
  const held = main.querySelector(".filters :focus")?.name;
  const form = makeFilters(asked);
  const place = make("div", { "aria-live": "polite" });
  main.replaceChildren(form, place);
  form.elements[held]?.focus(); // who filters with the keyboard goes on where they were
  const { runs, failed } = await read(`runs?${asked}`);
  if (signal.aborted) return;
  place.dataset.shown = String(asked);
  if (failed) place.append(make("p", { class: "message" }, `${counted(failed, "run")} could not be written to the file`));
  place.append(runs.length ? make("div", { class: "runs" }, listRuns(runs)) : explainEmpty(asked));
  if (runs.length >= PAGE) {
    const older = new URLSearchParams(asked);
    older.set("before", runs.at(-1).number);
    place.append(make("p", { class: "more" }, make("a", { href: `#/runs?${older}` }, "Older runs")));
  }
  suggest(form);
}

function explainEmpty(asked) {
  if (isFiltered(asked)) return empty("These filters hide every run. ", make("a", { href: "#/runs" }, "Show all"));
  if (asked.get("before")) return empty("There are no older runs. ", make("a", { href: "#/runs" }, "Back to the newest"));
  return empty("No run is stored yet. Ask something under ", make("a", { href: "#/live" }, "Live"), ", or point a client at this proxy:\n", writeAddresses());
}

function isFiltered(asked) {
  return Object.keys(FILTERS).some((name) => asked.get(name));
}

// Words that fit the fields: those that were kept.
async function suggest(form) {
  const { calls, codes, names, oddities, runs } = await read("figures");
  const words = {
    model: runs.map((row) => row.model), tool: names, reason: calls.map((row) => row.reason),
    oddity: oddities.map((row) => row.kind), code: codes,
  };
  for (const [name, found] of Object.entries(words)) {
    const options = [...new Set(found)].filter(Boolean).sort().map((value) => make("option", { value }));
    form.querySelector(`#known-${name}`).replaceChildren(...options);
  }
}

function makeFilters(asked) {
  const form = make("form", { class: "filters", "aria-label": "Filters", onsubmit: (event) => {
    event.preventDefault();
    const wanted = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    location.hash = `#/runs?${wanted}`;
  } });
  for (const [name, label] of Object.entries(FILTERS)) {
    const value = asked.get(name) ?? "";
    const field = WORDS[name]
      ? make("select", { name, onchange: () => form.requestSubmit() }, WORDS[name].map((word) => make("option", { value: word, selected: word === value }, word || "any")))
      : make("input", { name, value, size: "12", type: "search", placeholder: "any", list: `known-${name}` });
    form.append(make("label", {}, make("span", {}, label), field), WORDS[name] ? "" : make("datalist", { id: `known-${name}` }));
  }
  form.append(make("button", { class: "primary", name: "filter" }, "Filter"));
  if (isFiltered(asked) || asked.get("before")) form.append(make("a", { href: "#/runs" }, isFiltered(asked) ? "Show all" : "Back to the newest"));
  return form;
}

function listRuns(runs) {
  const rows = runs.map((run) => [
    make("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, new Date(run.began * 1000).toLocaleString()),
    make("span", { class: "subject" }, make("b", {}, run.model), run.question ? make("span", { class: "question" }, brief(run.question)) : null),
    make("span", {}, (run.tools ?? []).map((name) => make("code", {}, name)).flatMap((code) => [code, " "])),
    make("span", {}, Object.entries(run.verdicts ?? {}).map(([verdict, count]) => chip(`${count} ${verdict}`, verdict === "rejected" ? "bad" : verdict === "repaired" ? "odd" : "good")), (run.reasons ?? []).map((reason) => chip(reason, "bad")), countStatuses({ statuses: run.statuses }).map((words) => chip(words, "bad"))),
    make("span", {}, chip(run.fate ?? "", run.fate === "done" ? "good" : "bad"), run.stop ? chip(`stopped: ${run.stop}`, "odd") : null, run.code ? chip(run.code, "bad") : null, run.dropped ? chip(`${run.dropped} dropped`, "bad") : null),
    `${run.input_tokens} + ${run.output_tokens}`,
    seconds(run.seconds),
  ]);
  return table("Runs, newest first", ["when", "model and question", "tools", "calls", "end", "tokens", "time"], rows);
}

// ── One run ─────────────────────────────────────────────────────────────────────────

export async function showRun(signal, { main, id }) {
  const { summary, events } = await read(`runs/${encodeURIComponent(id)}`);
  if (signal.aborted) return;
  const view = new RunView();
  const raw = make("section", { class: "raw", id: "raw", "aria-label": "Raw chunks" });
  const complain = (error) => raw.replaceChildren(make("p", { class: "message", role: "alert" }, error.message));
  const player = makePlayer(signal, { id, events, view });
  const tools = make("div", { class: "tools", role: "toolbar", "aria-label": "This run" },
    make("a", { href: "#/runs", class: "back" }, "← All runs"),
    ...player,
    make("button", { type: "button", "aria-expanded": "false", "aria-controls": "raw", onclick: ({ target }) => fold(target, { id, raw }).catch(complain) }, "Raw chunks"),
    make("button", { type: "button", onclick: () => download(`runs/${encodeURIComponent(id)}/case`, `${id}.jsonl`).catch(complain) }, "Export as a case"));
  main.replaceChildren(tools, view.element, raw);
  view.show(foldAll(id, events));
  document.title = `${summary.model} · Wholecall inspector`;
}

async function fold(button, { id, raw }) {
  const opens = button.getAttribute("aria-expanded") === "false";
  button.setAttribute("aria-expanded", String(opens));
  if (opens) await showChunks(id, raw);
  else raw.replaceChildren();
}

async function showChunks(id, place) {
  const { answers } = await read(`runs/${encodeURIComponent(id)}/chunks`);
  const none = empty("The chunks of this run were not stored: bodies are off, events were dropped, or a secret was in them.");
  place.replaceChildren(...(answers.length ? answers.flatMap(showAnswer) : [none]));
  place.scrollIntoView({ block: "start" });
}

function showAnswer(answer, number) {
  const rows = answer.chunks.map((chunk) => [
    make("span", { class: "fact" }, seconds(chunk.at)),
    chunk.end ? make("i", { class: "soft" }, "end of the stream") : make("pre", { class: "text" }, chunk.text),
    lines(chunk.deltas), lines(chunk.events),
  ]);
  const title = `Answer ${number + 1}, as received (${answer.protocol}), beside what it was decoded to`;
  const rest = answer.left_out ? [make("p", { class: "soft" }, `${answer.left_out} more chunks; the export has all of them.`)] : [];
  return [table(title, ["at", "chunk", "deltas", "events"], rows), ...rest];
}

function lines(texts) {
  return make("ul", { class: "lines" }, texts.map((text) => make("li", {}, make("code", {}, text))));
}

// ── Replay ──────────────────────────────────────────────────────────────────────────

function makePlayer(signal, { id, events, view }) {
  const last = events.at(-1)?.at ?? 0;
  const speed = make("select", { "aria-label": "Speed" }, ["0.25", "0.5", "1", "4"].map((value) => make("option", { value, selected: value === "1" }, `${value}×`)));
  const place = make("input", { type: "range", min: "0", max: String(last || 1), step: "any", value: String(last), "aria-label": "Place in the run, in seconds" });
  const button = make("button", { type: "button", class: "primary" }, "Replay");
  let playing = false;
  let clock = last;
  let before = 0;
  let run = null;
  let next = 0;
  const seek = (at) => {
    if (!run || at < clock) { run = newRun(id); next = 0; view.clear(); }
    clock = at;
    while (next < events.length && events[next].at <= clock) apply(run, events[next++]);
    run.now = Math.max(run.now, clock);
    run.version += 1;
    view.show(run);
    place.value = String(clock);
  };
  const step = (now) => {
    if (!playing || signal.aborted) return;
    const at = clock + ((now - before) / 1000) * Number(speed.value);
    before = now;
    seek(Math.min(at, last));
    if (clock >= last) { playing = false; button.textContent = "Replay"; return; }
    requestAnimationFrame(step);
  };
  button.addEventListener("click", () => {
    playing = !playing;
    button.textContent = playing ? "Pause" : "Continue";
    if (!playing) return;
    if (clock >= last) seek(0);
    requestAnimationFrame((now) => { before = now; step(now); });
  });
  place.addEventListener("input", () => {
    playing = false;
    button.textContent = "Continue";
    seek(Number(place.value));
  });
  return [button, speed, place];
}
