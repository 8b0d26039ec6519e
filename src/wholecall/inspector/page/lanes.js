// A run: its turns below each other, in each a lane for every call.

import { chip, counted, make, seconds } from "./dom.js";
import { totals } from "./folding.js";
import { showJson } from "./json_view.js";

const EVIDENCE = ["CLOSED", "SEALED", "CONFIRMED"];
const MEANINGS = {
  CLOSED: "the object is closed and not empty",
  SEALED: "the protocol says that the call is over",
  CONFIRMED: "the turn ended well",
};

export class RunView {
  #cache = new Map();
  #version = -1;

  constructor() {
    this.element = make("section", { class: "run", "aria-label": "Run" });
    this.head = make("div", { class: "head" });
    this.turns = make("div", { class: "turns" });
    this.element.append(this.head, this.turns);
  }

  show(run) {
    if (run.version === this.#version) return;
    this.#version = run.version;
    this.head.replaceChildren(...showHead(run));
    run.turns.forEach((turn, index) => this.#showTurn(run, turn, index));
    while (this.turns.children.length > run.turns.length) this.turns.lastChild.remove();
  }

  // Forget everything: another run is shown, or the same from its beginning.
  clear() {
    this.#cache.clear();
    this.#version = -1;
    this.turns.replaceChildren();
  }

  #showTurn(run, turn, index) {
    let view = this.#cache.get(index);
    if (!view) {
      view = newTurnView();
      this.#cache.set(index, view);
      this.turns.append(view.element);
    }
    view.head.replaceChildren(...showTurnHead(turn, index));
    if (turn.asked && view.shownAsked !== turn.asked) {
      view.shownAsked = turn.asked;
      view.asked.replaceChildren(...showAsked(turn.asked));
    }
    grow(view.text, turn.text);
    grow(view.reasoning, turn.reasoning);
    view.words.hidden = !turn.text && !turn.reasoning;
    view.reasoning.parentElement.hidden = !turn.reasoning;
    const scale = scaleOf(run, turn);
    for (const lane of turn.lanes.values()) this.#showLane(view, lane, scale);
  }

  #showLane(view, lane, scale) {
    let shown = view.lanes.get(lane.number);
    if (!shown) {
      shown = { element: make("article", { class: "lane" }), version: -1, bars: null };
      view.lanes.set(lane.number, shown);
      view.list.append(shown.element);
    }
    const bars = showBars(lane, scale);
    if (shown.version !== lane.version) {
      shown.version = lane.version;
      shown.element.setAttribute("aria-label", `Call ${lane.number + 1}: ${lane.name || "no name yet"}`);
      shown.element.dataset.verdict = lane.verdict || "open";
      shown.element.replaceChildren(...showLane(lane), bars);
    } else {
      shown.bars.replaceWith(bars);
    }
    shown.bars = bars;
  }
}

function newTurnView() {
  const head = make("header", {});
  const asked = make("div", { class: "asked" });
  const text = make("p", { class: "text", "aria-label": "Text" });
  const reasoning = make("p", { class: "text" });
  const thinking = make("details", { open: true }, make("summary", {}, "Reasoning"), reasoning);
  const words = make("div", { class: "words" }, thinking, text);
  const list = make("div", { class: "lanes" });
  const body = make("div", { class: "body" }, list, words);
  const element = make("section", { class: "turn" }, head, asked, body);
  return { element, head, asked, text, reasoning, words, list, lanes: new Map(), shownAsked: null };
}

// Only what is new is added, so that a reader's selection stays.
function grow(element, text) {
  const shown = element.textContent;
  if (shown === text) return;
  if (text.startsWith(shown)) element.append(text.slice(shown.length));
  else element.textContent = text;
}

function showHead(run) {
  const head = run.head;
  const sums = totals(run);
  const fate = run.over?.fate ?? "under way";
  const bad = run.over && run.over.fate !== "done";
  const facts = [
    `${head.way ?? ""} · ${head.protocol ?? ""} → ${head.upstream ?? ""}`,
    `${counted(sums.turns, "turn")} · ${counted(sums.calls, "call")} · ${sums.rejected} rejected`,
    `${sums.input} + ${sums.output} tokens · ${seconds(sums.seconds)}`,
  ];
  return [
    make("h2", {}, head.model || "a model without a name"),
    chip(fate, bad ? "bad" : run.over ? "good" : "live"),
    run.over?.code ? chip(run.over.code, "bad") : null,
    ...facts.map((fact) => make("span", { class: "fact" }, fact)),
    run.dropped ? chip(`${run.dropped} events dropped`, "bad") : null,
    head.bodies === false ? chip("bodies are not kept", "", "inspector.bodies is off") : null,
    make("span", { class: "fact id" }, `${run.id} · ${head.request_id ?? ""}`),
    run.over?.message ? make("p", { class: "message" }, run.over.message) : null,
  ].filter(Boolean);
}

function showTurnHead(turn, index) {
  const ended = turn.ended;
  return [
    make("h3", {}, `Turn ${index + 1}`),
    turn.usage ? make("span", { class: "fact" }, `${turn.usage.input ?? 0} + ${turn.usage.output ?? 0} tokens`) : null,
    ended ? chip(ended.finish_reason ?? "cut", ended.error ? "bad" : "") : chip("streaming", "live"),
    ended?.native && ended.native !== ended.finish_reason ? chip(`upstream said ${ended.native}`) : null,
    turn.void ? chip(`asked again: ${turn.void}`, "bad") : null,
    ...turn.notes.map((note) => chip(note)),
    ...turn.faults.map((fault) => chip(fault.fault, "bad", fault.message)),
    ...turn.oddities.map((odd) => chip(odd.oddity, "odd", odd.detail)),
  ].filter(Boolean);
}

