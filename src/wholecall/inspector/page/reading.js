// What the page asks the proxy, with a key where one is needed. Paths are seen from the place
// of the page, and nothing but this proxy is ever asked.

const API = "inspector/api";
const AGAIN_MS = 1000;
const KEY = "wholecall-key";
const forget = document.getElementById("forget");

function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? { authorization: `Bearer ${key}` } : {};
}

function keep(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
  forget.hidden = !key;
}

forget.hidden = !sessionStorage.getItem(KEY);
forget.addEventListener("click", () => { keep(""); location.reload(); });

document.getElementById("cancel").addEventListener("click", () => document.getElementById("login").close(""));

let asking = null;
let refusal = null;
const closed = new Set();

// Who wants to enter no key is not asked again until the page is loaded anew.
export class NoKey extends Error {}

// Nobody answers, or not to the end. Browsers have words of their own for it, which say less.
export class Unreachable extends Error {}

function unreachable(words) {
  return (error) => { throw error instanceof TypeError ? new Unreachable(words) : error; };
}

async function askForKey(why) {
  if (refusal) throw refusal;
  asking ??= new Promise((resolve, reject) => {
    const dialog = document.getElementById("login");
    const field = document.getElementById("key");
    document.getElementById("login-why").textContent = why;
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      asking = null;
      if (dialog.returnValue !== "go") {
        refusal = new NoKey("This page needs a key. Reload it to enter one.");
        reject(refusal);
        return;
      }
      keep(field.value.trim());
      field.value = "";
      resolve();
    }, { once: true });
    dialog.showModal();
    field.focus();
  });
  return asking;
}

// Any request to the proxy. A key that is missing or not good is asked for. What needs one that
// nobody wants to enter is not sent again: the page asks for some things every second.
export async function send(path, options = {}) {
  if (closed.has(path)) throw refusal;
  for (;;) {
    const sent = headers();
    const asked = { ...options, headers: { ...options.headers, ...sent }, redirect: "error" };
    const response = await fetch(path, asked).catch(unreachable("The proxy cannot be reached."));
    if (response.status !== 401) return response;
    try {
      await askForKey(sent.authorization ? (await complain(response)) : "");
    } catch (error) {
      closed.add(path);
      throw error;
    }
  }
}

export async function complain(response) {
  try {
    const body = await response.json();
    return body.error?.message ?? `status ${response.status}`;
  } catch {
    return `status ${response.status}`;
  }
}

export async function readJson(path) {
  const response = await send(path);
  if (!response.ok) throw new Error(await complain(response));
  return response.json();
}

export const read = (path) => readJson(`${API}/${path}`);

export async function post(path, body) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await send(`${API}/${path}`, options);
  if (!response.ok) throw new Error(await complain(response));
  return response.json();
}

export async function download(path, name) {
  const response = await send(`${API}/${path}`);
  if (!response.ok) throw new Error(await complain(response));
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

// Events until `signal` aborts. An EventSource could not send a key. If what came cannot be taken
// the stream begins anew, and with it come all runs that are under way.
export async function listen({ onMessage, onState, signal }) {
  while (!signal.aborted) {
    try {
      const response = await send(`${API}/live`, { signal });
      if (!response.ok) throw new Error(await complain(response));
      onState("connected");
      await readFrames(response.body, (payload) => onMessage(JSON.parse(payload)));
      onState("disconnected");
    } catch (error) {
      if (signal.aborted) return;
      onState(error instanceof Unreachable ? "disconnected" : error.message);
    }
    await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
  }
}

// The payloads of a stream of server-sent events.
export async function readFrames(body, onPayload) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(unreachable("The connection to the proxy was lost."));
      if (done) return;
      const frames = (rest + value).split("\n\n");
      rest = frames.pop();
      for (const frame of frames) {
        const lines = frame.split("\n").filter((line) => line.startsWith("data: "));
        if (lines.length) onPayload(lines.map((line) => line.slice(6)).join("\n"));
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // it may be over already
  }
}
