// What the page reads from the proxy, with a key where one is needed.

const API = "inspector/api";
const AGAIN_MS = 1000;

function headers() {
  const key = sessionStorage.getItem("wholecall-key");
  return key ? { authorization: `Bearer ${key}` } : {};
}

let asking = null;

function askForKey() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("login");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("wholecall-key", document.getElementById("key").value.trim());
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

async function ask(path, options = {}) {
  for (;;) {
    const response = await fetch(`${API}/${path}`, { ...options, headers: headers() });
    if (response.status !== 401) return response;
    await askForKey();
  }
}

export async function read(path) {
  const response = await ask(path);
  const body = await response.json();
  if (!response.ok) throw new Error(body.error?.message ?? `status ${response.status}`);
  return body;
}

export async function download(path, name) {
  const response = await ask(path);
  if (!response.ok) throw new Error((await response.json()).error?.message ?? "it failed");
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

// Events until `signal` aborts. An EventSource could not send a key.
export async function listen({ onMessage, onState, signal }) {
  while (!signal.aborted) {
    try {
      const response = await ask("live", { signal });
      if (!response.ok) throw new Error(`status ${response.status}`);
      onState("connected");
      await readStream(response.body, onMessage);
    } catch (error) {
      if (signal.aborted) return;
    }
    onState("disconnected");
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function readStream(body, onMessage) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      if (frame.startsWith("data: ")) onMessage(JSON.parse(frame.slice(6)));
    }
  }
}
