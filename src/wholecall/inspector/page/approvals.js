// Calls that wait for a person, of all runs and processes that may be seen.

import { arrange, chip, make } from "./dom.js";
import { makeForm } from "./forms.js";
import { showJson } from "./json_view.js";
import { NoKey, post, read, Unreachable } from "./reading.js";

const PACE_MS = 2000;
const place = document.getElementById("approvals");
const trouble = make("p", { class: "message", role: "alert", hidden: true });
const shown = new Map();
let reading = false;

// Look now, and go on looking as long as the page is seen.
export async function lookForApprovals() {
  if (reading) return;
  reading = true;
  try {
    const { waiting } = await read("approvals");
    trouble.textContent = "";
    show(waiting);
  } catch (error) {
    tellTrouble(error);
  } finally {
    reading = false;
  }
}

export function startApprovals() {
  lookForApprovals();
  setInterval(() => { if (!document.hidden) lookForApprovals(); }, PACE_MS);
  setInterval(() => { for (const card of shown.values()) card.tick(); }, 500);
}

// The cards stay: somebody may be writing in one of them. Where there are none, the page itself
// tells that the proxy cannot be reached, or wants a key.
function tellTrouble(error) {
  const known = error instanceof Unreachable || error instanceof NoKey;
  trouble.textContent = known && !shown.size ? "" : `The waiting calls cannot be read: ${error.message}`;
  arrangeAll();
}

function arrangeAll() {
  trouble.hidden = !trouble.textContent;
  arrange(place, [trouble, ...[...shown.values()].map((card) => card.element)]);
  place.hidden = !shown.size && trouble.hidden;
}

function show(waiting) {
  const ids = new Set(waiting.map((call) => call.id));
  for (const id of shown.keys()) if (!ids.has(id)) leave(id);
  for (const call of waiting) if (!shown.has(call.id)) shown.set(call.id, makeCard(call));
  arrangeAll();
}

// Who answered with the keyboard goes on with the next call, or in the page.
function leave(id) {
  const { element } = shown.get(id);
  const held = element.contains(document.activeElement);
  shown.delete(id);
  element.remove();
  if (held) (shown.values().next().value?.element.querySelector("button") ?? document.getElementById("main")).focus();
}

// What a person may say, each with its button.
const ANSWERS = {
  approve: { label: "Approve", kind: "primary" },
  deny: { label: "Deny", kind: "danger" },
  done: { label: "It was carried out", kind: "" },
  not_done: { label: "It was not", kind: "" },
  rerun: { label: "Run it again", kind: "danger" },
  accept: { label: "Send", kind: "primary" },
  decline: { label: "Decline", kind: "" },
};

function makeCard(call) {
  const isOutcome = call.decisions.includes("done");
  const question = call.elicitation ?? null;
  const form = makeForm(question?.schema ?? {});
  const waits = question ? "asks you" : "waits for approval";
  const asked = isOutcome ? "had begun before a crash: outcome unknown" : waits;
  const title = `${call.name || "A call"} ${asked}`;
  const left = make("span", { class: "fact" });
  const why = make("input", { hidden: isOutcome || question !== null, "aria-label": `Why ${call.name} is denied; the model reads it`, placeholder: "why not (the model reads it)", maxlength: "500" });
  const failed = make("p", { class: "message", role: "alert" });
  const answer = async (decision) => {
    try {
      await post(`approvals/${encodeURIComponent(call.id)}`, {
        decision, why: decision === "deny" ? why.value : "", content: decision === "accept" ? form.read() : {},
      });
      leave(call.id);
      arrangeAll();
    } catch (error) {
      failed.textContent = error.message;
    }
  };
  const buttons = call.decisions.map((word) => make("button", {
    type: "button", class: ANSWERS[word].kind, "aria-label": `${ANSWERS[word].label} ${call.name}`.trim(), onclick: () => answer(word),
  }, ANSWERS[word].label));
  const element = make("article", { class: "approval", role: "group", "aria-label": title },
    make("header", {}, make("h2", {}, make("code", {}, call.name || "?"), ` ${asked}`), chip(call.model), left),
    question && make("p", { class: "question" }, `The server ${question.server} asks: ${question.message}`),
    question?.url ? make("p", {}, make("a", { href: question.url, target: "_blank", rel: "noopener noreferrer" }, question.url)) : null,
    call.arguments
      ? showJson(call.arguments, { label: `Arguments of ${call.name}` })
      : make("p", { class: "soft" }, "The arguments are not shown, because inspector.bodies is off."),
    form.element,
    make("div", { class: "row" }, buttons, why),
    failed);
  const tick = () => {
    if (!call.until) {
      left.textContent = "waits without a time limit";
      return;
    }
    const rest = Math.max(0, Math.round(call.until - Date.now() / 1000));
    left.textContent = `${question ? "cancelled" : "denied"} in ${Math.floor(rest / 60)}:${String(rest % 60).padStart(2, "0")}`;
  };
  tick();
  return { element, tick };
}
