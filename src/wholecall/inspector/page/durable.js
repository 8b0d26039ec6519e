// Durable runs: which are open, wait or need an answer; to continue them, and to end them.

import { chip, empty, make, table } from "./dom.js";
import { complain, readJson, send } from "./reading.js";

const WANTED = { "": "all", open: "open", waiting: "waiting", unknown: "of unknown outcome", over: "over" };
const BAD = new Set(["failed", "broken", "cancelled"]);

export async function showDurable(signal, { main, asked }) {
  const wanted = asked.get("status") ?? "";
  const form = make("form", { class: "filters", "aria-label": "Filters" },
    make("label", {}, make("span", {}, "Status"),
      make("select", { name: "status", onchange: ({ target }) => { location.hash = `#/durable?status=${target.value}`; } },
        Object.entries(WANTED).map(([value, label]) => make("option", { value, selected: value === wanted }, label)))));
  const place = make("div", { "aria-live": "polite" });
  const { data } = await readJson(`v1/runs?limit=100&status=${encodeURIComponent(wanted)}`);
  if (signal.aborted) return;
  main.replaceChildren(form, place);
  place.append(data.length ? make("div", { class: "runs" }, listRuns(data)) : explainEmpty(wanted));
}

function explainEmpty(wanted) {
  if (wanted) return empty(`No durable run is ${WANTED[wanted]}. `, make("a", { href: "#/durable" }, "Show all"));
  return empty("No durable run yet. A request with an Idempotency-Key makes one, and so does a background response.");
}

function listRuns(runs) {
  const rows = runs.map((run) => [
    new Date(run.touched_at * 1000).toLocaleString(),
    make("b", {}, run.model),
    make("code", {}, run.id),
    make("span", {}, chip(run.status, run.status === "done" ? "good" : BAD.has(run.status) ? "bad" : "live"), run.stop ? chip(run.stop, "odd") : null),
    run.worker ? `worker ${run.worker}, ${run.epoch}.` : "",
    showActions(run),
  ]);
  return table("Durable runs, newest first", ["when", "model", "run", "status", "worker", ""], rows);
}

function showActions(run) {
  const failed = make("span", { class: "message", role: "alert" });
  const act = (word, label) => make("button", { type: "button", "aria-label": `${label} ${run.id}`, onclick: async () => {
    const response = await send(`v1/runs/${encodeURIComponent(run.id)}/${word}`, { method: "POST" });
    if (response.ok) window.dispatchEvent(new HashChangeEvent("hashchange"));
    else failed.textContent = await complain(response);
  } }, label);
  const isOver = ["done", "failed", "cancelled", "broken"].includes(run.status);
  return make("span", {}, run.status === "waiting" ? act("resume", "Continue") : null, isOver ? null : act("cancel", "Cancel"), failed);
}
