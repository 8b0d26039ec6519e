// From events to what is shown. The same function serves runs that are under way, runs of the
// file, and replays: each event has its number in its run, and what came before is skipped.

export function newRun(id) {
  return { id, head: {}, next: 0, now: 0, lastAt: 0, heardAt: 0, turns: [], calls: new Map(), question: "", resumed: null, stop: null, over: null, dropped: 0, missed: 0, version: 0 };
}

function newTurn(event) {
  return {
    turn: event.turn ?? 1, began: event.at, asked: null, text: "", reasoning: "", lanes: new Map(),
    oddities: [], faults: [], notes: [], usage: null, ended: null, endedAt: null, void: "",
  };
}

function newLane(number, at) {
  return {
    number, id: "", name: "", text: "", openedAt: at, evidence: [], verdict: "", verdictAt: null,
    reason: "", detail: "", problems: [], repairs: [], coercions: [], dropped: [], fitted: "",
    characters: 0, startedAt: null, endedAt: null, status: "", result: "", attempt: 0,
    progress: "", approval: "", why: "", recalled: false, version: 0,
  };
}

function turnOf(run, event) {
  if (!run.turns.length) run.turns.push(newTurn({ turn: 1, at: event.at }));
  return run.turns[run.turns.length - 1];
}

function laneOf(run, event) {
  const lanes = turnOf(run, event).lanes;
  if (!lanes.has(event.number)) lanes.set(event.number, newLane(event.number, event.at));
  const lane = lanes.get(event.number);
  lane.version += 1;
  return lane;
}

// A run that was taken over goes on with calls whose beginning another worker has told of.
function callOf(run, id, event) {
  const lane = run.calls.get(id) ?? null;
  if (lane) lane.version += 1;
  else if (run.resumed && event.call) return inherit(run, event);
  return lane ?? newLane(0, event.at);
}

function inherit(run, { call, at }) {
  const lane = laneOf(run, { number: call.number ?? turnOf(run, { at }).lanes.size, at });
  Object.assign(lane, { id: call.id, name: call.name ?? "", verdict: "released", verdictAt: at });
  run.calls.set(call.id, lane);
  return lane;
}

// `call` is a released call or a rejection. Where bodies are not kept, `raw` is a number of characters.
function judge(run, event, call, verdict) {
  const lane = laneOf(run, { number: call.number, at: event.at });
  const hasText = typeof call.raw === "string";
  Object.assign(lane, {
    verdict, verdictAt: event.at, id: call.id ?? lane.id, name: call.name ?? lane.name,
    text: hasText ? call.raw : lane.text, characters: (hasText ? call.raw.length : call.raw) ?? 0,
    reason: call.reason ?? "", detail: call.detail ?? "", problems: call.problems ?? [],
    repairs: call.repairs ?? [], coercions: call.coercions ?? [], dropped: call.dropped ?? [],
    fitted: call.arguments ?? "", evidence: call.evidence ?? lane.evidence,
  });
  if (call.id) run.calls.set(call.id, lane);
}

function tellTakeover({ turn, worker, taken }) {
  return `${taken ? "taken over" : "resumed"} at turn ${turn} by worker ${worker ?? "?"}`;
}

const WAITS = "waits for approval";
const ASKS = "asks the user";
const ANSWERS = { accept: "answered", decline: "declined", cancel: "not answered" };
const grown = (before, event) => (event.whole ? event.text : before + event.text);

