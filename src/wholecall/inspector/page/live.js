// Runs as they happen: a list of them, and the one that is looked at.

import { lookForApprovals } from "./approvals.js";
import { arrange, chip, counted, make, seconds } from "./dom.js";
import { apply, newRun, totals } from "./folding.js";
import { RunView } from "./lanes.js";
import { listen } from "./reading.js";
import { TryBox } from "./trying.js";

const MOST_RUNS = 50;
const TICK_MS = 150;

export class LiveView {
  #runs = new Map();
  #lines = new Map();
  #view = new RunView({ link: true });
  #chosen = null;
  #wanted = null;
  #current = null;
  #drawn = false;

  constructor(signal, state) {
    this.state = state;
    this.list = make("ul", { class: "list", "aria-label": "Runs" });
    this.empty = make("p", { class: "empty" }, "Nothing has happened since this page was opened. Ask something above, or send a request to the proxy.");
    const box = new TryBox(signal, {
      onAsk: (id) => { this.#wanted = id; this.#chosen = null; this.#schedule(); },
      isSeen: (id) => [...this.#runs.values()].some((run) => run.head.request_id === id),
    });
    this.element = make("div", { class: "split" },
      make("aside", { "aria-label": "Runs under way" }, make("h2", { class: "small" }, "Runs"), this.list),
      make("div", { class: "place" }, box.element, this.empty, this.#view.element));
    listen({ signal, onMessage: (messages) => this.#take(messages), onState: (word) => this.#tell(word) });
    const ticking = setInterval(() => this.#tick(), TICK_MS);
    signal.addEventListener("abort", () => clearInterval(ticking));
  }

  #tell(word) {
    this.state.textContent = word;
    this.state.dataset.state = word;
  }

  #take(messages) {
    for (const message of messages) {
      if (message.missed) { this.#tell(`this page missed ${message.missed} messages: reload it`); continue; }
      if (!this.#runs.has(message.run)) this.#runs.set(message.run, newRun(message.run));
      const run = this.#runs.get(message.run);
      run.heardAt = performance.now();
      for (const event of message.events) {
        apply(run, event);
        if (event.kind.startsWith("approval")) lookForApprovals();
      }
    }
    while (this.#runs.size > MOST_RUNS) this.#forgetOne();
    this.#schedule();
  }

  #forgetOne() {
    const [id] = this.#runs.keys();
    this.#runs.delete(id);
    this.#lines.delete(id);
  }

  // Bars of what goes on grow although nothing is said.
  #tick() {
    const run = this.#current;
    if (!run || run.over) return;
    run.now = Math.max(run.now, run.lastAt + (performance.now() - run.heardAt) / 1000);
    run.version += 1;
    this.#schedule();
  }

  #schedule() {
    if (!this.#drawn) requestAnimationFrame(() => this.#paint());
    this.#drawn = true;
  }

  #find() {
    const runs = [...this.#runs.values()];
    const asked = this.#wanted && runs.find((run) => run.head.request_id === this.#wanted);
    return this.#runs.get(this.#chosen) ?? asked ?? runs.at(-1);
  }

  #paint() {
    this.#drawn = false;
    const shown = this.#find();
    this.empty.hidden = Boolean(shown);
    const newest = [...this.#runs.values()].reverse();
    arrange(this.list, newest.map((run) => this.#showLine(run, run === shown)));
    if (!shown) return;
    if (this.#current !== shown) this.#view.clear(); // another run has other turns
    this.#current = shown;
    this.#view.show(shown);
  }

  #showLine(run, isChosen) {
    let line = this.#lines.get(run.id);
    if (!line) {
      const button = make("button", { type: "button", onclick: () => { this.#chosen = run.id; this.#schedule(); } });
      line = { element: make("li", {}, button), button, version: -1 };
      this.#lines.set(run.id, line);
    }
    line.button.setAttribute("aria-pressed", String(isChosen));
    if (line.version !== run.version) line.button.replaceChildren(...describeLine(run));
    line.version = run.version;
    return line.element;
  }
}

function describeLine(run) {
  const sums = totals(run);
  const failed = run.over && run.over.fate !== "done";
  const word = run.over ? run.over.fate : sums.waiting ? "waits" : "live";
  const kind = run.over ? (failed ? "bad" : "good") : sums.waiting ? "odd" : "live";
  return [
    make("span", { class: "name" }, run.head.model || run.id), chip(word, kind),
    make("span", { class: "fact" }, `${counted(sums.calls, "call")}${sums.rejected ? ` · ${sums.rejected} rejected` : ""} · ${seconds(sums.seconds)}`),
  ];
}
