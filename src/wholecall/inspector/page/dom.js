// Elements, made without markup: what a model wrote can only ever become text.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Put elements in this order and take out all others. What stays is not touched, so that
// whoever is in the midst of it with the keyboard stays there.
export function arrange(parent, children) {
  children.forEach((child, place) => {
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

export function chip(text, kind = "", title = undefined) {
  return make("span", { class: `chip ${kind}`, title }, text);
}

// A text in one line, and no longer than somebody reads in passing.
export function brief(text, most = 120) {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > most ? `${line.slice(0, most)} …` : line;
}

// A message in place of a list that is empty, and what to do about it.
export function empty(...words) {
  return make("p", { class: "empty" }, words);
}

// The addresses that clients of this proxy are given.
export function writeAddresses() {
  const place = location.href.replace(/\/inspector.*/, "");
  return make("code", {}, `OPENAI_BASE_URL=${place}/v1\nANTHROPIC_BASE_URL=${place}`);
}

export function counted(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

// What did not go well with the calls of a run: "1 rejected", "2 skipped".
export function countStatuses({ rejected, statuses }) {
  const counts = { ...(rejected ? { rejected } : {}), ...statuses };
  return Object.entries(counts).map(([word, count]) => `${count} ${word.replace("_", " ")}`);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  return value < 1 ? `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms` : `${value.toFixed(2)} s`;
}

export function table(caption, heads, rows) {
  const head = make("tr", {}, heads.map((text) => make("th", { scope: "col" }, text)));
  // On a narrow screen a row is a card, and each cell carries the head of its column.
  const body = rows.map((cells) => make("tr", {}, cells.map((cell, place) => make("td", { "data-head": heads[place] || null }, cell))));
  return make(
    "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, body)),
  );
}