function showAsked(asked) {
  const messages = asked.messages ?? [];
  const told = messages.flatMap((message) => [
    ...(message.results ?? []).map((result) => ({ who: `result of ${result.name}`, bad: result.failed, text: result.text })),
    ...(message.calls ?? []).map((call) => ({ who: `call of ${call.name}`, text: call.arguments })),
    ...(message.text ? [{ who: message.role, text: message.text }] : []),
  ]);
  const feedback = told.filter((line) => line.bad);
  const lines = told.map((line) =>
    make("li", { class: line.bad ? "feedback" : "" }, make("b", {}, line.who), " ", make("span", { class: "text" }, line.text)));
  const label = feedback.length
    ? `What the model was told (${feedback.length} feedback)` : "What the model was told";
  const tools = (asked.tools ?? []).map((name) => chip(name));
  return [
    tools.length ? make("div", { class: "offered" }, "Tools: ", ...tools) : null,
    lines.length
      ? make("details", { open: feedback.length > 0 }, make("summary", {}, label),
        asked.left_out ? make("p", {}, counted(asked.left_out, "earlier message")) : null, make("ul", {}, lines))
      : null,
  ].filter(Boolean);
}

function showLane(lane) {
  const isOpen = !lane.verdict;
  return [
    make("header", {},
      make("h4", {}, lane.name || "…"),
      ...EVIDENCE.map((word) => chip(word, lane.evidence.includes(word) ? "evidence has" : "evidence", MEANINGS[word])),
      chip(lane.verdict || "being built", verdictKind(lane)),
      lane.reason ? chip(lane.reason, "bad") : null,
      lane.status ? chip(lane.status, lane.status === "done" ? "good" : "bad") : null,
      lane.approval ? chip(lane.approval, "odd") : null,
      lane.attempt > 1 ? chip(`attempt ${lane.attempt}`, "odd") : null),
    lane.text
      ? showJson(lane.text, { isOpen, label: `Arguments of ${lane.name}` })
      : make("p", { class: "fact" }, lane.characters ? `${lane.characters} characters` : "no arguments yet"),
    lane.detail ? make("p", { class: "message" }, lane.detail) : null,
    ...lane.problems.map(showProblem),
    ...lane.repairs.map((repair) => showChange(repair.kind, repair)),
    ...lane.coercions.map((coercion) => showChange(coercion.path, coercion)),
    lane.dropped.length ? make("p", { class: "fact" }, `dropped: ${lane.dropped.join(", ")}`) : null,
    lane.fitted ? make("details", {}, make("summary", {}, "Arguments as they ran"), showJson(lane.fitted)) : null,
    lane.progress ? make("p", { class: "fact" }, `progress: ${lane.progress}`) : null,
    lane.result ? make("details", { open: true }, make("summary", {}, "Result"), make("pre", { class: "text", tabindex: "0" }, lane.result)) : null,
  ].filter(Boolean);
}

function verdictKind(lane) {
  return { released: "good", repaired: "good", rejected: "bad", "": "live" }[lane.verdict] ?? "odd";
}

function showProblem(problem) {
  return make("div", { class: "problem" },
    chip(problem.kind, "bad"), make("code", {}, problem.path ?? ""), " ", problem.message ?? "",
    problem.received ? make("div", { class: "change" }, "received ", make("code", { class: "before" }, problem.received),
      " expected ", make("code", { class: "after" }, problem.expected ?? "")) : null);
}

function showChange(what, change) {
  return make("div", { class: "problem" },
    chip(what, "odd"),
    make("div", { class: "change" },
      make("code", { class: "before", "aria-label": "before" }, change.before ?? ""), " → ",
      make("code", { class: "after", "aria-label": "after" }, change.after ?? "")));
}

// ── Time ────────────────────────────────────────────────────────────────────────────

function scaleOf(run, turn) {
  const ends = [...turn.lanes.values()].flatMap((lane) => [lane.verdictAt, lane.endedAt]);
  const running = [...turn.lanes.values()].some((lane) => lane.startedAt !== null && lane.endedAt === null);
  const last = Math.max(turn.began, turn.endedAt ?? run.now, running ? run.now : 0, ...ends.filter((at) => at !== null));
  return { from: turn.began, span: Math.max(last - turn.began, 0.001), end: turn.endedAt, now: last };
}

function showBars(lane, scale) {
  const place = (at) => `${Math.min(Math.max(((at - scale.from) / scale.span) * 100, 0), 100)}%`;
  const phases = [
    ["building", lane.openedAt, lane.verdictAt ?? scale.now],
    ["waiting", lane.verdictAt, lane.startedAt],
    ["running", lane.startedAt, lane.startedAt === null ? null : lane.endedAt ?? scale.now],
  ].filter(([, from, to]) => from !== null && to !== null && to >= from);
  const words = phases.map(([name, from, to]) => `${name} ${seconds(to - from)}`);
  const early = lane.startedAt !== null && (scale.end === null || lane.startedAt < scale.end);
  if (early) words.push("began before the stream ended");
  const bars = make("div", { class: "bars", role: "img", "aria-label": words.join(", ") });
  for (const [name, from, to] of phases) {
    const bar = make("i", { class: name, title: `${name} ${seconds(to - from)}` });
    bar.style.left = place(from);
    bar.style.width = `max(3px, calc(${place(to)} - ${place(from)}))`;
    bars.append(bar);
  }
  if (scale.end !== null) {
    const mark = make("i", { class: "mark", title: "the stream ended" });
    mark.style.left = `min(${place(scale.end)}, calc(100% - 2px))`;
    bars.append(mark);
  }
  return make("div", { class: "times" }, bars, make("span", { class: "fact" }, words.join(" · ")));
}
