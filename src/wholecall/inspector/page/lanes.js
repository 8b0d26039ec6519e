// A run: its turns below each other, in each a lane for every call.

import { chip, counted, countStatuses, make, seconds } from "./dom.js";
import { totals } from "./folding.js";
import { fillJson, showJson } from "./json_view.js";

const NEAR_END = 24; // pixels: a line
const EVIDENCE = ["CLOSED", "SEALED", "CONFIRMED"];
const MEANINGS = {
  CLOSED: "the object is closed and not empty",
  SEALED: "the protocol says that the call is over",
  CONFIRMED: "the turn ended well",
};
// Why no more evidence was needed, by what held when the call was released.
const RELEASED_AT = { ...MEANINGS, CLOSED: "read-only or repeatable, may start early" };

export class RunView {
  #turns = new Map();
  #version = -1;

  // With `link`, the head has a link to the run's own page.
  constructor({ link = false } = {}) {
    this.head = make("div", { class: "head" });
    this.question = make("blockquote", { class: "question text", "aria-label": "What was asked", tabindex: "0", hidden: true });
    this.link = link ? make("a", { class: "open-run", hidden: true }, "Open this run →") : null;
    this.turns = make("div", { class: "turns" });
    this.element = make("section", { class: "run", "aria-label": "Run" }, this.head, this.link, this.question, this.turns);
  }

  show(run) {
    if (run.version === this.#version) return;
    this.#version = run.version;
    this.head.replaceChildren(...showHead(run));
    grow(this.question, run.question);
    this.question.hidden = !run.question;
    if (this.link) {
      this.link.hidden = !run.over;
      this.link.href = `#/runs/${encodeURIComponent(run.id)}`;
    }
    run.turns.forEach((turn, index) => this.#find(index).show(run, turn));
    while (this.turns.children.length > run.turns.length) this.turns.lastChild.remove();
  }

  // Forget everything: another run is shown, or the same from its beginning.
  clear() {
    this.#turns.clear();
    this.#version = -1;
    this.turns.replaceChildren();
  }

  #find(index) {
    let view = this.#turns.get(index);
    if (!view) {
      view = new TurnView(index);
      this.#turns.set(index, view);
      this.turns.append(view.element);
    }
    return view;
  }
}

function showHead(run) {
  const { head } = run;
  const sums = totals(run);
  const bad = run.over && run.over.fate !== "done";
  const stat = (name, value) => make("div", { class: "stat" }, make("dt", {}, name), make("dd", {}, value));
  return [
    make("div", { class: "title" },
      make("h2", {}, head.model || "a model without a name"),
      chip(run.over?.fate ?? "under way", bad ? "bad" : run.over ? "good" : "live"),
      run.over?.code ? chip(run.over.code, "bad") : null,
      run.stop && run.stop.stop !== "answer" ? chip(`stopped: ${run.stop.stop}`, run.stop.no_answer ? "bad" : "odd", typeof run.stop.no_answer === "string" ? run.stop.no_answer : "why the run ended") : null,
      run.dropped ? chip(`${counted(run.dropped, "event")} dropped`, "bad", "more events came than could be stored") : null,
      run.missed ? chip(`${counted(run.missed, "event")} not shown`, "bad", "this page did not keep up") : null,
      head.bodies === false ? chip("texts are not stored", "", "inspector.bodies is off") : null),
    make("dl", { class: "stats" },
      stat("turns", String(sums.turns)),
      stat("calls", [String(sums.calls), ...countStatuses(sums)].join(", ")),
      stat("tokens", sums.input || sums.output ? `${sums.input} in · ${sums.output} out` : "–"),
      stat("time", seconds(sums.seconds)),
      stat("way", `${head.way || "–"} · ${head.protocol ?? ""} → ${head.upstream ?? ""}`)),
    make("p", { class: "fact id" }, `${run.id} · ${head.request_id ?? ""}`),
    ...(run.over?.message ? [make("p", { class: "message" }, run.over.message)] : []),
  ];
}

// ── Turns ───────────────────────────────────────────────────────────────────────────

class TurnView {
  #lanes = new Map();
  #asked = null;

