// A prompt box. It sends what any client would send, to the same address, with the same key;
// the run that comes of it is shown like all others.

import { chip, make } from "./dom.js";
import { complain, readFrames, readJson, send } from "./reading.js";

const OTHER = "\u0000another";

const PATIENCE_MS = 3000;

export class TryBox {
  #models = [];
  #any = null;
  #tools = [];
  #running = null;
  #offered = "";
  #unread = false;
  #loading = null;

  // `onAsk` is told the id of the request whose run is to be shown.
  // `isSeen` says whether this page has heard of it.
  constructor(signal, { onAsk, isSeen }) {
    this.onAsk = onAsk;
    this.isSeen = isSeen;
    this.model = make("select", { "aria-label": "Model", onchange: () => this.#showChoice() });
    this.name = make("input", { "aria-label": "Name of the model", placeholder: "name of the model", hidden: true });
    this.offer = make("fieldset", { class: "offer" });
    this.prompt = make("textarea", { rows: "2", required: true, "aria-label": "Prompt", placeholder: "Ask something that needs a tool …", onkeydown: (event) => this.#onKey(event) });
    this.button = make("button", { class: "primary" }, "Send");
    this.stop = make("button", { type: "button", hidden: true, onclick: () => this.#running?.abort() }, "Stop");
    this.told = make("p", { class: "soft", role: "status", hidden: true });
    this.text = make("pre", { class: "text", tabindex: "0", "aria-label": "What the client received" });
    this.answer = make("details", { hidden: true }, make("summary", {}, "What the client received"), this.text);
    const form = make("form", { "aria-label": "Try it", onsubmit: (event) => { event.preventDefault(); this.#ask(); } },
      make("div", { class: "ask" }, this.prompt, make("div", { class: "row" }, this.button, this.stop)),
      make("div", { class: "row" }, this.model, this.name, this.offer),
      this.told, this.answer);
    this.element = make("details", { class: "try", open: true }, make("summary", {}, "Try it"), form);
    signal.addEventListener("abort", () => this.#running?.abort());
    this.load();
  }

  // Ask who can be asked. Whoever could before stays chosen.
  load() {
    this.#loading = this.#read();
  }

  async #read() {
    try {
      this.#offer(...await Promise.all([readJson("v1/models"), readJson("v1/tools")]));
      if (this.#unread) this.#tell("");
      this.#unread = false;
    } catch (error) {
      this.#unread = true;
      this.#tell(error.message, true);
    }
  }

  #offer(models, tools) {
    const offered = JSON.stringify([models, tools]);
    if (this.#offered === offered) return;
    this.#offered = offered;
    const before = this.model.value;
    this.#models = models.data;
    this.#any = models.wholecall?.any_model ?? null;
    this.#tools = tools.data;
    const names = this.#models.map((model) => make("option", { value: model.id }, model.id));
    if (this.#any) names.push(make("option", { value: OTHER }, "another model …"));
    this.model.replaceChildren(...names);
    if (names.some((name) => name.value === before)) this.model.value = before;
    if (!names.length) this.#tell("No model can be asked from here.", true);
    this.button.disabled = !names.length;
    this.#showChoice();
  }

  #way() {
    const model = this.#models.find((one) => one.id === this.model.value);
    return model ? model.wholecall : this.#any;
  }

  #showChoice() {
    this.name.hidden = this.model.value !== OTHER;
    const way = this.#way() ?? { mode: "gate", tools: [] };
    const runs = way.mode === "run";
    const offered = this.#tools.filter((tool) => !runs || way.tools.includes(tool.name));
    const boxes = offered.map((tool) => make("label", { title: tool.description },
      make("input", { type: "checkbox", value: tool.name, checked: runs }), make("code", {}, tool.name),
      tool.approve ? chip("asks first", "odd", "each call waits for approval") : null));
    const legend = runs ? "with the tools" : "with the tools (calls are checked and handed to the client; this page runs none)";
    this.offer.replaceChildren(make("legend", {}, boxes.length ? legend : "This proxy has no tools."), ...boxes);
  }

  #onKey(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); event.target.form.requestSubmit(); }
  }

  #write() {
    const chosen = [...this.offer.querySelectorAll("input:checked")].map((box) => box.value);
    const model = this.model.value === OTHER ? this.name.value.trim() : this.model.value;
    const body = { model, messages: [{ role: "user", content: this.prompt.value }], stream: true };
    const id = `try_${makeId()}`;
    const headers = { "content-type": "application/json", "x-request-id": id };
    if (this.#way()?.mode === "run") headers["x-wholecall-tools"] = chosen.join(",");
    else if (chosen.length) body.tools = this.#tools.filter((tool) => chosen.includes(tool.name)).map(define);
    return { id, headers, body: JSON.stringify(body) };
  }

  async #ask() {
    if (this.#running) return;
    const running = this.#running = new AbortController();
    this.text.textContent = "";
    this.stop.hidden = false;
    this.button.disabled = true;
    this.#tell("asked …");
    try {
      await this.#loading; // who is quick asks before it is known whom
      const { id, headers, body } = this.#write();
      this.onAsk(id);
      const response = await send("v1/chat/completions", { method: "POST", headers, body, signal: running.signal });
      if (!response.ok) throw new Error(await complain(response));
      this.answer.hidden = false;
      let failed = "";
      await readFrames(response.body, (payload) => { failed ||= this.#take(payload); });
      this.#tell(failed || "answered", Boolean(failed));
      setTimeout(() => this.#tellOfOthers(id), PATIENCE_MS);
    } catch (error) {
      this.#tell(running.signal.aborted ? "stopped" : error.message, !running.signal.aborted);
    } finally {
      this.#running = null;
      this.stop.hidden = true;
      this.button.disabled = false;
    }
  }

  // What a frame says; a failure that stands in it is returned.
  #take(payload) {
    if (payload === "[DONE]") return "";
    const chunk = JSON.parse(payload);
    const delta = chunk.choices?.[0]?.delta ?? {};
    const calls = (delta.tool_calls ?? []).map((call) => `${call.function?.name ? `\n→ ${call.function.name} ` : ""}${call.function?.arguments ?? ""}`);
    this.text.append([delta.content ?? "", ...calls].join(""));
    return chunk.error ? chunk.error.message ?? "the answer failed" : "";
  }

  #tellOfOthers(id) {
    if (this.#running || this.isSeen(id)) return;
    this.#tell("answered by another process of the proxy than this page shows: find the run under History");
  }

  #tell(words, bad = false) {
    this.told.className = bad ? "message" : "soft";
    this.told.textContent = words;
    this.told.hidden = !words;
  }
}

// `crypto.randomUUID` is there only where the page came encrypted or from this machine.
function makeId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function define({ name, description, parameters }) {
  return { type: "function", function: { name, description, parameters } };
}