// By the type of the event.
const FOLDS = {
  Exchange: (run, event) => { run.head = event; },
  TurnStarted: (run, event) => {
    // The turn with which a run that was taken over goes on is asked for again.
    if (run.resumed?.turn === event.turn && run.turns.at(-1)?.lanes.size === 0 && run.turns.at(-1).resumed) return;
    // What is asked before the first turn is told belongs to it.
    run.turns.push(newTurn(event));
  },
  TurnRetried: (run, event) => { turnOf(run, event).void = event.why; },
  Resumed: (run, event) => {
    run.resumed = event;
    run.turns.push({ ...newTurn(event), resumed: true, notes: [tellTakeover(event)] });
  },
  RunEnded: (run, event) => { run.stop = event; },
  UpstreamAsked: (run, event) => {
    turnOf(run, event).asked = event;
    run.question ||= (event.messages ?? []).findLast((message) => message.role === "user" && message.text)?.text ?? "";
  },
  Opened: (run, event) => {
    const lane = laneOf(run, event);
    Object.assign(lane, { id: event.id ?? "", name: event.name ?? "" });
    if (event.id) run.calls.set(event.id, lane);
  },
  Grew: (run, event) => {
    const lane = laneOf(run, event);
    lane.text = grown(lane.text, event);
    lane.characters = lane.text.length;
  },
  Proved: (run, event) => { laneOf(run, event).evidence = event.evidence ?? []; },
  Released: (run, event) => judge(run, event, event.call, event.call.repairs ? "repaired" : "released"),
  Rejected: (run, event) => judge(run, event, event, "rejected"),
  Repeated: (run, event) => { Object.assign(laneOf(run, event), { verdict: "repeated", verdictAt: event.at }); },
  Text: (run, event) => { const turn = turnOf(run, event); turn.text = grown(turn.text, event); },
  Reasoning: (run, event) => { const turn = turnOf(run, event); turn.reasoning = grown(turn.reasoning, event); },
  Usage: (run, event) => { turnOf(run, event).usage = event; },
  Inconsistent: (run, event) => { turnOf(run, event).oddities.push(event); },
  Fault: (run, event) => { turnOf(run, event).faults.push(event); },
  Ended: (run, event) => { Object.assign(turnOf(run, event), { ended: event, endedAt: event.at }); },
  ToolStarted: (run, event) => {
    const lane = callOf(run, event.call.id, event);
    Object.assign(lane, { startedAt: lane.startedAt ?? event.at, attempt: event.attempt ?? 1 });
  },
  ToolRecalled: (run, event) => {
    judge(run, event, event.call, "released");
    Object.assign(callOf(run, event.call.id, event), { recalled: true });
  },
  ToolReported: (run, event) => { callOf(run, event.call_id, event).progress = event.progress ?? ""; },
  ToolEnded: (run, event) => {
    const result = { endedAt: event.at, status: event.status, result: event.result ?? "" };
    Object.assign(callOf(run, event.call.id, event), result);
  },
  ToolEndedLate: (run, event) => {
    const result = { status: `timed_out, ${event.status} late`, result: event.result ?? "" };
    Object.assign(callOf(run, event.call.id, event), result);
  },
  ToolAbandoned: (run, event) => { callOf(run, event.call.id, event).status = "abandoned"; },
  ApprovalAsked: (run, event) => { callOf(run, event.call.id, event).approval = WAITS; },
  ApprovalAnswered: (run, event) => {
    const lane = callOf(run, event.call.id, event);
    Object.assign(lane, { approval: event.approved ? "approved" : "denied", why: event.why ?? "" });
  },
  ElicitationAsked: (run, event) => { callOf(run, event.call.id, event.at).approval = ASKS; },
  ElicitationAnswered: (run, event) => { callOf(run, event.call.id, event.at).approval = ANSWERS[event.action]; },
  UpstreamRetried: (run, event) => { turnOf(run, event).notes.push(`asked again after ${event.delay} s`); },
  UpstreamFailed: (run, event) => { turnOf(run, event).faults.push({ kind: "upstream", message: event.error.message }); },
  Dropped: (run, event) => { run.dropped += event.events; },
  ExchangeEnded: (run, event) => {
    run.over = event;
    // No turn follows, so it was not asked again: a part of it had reached the client.
    if (run.turns.length) run.turns.at(-1).void = "";
  },
};

export function apply(run, event) {
  if (event.n < run.next) return false;
  if (event.n > run.next) run.missed += event.n - run.next; // this page did not keep up
  run.next = event.n + 1;
  run.now = Math.max(run.now, event.at);
  run.lastAt = event.at;
  run.version += 1;
  FOLDS[event.type]?.(run, event);
  return true;
}

function countWords(words) {
  const counts = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

export function totals(run) {
  const lanes = run.turns.flatMap((turn) => [...turn.lanes.values()]);
  const sum = (name) => run.turns.reduce((total, turn) => total + (turn.usage?.[name] ?? 0), 0);
  return {
    turns: run.turns.length,
    calls: lanes.length,
    rejected: lanes.filter((lane) => lane.verdict === "rejected").length,
    statuses: countWords(lanes.map((lane) => lane.status).filter((status) => status && status !== "done")),
    waiting: lanes.filter((lane) => [WAITS, ASKS].includes(lane.approval) && !lane.status).length,
    input: sum("input_tokens"),
    output: sum("output_tokens"),
    seconds: run.over?.seconds ?? run.now,
  };
}

// A run that began with its question: turns that were never told of still have one.
export function foldAll(id, events) {
  const run = newRun(id);
  for (const event of events) apply(run, event);
  return run;
}