  constructor(index) {
    this.index = index;
    this.head = make("header", {});
    this.odd = make("ul", {});
    this.oddities = make("details", { class: "asked", hidden: true }, make("summary", {}, "What was odd"), this.odd);
    this.asked = make("div", { class: "asked" });
    this.text = make("p", { class: "text said", "aria-label": "Text" });
    this.reasoning = make("p", { class: "text" });
    this.thinking = make("details", { class: "reasoning", open: true, hidden: true }, make("summary", {}, "Reasoning"), this.reasoning);
    this.list = make("div", { class: "lanes" });
    this.element = make("section", { class: "turn", "aria-label": `Turn ${index + 1}` },
      this.head, this.oddities, this.asked, this.thinking, this.text, this.list);
  }

  show(run, turn) {
    this.head.replaceChildren(...showTurnHead(turn, { index: this.index, goesOn: !run.over && turn === run.turns.at(-1) }));
    this.#tellOddities(turn);
    if (turn.asked && this.#asked !== turn.asked) {
      this.#asked = turn.asked;
      this.asked.replaceChildren(...showAsked(turn.asked));
    }
    grow(this.text, turn.text);
    grow(this.reasoning, turn.reasoning);
    this.text.hidden = !turn.text;
    this.thinking.hidden = !turn.reasoning;
    const scale = scaleOf(run, turn);
    for (const lane of turn.lanes.values()) this.#find(lane).show(lane, scale);
  }

  // The chips name them; what they mean here must not need a mouse.
  #tellOddities({ faults, oddities }) {
    const told = [...faults.map((fault) => [fault.kind, fault.message]), ...oddities.map((odd) => [odd.oddity, odd.detail])]
      .filter(([, words]) => words);
    if (told.length === this.odd.children.length) return;
    this.odd.replaceChildren(...told.map(([name, words]) => make("li", {}, make("b", {}, name), " ", make("span", { class: "text" }, words))));
    this.oddities.hidden = !told.length;
  }

  #find(lane) {
    let view = this.#lanes.get(lane.number);
    if (!view) {
      view = new LaneView();
      this.#lanes.set(lane.number, view);
      this.list.append(view.element);
    }
    return view;
  }
}

// Only what is new is added, so that a reader's selection stays.
function grow(element, text) {
  const shown = element.textContent;
  if (shown === text) return;
  if (text.startsWith(shown)) element.append(text.slice(shown.length));
  else element.textContent = text;
}

function showEnd({ ended, text, lanes }, goesOn) {
  if (ended) return chip(ended.finish_reason ?? "cut", ended.error ? "bad" : "", "how the turn ended");
  if (goesOn) return chip("streaming", "live");
  return text || lanes.size ? chip("broken off", "bad", "the end of the stream never came") : chip("no answer", "bad");
}

function showTurnHead(turn, { index, goesOn }) {
  const { ended } = turn;
  return [
    make("h3", {}, `Turn ${index + 1}`),
    showEnd(turn, goesOn),
    ended?.native && ended.native !== ended.finish_reason ? chip(`upstream said ${ended.native}`) : null,
    turn.void ? chip(`asked again: ${turn.void}`, "bad") : null,
    ...turn.notes.map((note) => chip(note)),
    ...turn.faults.map((fault) => chip(fault.kind, "bad", fault.message)),
    ...turn.oddities.map((odd) => chip(odd.oddity, "odd", odd.detail)),
    turn.usage ? make("span", { class: "fact end" }, `${turn.usage.input_tokens ?? 0} + ${turn.usage.output_tokens ?? 0} tokens`) : null,
  ].filter(Boolean);
}

function showAsked(asked) {
  const told = (asked.messages ?? []).flatMap((message) => [
    ...(message.results ?? []).map((result) => ({ who: `result of ${result.name}`, bad: result.failed, text: result.text })),
    ...(message.calls ?? []).map((call) => ({ who: `call of ${call.name}`, text: call.arguments })),
    ...(message.text ? [{ who: message.role, text: message.text }] : []),
  ]);
  const feedback = told.filter((line) => line.bad).length;
  const lines = told.map((line) =>
    make("li", { class: line.bad ? "feedback" : "" }, make("b", {}, line.who), " ", make("span", { class: "text" }, line.text)));
  const label = feedback ? `What the model was told (${feedback} feedback)` : "What the model was told";
  const tools = asked.tools ?? [];
  if (!lines.length && !tools.length) return [];
  const offered = tools.length ? make("p", { class: "offered" }, "Tools offered: ", ...tools.flatMap((name) => [make("code", {}, name), " "])) : null;
  return [make("details", { open: feedback > 0 }, make("summary", {}, label), offered,
    asked.left_out ? make("p", { class: "soft" }, `after ${counted(asked.left_out, "earlier message")}`) : null, make("ul", {}, lines))];
}

