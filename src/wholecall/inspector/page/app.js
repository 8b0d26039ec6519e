// The page: three views, chosen by what stands behind the # of its address.

import { startApprovals } from "./approvals.js";
import { showFigures } from "./charts.js";
import { make } from "./dom.js";
import { showDurable } from "./durable.js";
import { LiveView } from "./live.js";
import { showRun, showRuns } from "./looking.js";
import { read, Unreachable } from "./reading.js";

const main = document.getElementById("main");
const state = document.getElementById("state");
const AGAIN_MS = 3000;
let leave = new AbortController();

const VIEWS = {
  live: (signal) => main.replaceChildren(new LiveView(signal, state).element),
  runs: (signal, { id, asked }) => (id ? showRun(signal, { main, id }) : showRuns(signal, { main, asked })),
  durable: (signal, { asked }) => showDurable(signal, { main, asked }),
  figures: async () => main.replaceChildren(...showFigures(await read("figures"))),
};

function readAddress() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const [, view, id] = path.split("/");
  return { view: Object.hasOwn(VIEWS, view ?? "") ? view : "live", id: id && decodeURIComponent(id), asked: new URLSearchParams(query) };
}

async function go() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  state.textContent = "";
  delete state.dataset.state;
  document.title = "Wholecall inspector";
  try {
    const { view, ...rest } = readAddress();
    for (const link of document.querySelectorAll("nav a")) {
      if (link.hash === `#/${view}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    await VIEWS[view](signal, rest);
  } catch (error) {
    if (!signal.aborted) complain(error, signal);
  }
}

// Where nobody answered, somebody may a little later: after a restart, say.
function complain(error, signal) {
  const isAway = error instanceof Unreachable;
  const words = isAway ? `${error.message} This page tries again every few seconds.` : error.message;
  main.replaceChildren(make("p", { class: "message", role: "alert" }, words));
  if (isAway) setTimeout(() => { if (!signal.aborted) go(); }, AGAIN_MS);
}

// Another view begins at its top, and whoever followed a link of the last one goes on in it.
async function change() {
  scrollTo(0, 0);
  await go();
  if (document.activeElement === document.body) main.focus({ preventScroll: true });
}

// The link to the content is no view.
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", change);
go();
startApprovals();
