// JSON that is still being written, laid out as far as it has come.
//
// The text is never parsed to values: a number of twenty digits must keep them. It is cut into
// tokens, and whatever is not closed yet is marked as open.

import { make } from "./dom.js";

export const MOST_SHOWN = 20000;
export const END_SHOWN = 2000;
const CLOSERS = { "{": "}", "[": "]" };
const WORD = /[^\s{}[\],:"]+/y;
const STRING = /"(?:[^"\\]|\\(?:[^]|$))*("?)/y;

// Lines of tokens, and the closers that are still to come, innermost first.
export function layOut(text) {
  const lines = [{ depth: 0, tokens: [] }];
  const stack = [];
  let place = 0;
  let isKey = false;
  const put = (kind, piece) => lines[lines.length - 1].tokens.push({ kind, text: piece });
  const breakLine = () => {
    if (lines.at(-1).tokens.length) lines.push({ depth: stack.length, tokens: [] });
    else lines.at(-1).depth = stack.length;
  };
  let openString = false;
  while (place < text.length) {
    const character = text[place];
    if (/\s/.test(character)) { place += 1; continue; }
    if (character in CLOSERS) {
      put("mark", character);
      stack.push(CLOSERS[character]);
      isKey = character === "{";
      place += 1;
      const rest = text.slice(place).match(/^\s*[\]}]/);
      if (!rest) breakLine();
    } else if (character === "}" || character === "]") {
      const wasEmpty = lines[lines.length - 1].tokens.at(-1)?.text in CLOSERS;
      stack.pop();
      if (!wasEmpty) breakLine();
      put("mark", character);
      isKey = false;
      place += 1;
    } else if (character === ",") {
      put("mark", ",");
      breakLine();
      isKey = stack.at(-1) === "}";
      place += 1;
    } else if (character === ":") {
      put("mark", ": ");
      isKey = false;
      place += 1;
    } else if (character === '"') {
      STRING.lastIndex = place;
      const found = STRING.exec(text);
      openString = found[1] === "";
      const kind = isKey ? "key" : "string";
      put(openString ? `${kind} open` : kind, found[0]);
      place += found[0].length;
    } else {
      WORD.lastIndex = place;
      const piece = WORD.exec(text)?.[0] ?? character;
      const isLast = place + piece.length === text.length && stack.length > 0;
      put(isLast ? "word open" : "word", piece);
      place += piece.length;
    }
  }
  const missing = [...(openString ? ['"'] : []), ...stack.reverse()];
  return { lines, missing };
}

export function showJson(text, options = {}) {
  return fillJson(make("pre", { class: "json", tabindex: "0" }), text, options);
}

// Of a text that is too long to lay out, the end is shown as it is: there it grows.
export function fillJson(view, text, { isOpen = false, label = "Arguments" } = {}) {
  const isLong = text.length > MOST_SHOWN;
  const { lines, missing } = layOut(isLong ? text.slice(0, MOST_SHOWN - END_SHOWN) : text);
  view.replaceChildren();
  view.setAttribute("aria-label", label);
  lines.forEach((line, number) => {
    if (number) view.append("\n");
    view.append("  ".repeat(line.depth));
    for (const token of line.tokens) view.append(make("span", { class: token.kind }, token.text));
  });
  if (isLong) {
    const leftOut = make("span", { class: "left-out" }, `⟨${text.length - MOST_SHOWN} characters are not shown⟩`);
    view.append("\n", leftOut, "\n", text.slice(-END_SHOWN));
  }
  if (isOpen) view.append(make("span", { class: "caret", "aria-hidden": "true" }, "▍"));
  if (isOpen && !isLong) view.append(make("span", { class: "ghost", "aria-hidden": "true" }, missing.join(" ")));
  else if (!isOpen && !isLong && missing.length) {
    const title = "what was never written";
    view.append(make("span", { class: "cut", title }, ` ⟨cut: ${missing.join(" ")} missing⟩`));
  }
  return view;
}