// ── Lanes ───────────────────────────────────────────────────────────────────────────

// Each part is written anew only when it says something else: what somebody opened, selected
// or scrolled to stays.
class LaneView {
  #said = {};
  #arguments = [];

  constructor() {
    this.json = make("pre", { class: "json", tabindex: "0" });
    this.parts = Object.fromEntries(["head", "json", "notes", "result", "bars"].map((name) => [name, make("div", { class: name })]));
    this.element = make("article", { class: "lane" }, ...Object.values(this.parts));
  }

  show(lane, scale) {
    const early = isEarly(lane, scale);
    this.element.setAttribute("aria-label", `Call ${lane.number + 1}: ${lane.name || "no name yet"}`);
    this.element.dataset.verdict = lane.verdict || "open";
    this.element.classList.toggle("recalled", lane.recalled);
    this.#write("head", [lane.name, lane.evidence, lane.verdict, lane.reason, lane.status, lane.approval, lane.attempt, lane.recalled, early], () => showLaneHead(lane, early));
    this.#writeArguments(lane);
    this.#write("notes", [lane.verdict, lane.progress, lane.why, lane.approval], () => showNotes(lane));
    this.#write("result", [lane.result, lane.status], () => showResult(lane));
    this.parts.bars.replaceChildren(...showBars(lane, scale, early));
  }

