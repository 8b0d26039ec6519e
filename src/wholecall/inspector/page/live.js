// Runs as they happen: a list of them, and the one that is looked at.

import { lookForApprovals } from "./approvals.js";
import { arrange, brief, chip, counted, countStatuses, empty, make, seconds, writeAddresses } from "./dom.js";
import { apply, foldAll, newRun, totals } from "./folding.js";
import { RunView } from "./lanes.js";
import { listen, read } from "./reading.js";
import { TryBox } from "./trying.js";

const MOST_RUNS = 50;
const RECALLED_RUNS = 10;
const TICK_MS = 150;
const LOST = "The connection to the proxy was lost, and the process that answers now does not know how this run ended.";

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
    this.empty = empty("No run yet. Ask something above, or point a client at this proxy:\n", writeAddresses());
    this.follow = make("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#choose(null) }, "Follow the newest");
    this.box = new TryBox(signal, {
      onAsk: (id) => { this.#wanted = id; this.#chosen = null; this.#schedule(); },
      isSeen: (id) => [...this.#runs.values()].some((run) => run.head.request_id === id),
    });
    this.element = make("div", { class: "split" },
      make("aside", { "aria-label": "Running" }, make("div", { class: "row" }, make("h2", { class: "small" }, "Runs"), this.follow), this.list),
      make("div", { class: "place" }, this.box.element, this.empty, this.#view.element));
    listen({ signal, onMessage: (messages) => this.#take(messages), onState: (word) => this.#tell(word) });
    this.#recall(signal).catch(() => {}); // the connection's state is shown anyway
    const ticking = setInterval(() => this.#tick(), TICK_MS);
    signal.addEventListener("abort", () => clearInterval(ticking));
  }

  #tell(word) {
    this.state.textContent = word;
    this.state.dataset.state = word;
    if (word === "connected") this.box.load(); // it may be another proxy than before
  }

  // Somebody wants to see this run, and no other until the next word.
  #choose(id) {
    this.#chosen = id;
    this.#wanted = null;
    this.#schedule();
  }

  #take(messages) {
    for (const message of messages) {
      if (message.missed) throw new Error(`this page missed ${counted(message.missed, "message")}, and looks again`);
      if (message.running) { this.#catchUp(new Set(message.running)); continue; }
      const run = this.#findOrBegin(message);
      run.heardAt = performance.now();
      for (const event of message.events) {
        apply(run, event);
        if (/^(Approval|Elicitation)/.test(event.type)) lookForApprovals();
      }
    }
    while (this.#runs.size > MOST_RUNS) this.#forgetOne();
    this.#schedule();
  }

  // The last runs from before the page was opened, so that it does not begin empty.
  async #recall(signal) {
    const { runs } = await read("runs");
    const ids = runs.slice(0, RECALLED_RUNS).map((run) => run.id).reverse();
    const found = await Promise.all(ids.map((id) => read(`runs/${encodeURIComponent(id)}`).catch(() => null)));
    if (signal.aborted) return;
    const live = this.#runs;
    this.#runs = new Map();
    ids.forEach((id, at) => { if (found[at] && !live.has(id)) this.#put(foldAll(id, found[at].events)); });
    for (const [id, run] of live) this.#runs.set(id, run);
    this.#schedule();
  }

  // A run of which something is missing is told anew when the stream begins again.
  #findOrBegin({ run: id, events }) {
    const known = this.#runs.get(id);
    if (!known || (known.missed && events[0]?.n === 0)) this.#put(newRun(id));
    return this.#runs.get(id);
  }

  #put(run) {
    run.version = (this.#runs.get(run.id)?.version ?? 0) + 1;
    this.#runs.set(run.id, run);
  }

  // What this page holds for under way, and the proxy does not: it ended while nobody listened.
  #catchUp(running) {
    for (const run of this.#runs.values()) if (!run.over && !running.has(run.id)) this.#readAgain(run);
  }

  async #readAgain({ id, now }) {
    const found = await read(`runs/${encodeURIComponent(id)}`).catch(() => null);
    const run = found ? foldAll(id, found.events) : this.#runs.get(id);
    if (!run) return; // forgotten meanwhile
    if (!found) run.over = { fate: "out of sight", seconds: now, message: LOST };
    run.heardAt = performance.now();
    this.#put(run);
    this.#schedule();
  }

  // The oldest goes, but not the one that somebody looks at.
  #forgetOne() {
    const id = [...this.#runs.keys()].find((one) => one !== this.#chosen);
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
    this.follow.hidden = !this.#runs.has(this.#chosen) && !this.#wanted;
    if (!shown) return;
    if (this.#current !== shown) this.#view.clear(); // another run has other turns
    this.#current = shown;
    this.#view.show(shown);
  }

  #showLine(run, isChosen) {
    let line = this.#lines.get(run.id);
    if (!line) {
      const button = make("button", { type: "button", onclick: () => this.#choose(this.#chosen === run.id ? null : run.id) });
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
    ...(run.question ? [make("span", { class: "question" }, brief(run.question))] : []),
    ...(run.stop && run.stop.stop !== "answer" ? [chip(`stopped: ${run.stop.stop}`, run.stop.no_answer ? "bad" : "odd")] : []),
    make("span", { class: "fact" }, [counted(sums.calls, "call"), ...countStatuses(sums), seconds(sums.seconds)].join(" · ")),
  ];
}
