// From events to what is shown. The same function serves runs that are under way, runs of the
// file, and replays: each event has its number in its run, and what came before is skipped.

export function newRun(id) {
  return { id, head: {}, next: 0, now: 0, lastAt: 0, heardAt: 0, turns: [], calls: new Map(), question: "", stop: null, over: null, dropped: 0, missed: 0, version: 0 };
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
    progress: "", approval: "", why: "", version: 0,
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

function callOf(run, event) {
  const lane = run.calls.get(event.id) ?? null;
  if (lane) lane.version += 1;
  return lane ?? newLane(0, event.at);
}

function judge(run, event, verdict) {
  const lane = laneOf(run, event);
  Object.assign(lane, {
    verdict, verdictAt: event.at, id: event.id ?? lane.id, name: event.name ?? lane.name,
    text: event.raw ?? lane.text, characters: event.characters ?? 0, reason: event.reason ?? "",
    detail: event.detail ?? "", problems: event.problems ?? [], repairs: event.repairs ?? [],
    coercions: event.coercions ?? [], dropped: event.dropped ?? [], fitted: event.arguments ?? "",
    evidence: event.evidence ?? lane.evidence,
  });
  if (event.id) run.calls.set(event.id, lane);
}

const WAITS = "waits for approval";
const grown = (before, event) => (event.whole ? event.text : before + event.text);

const FOLDS = {
  run: (run, event) => { run.head = event; },
  turn: (run, event) => {
    // What is asked before the first turn is told belongs to it.
    run.turns.push(newTurn(event));
  },
  turn_retried: (run, event) => { turnOf(run, event).void = event.why; },
  run_ended: (run, event) => { run.stop = event; },
  asked: (run, event) => {
    turnOf(run, event).asked = event;
    run.question ||= (event.messages ?? []).findLast((message) => message.role === "user" && message.text)?.text ?? "";
  },
  opened: (run, event) => {
    const lane = laneOf(run, event);
    Object.assign(lane, { id: event.id ?? "", name: event.name ?? "" });
    if (event.id) run.calls.set(event.id, lane);
  },
  grew: (run, event) => {
    const lane = laneOf(run, event);
    lane.text = grown(lane.text, event);
    lane.characters = lane.text.length;
  },
  proved: (run, event) => { laneOf(run, event).evidence = event.evidence ?? []; },
  released: (run, event) => judge(run, event, event.repairs ? "repaired" : "released"),
  rejected: (run, event) => judge(run, event, "rejected"),
  repeated: (run, event) => { Object.assign(laneOf(run, event), { verdict: "repeated", verdictAt: event.at }); },
  text: (run, event) => { const turn = turnOf(run, event); turn.text = grown(turn.text, event); },
  reasoning: (run, event) => { const turn = turnOf(run, event); turn.reasoning = grown(turn.reasoning, event); },
  usage: (run, event) => { turnOf(run, event).usage = event; },
  odd: (run, event) => { turnOf(run, event).oddities.push(event); },
  fault: (run, event) => { turnOf(run, event).faults.push(event); },
  ended: (run, event) => { Object.assign(turnOf(run, event), { ended: event, endedAt: event.at }); },
  tool_started: (run, event) => {
    const lane = callOf(run, event);
    Object.assign(lane, { startedAt: lane.startedAt ?? event.at, attempt: event.attempt ?? 1 });
  },
  tool_reported: (run, event) => { callOf(run, event).progress = event.progress ?? ""; },
  tool_ended: (run, event) => {
    const result = { endedAt: event.at, status: event.status, result: event.result ?? "" };
    Object.assign(callOf(run, event), result);
  },
  tool_ended_late: (run, event) => {
    Object.assign(callOf(run, event), { status: `timed_out, ${event.status} late`, result: event.result ?? "" });
  },
  tool_abandoned: (run, event) => { callOf(run, event).status = "abandoned"; },
  approval_asked: (run, event) => { callOf(run, event).approval = WAITS; },
  approval_answered: (run, event) => {
    const lane = callOf(run, event);
    Object.assign(lane, { approval: event.approved ? "approved" : "denied", why: event.why ?? "" });
  },
  upstream_retried: (run, event) => { turnOf(run, event).notes.push(`asked again after ${event.delay} s`); },
  upstream_failed: (run, event) => { turnOf(run, event).faults.push({ fault: "upstream", message: event.message }); },
  dropped: (run, event) => { run.dropped += event.events; },
  over: (run, event) => {
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
  FOLDS[event.kind]?.(run, event);
  return true;
}

export function totals(run) {
  const lanes = run.turns.flatMap((turn) => [...turn.lanes.values()]);
  const sum = (name) => run.turns.reduce((total, turn) => total + (turn.usage?.[name] ?? 0), 0);
  return {
    turns: run.turns.length,
    calls: lanes.length,
    rejected: lanes.filter((lane) => lane.verdict === "rejected").length,
    waiting: lanes.filter((lane) => lane.approval === WAITS && !lane.status).length,
    input: sum("input"),
    output: sum("output"),
    seconds: run.over?.seconds ?? run.now,
  };
}

// A run that began with its question: turns that were never told of still have one.
export function foldAll(id, events) {
  const run = newRun(id);
  for (const event of events) apply(run, event);
  return run;
}