  // They grow many times a second. Who is in the midst of them with the keyboard stays there, and
  // their end stays in sight until somebody scrolls away from it.
  #writeArguments(lane) {
    if (!lane.text) {
      this.#write("json", [lane.characters], () => [make("p", { class: "soft" }, lane.characters ? `${lane.characters} characters` : "no arguments yet")]);
      return;
    }
    const said = [lane.name, lane.text, lane.verdict];
    if (said.every((one, place) => one === this.#arguments[place])) return;
    this.#arguments = said;
    const at = this.json.scrollTop;
    const follows = !lane.verdict && at + this.json.clientHeight >= this.json.scrollHeight - NEAR_END;
    fillJson(this.json, lane.text, { isOpen: !lane.verdict, label: `Arguments of ${lane.name}` });
    if (!this.json.isConnected) this.parts.json.replaceChildren(this.json);
    this.json.scrollTop = follows ? this.json.scrollHeight : at;
  }

  #write(name, said, make) {
    const key = JSON.stringify(said);
    if (this.#said[name] === key) return;
    this.#said[name] = key;
    this.parts[name].replaceChildren(...make().filter(Boolean));
  }
}

function showLaneHead(lane, early) {
  return [
    make("h4", {}, make("code", {}, lane.name || "…")),
    chip(lane.verdict || "being built", verdictKind(lane)),
    lane.reason ? chip(lane.reason, "bad") : null,
    early ? chip("early start", "live", "the tool began before the stream ended") : null,
    lane.approval ? chip(lane.approval, ["approved", "answered"].includes(lane.approval) ? "good" : "odd") : null,
    lane.recalled ? chip("recalled", "", "its result is from the journal: it did not run again") : null,
    lane.status ? chip(lane.status === "unknown" ? "outcome unknown" : lane.status, lane.status === "done" ? "good" : "bad", "how running it ended") : null,
    lane.attempt > 1 ? chip(`attempt ${lane.attempt}`, "odd") : null,
    showEvidence(lane),
  ];
}

// While a call is built its evidence grows; afterwards it is what the verdict was based on.
function showEvidence({ evidence, verdict }) {
  if (verdict === "released" || verdict === "repaired") {
    const last = EVIDENCE.findLast((word) => evidence.includes(word));
    return make("p", { class: "evidence soft", "aria-label": "Evidence" }, last ? `released at ${last}: ${RELEASED_AT[last]}` : "");
  }
  const shown = verdict ? EVIDENCE.filter((word) => evidence.includes(word)) : EVIDENCE;
  return make("ol", { class: "evidence", "aria-label": "Evidence" }, shown.map((word) =>
    make("li", { class: evidence.includes(word) ? "has" : "", title: MEANINGS[word] }, word,
      make("span", { class: "unseen" }, evidence.includes(word) ? "" : " (not yet)"))));
}

function verdictKind(lane) {
  return { released: "good", repaired: "odd", rejected: "bad", "": "live" }[lane.verdict] ?? "odd";
}

function showNotes(lane) {
  return [
    lane.detail ? make("p", { class: "message" }, lane.detail) : null,
    ...lane.problems.map(showProblem),
    ...lane.repairs.map((repair) => showChange(`repair: ${repair.kind}`, repair)),
    ...lane.coercions.map((coercion) => showChange(`coerced: ${coercion.path}`, coercion)),
    lane.dropped.length ? make("p", { class: "soft" }, `parameters that the tool does not have: ${lane.dropped.join(", ")}`) : null,
    lane.fitted ? make("details", {}, make("summary", {}, "Arguments as they ran"), showJson(lane.fitted)) : null,
    lane.why ? make("p", { class: "soft" }, `answer to the approval: ${lane.why}`) : null,
    lane.progress ? make("p", { class: "soft" }, `progress: ${lane.progress}`) : null,
  ];
}

function showProblem(problem) {
  return make("div", { class: "problem" },
    chip(problem.kind, "bad"), problem.message ?? make("code", {}, problem.path ?? ""),
    problem.received ? make("div", { class: "change" }, "received ", make("code", { class: "before" }, problem.received),
      " expected ", make("code", { class: "after" }, problem.expected ?? "")) : null);
}

function showChange(what, change) {
  return make("div", { class: "problem" }, chip(what, "odd"),
    make("div", { class: "change" },
      make("code", { class: "before", "aria-label": "before" }, change.before ?? ""), make("span", { class: "soft" }, " → "),
      make("code", { class: "after", "aria-label": "after" }, change.after ?? "")));
}

function showResult(lane) {
  return [lane.result
    ? make("details", { open: true }, make("summary", {}, "Result"), make("pre", { class: "text", tabindex: "0", "aria-label": `Result of ${lane.name}` }, lane.result)) : null];
}

// ── Time ────────────────────────────────────────────────────────────────────────────

function scaleOf(run, turn) {
  const lanes = [...turn.lanes.values()];
  const ends = lanes.flatMap((lane) => [lane.verdictAt, lane.endedAt]).filter((at) => at !== null);
  const goesOn = !run.over && (turn.endedAt === null || lanes.some((lane) => lane.verdictAt !== null && lane.endedAt === null && (lane.startedAt !== null || lane.approval)));
  const last = Math.max(turn.began, turn.endedAt ?? turn.began, goesOn ? run.now : turn.began, ...ends);
  return { from: turn.began, span: Math.max(last - turn.began, 0.001), end: turn.endedAt, now: last };
}

function isEarly(lane, scale) {
  return lane.startedAt !== null && (scale.end === null || lane.startedAt < scale.end);
}

function showBars(lane, scale, early) {
  const place = (at) => `${Math.min(Math.max(((at - scale.from) / scale.span) * 100, 0), 100)}%`;
  const begun = lane.startedAt ?? (lane.approval && lane.endedAt === null ? scale.now : lane.endedAt);
  const phases = [
    ["building", lane.openedAt, lane.verdictAt ?? scale.now],
    ["waiting", lane.verdictAt, begun],
    ["running", lane.startedAt, lane.startedAt === null ? null : lane.endedAt ?? scale.now],
  ].filter(([, from, to]) => from !== null && to !== null && to > from);
  const words = phases.map(([name, from, to]) => `${name} ${seconds(to - from)}`);
  if (early) words.push(scale.end === null ? "began before the stream ended" : `began ${seconds(scale.end - lane.startedAt)} before the stream ended`);
  const bars = make("div", { class: "track", role: "img", "aria-label": words.join(", ") || "no time yet" });
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
  const legend = phases.map(([name, from, to]) => make("span", { class: `key-${name}` }, `${name} ${seconds(to - from)}`));
  if (scale.end !== null) legend.push(make("span", { class: "key-mark" }, "end of the stream"));
  if (early) legend.push(make("span", { class: "early" }, words.at(-1)));
  return [bars, make("p", { class: "legend", "aria-hidden": "true" }, legend)];
}
