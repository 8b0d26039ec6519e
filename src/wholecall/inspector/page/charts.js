// Small charts: words, and bars as SVG. Each has its numbers below it as a table.

import { draw, empty, make, seconds, table } from "./dom.js";

const KINDS = ["released", "repaired", "rejected"];

// Bars of parts: [{label, value, parts: [{kind, value, text}]}], each as long as its share of `most`.
// The words are no part of the SVG: they would shrink with it.
export function drawBars(title, rows, most) {
  return make("div", { role: "img", "aria-label": title, class: "chart" }, rows.flatMap((row) => [
    make("p", {}, make("span", {}, row.label), make("span", { class: "value" }, row.value)),
    drawBar(row.parts, most),
  ]));
}

function drawBar(parts, most) {
  const bar = draw("svg", {}, draw("rect", { width: "100%", height: "100%", rx: 4, class: "ground" }));
  let left = 0;
  for (const part of parts.filter((one) => one.value > 0)) {
    const width = most ? Math.max((part.value / most) * 100, 0.5) : 0;
    bar.append(draw("rect", { x: `${left}%`, width: `${width}%`, height: "100%", rx: 4, class: part.kind },
      draw("title", {}, part.text)));
    left += width;
  }
  return bar;
}

function countBy(rows, name) {
  const counts = new Map();
  for (const row of rows) {
    const key = row[name] || "–";
    counts.set(key, (counts.get(key) ?? 0) + row.count);
  }
  return [...counts].sort((one, other) => other[1] - one[1]);
}

function figure(title, chart, { numbers, legend = [] }) {
  const keys = legend.map(([kind, text]) => make("span", { class: `key-${kind}` }, text));
  return make("figure", {}, make("figcaption", {}, title), keys.length ? make("p", { class: "legend" }, keys) : null,
    chart, make("details", {}, make("summary", {}, "Numbers"), numbers));
}

export function showFigures(figures) {
  const views = [showVerdicts(figures.calls), showReasons(figures.calls),
    showOddities(figures.oddities), showTools(figures.tools), showRuns(figures.runs)].filter(Boolean);
  if (!views.length) return [empty("No figures yet: they count the stored runs. Ask something under ", make("a", { href: "#/live" }, "Live"), ".")];
  return [make("div", { class: "figures" }, views)];
}

function showVerdicts(calls) {
  if (!calls.length) return null;
  const rows = countBy(calls, "model").map(([model, total]) => {
    const parts = KINDS.map((kind) => {
      const of = calls.filter((row) => (row.model || "–") === model && row.verdict === kind);
      const count = of.reduce((sum, row) => sum + row.count, 0);
      return { kind, value: count / total, text: `${kind}: ${count} of ${total}`, count };
    });
    return { label: model, parts, value: parts.map((part) => `${Math.round(part.value * 100)} %`).join(" · ") };
  });
  const numbers = table("Calls by model", ["model", ...KINDS], rows.map((row) => [row.label, ...row.parts.map((part) => String(part.count))]));
  return figure("Accepted, repaired, rejected", drawBars("Share of calls by verdict", rows, 1),
    { numbers, legend: [["released", "accepted"], ["repaired", "repaired"], ["rejected", "rejected"]] });
}

function simple(title, heads, { counts, kind }) {
  if (!counts.length) return null;
  const rows = counts.map(([label, value]) => ({ label, value: String(value), parts: [{ kind, value, text: `${label}: ${value}` }] }));
  const most = Math.max(...counts.map(([, value]) => value));
  const numbers = table(title, heads, counts.map(([label, value]) => [label, String(value)]));
  return figure(title, drawBars(title, rows, most), { numbers });
}

function showReasons(calls) {
  const rejected = calls.filter((row) => row.verdict === "rejected")
    .map((row) => ({ ...row, why: `${row.model || "–"}: ${row.reason}` }));
  return simple("Rejections by reason", ["model and reason", "calls"], { counts: countBy(rejected, "why"), kind: "rejected" });
}

function showOddities(oddities) {
  return simple("Inconsistencies", ["kind", "times"], { counts: oddities.map((row) => [row.kind, row.count]), kind: "odd" });
}

function showRuns(runs) {
  const named = runs.map((row) => ({ ...row, what: `${row.model || "–"}: ${row.fate || "–"}` }));
  return simple("Runs", ["model and end", "runs"], { counts: countBy(named, "what"), kind: "building" });
}

function showTools(tools) {
  if (!tools.length) return null;
  const rows = tools.map((tool) => ({
    label: tool.name,
    value: `${seconds(tool.median)} · ${seconds(tool.p95)}`,
    parts: [
      { kind: "running", value: tool.median, text: `median ${seconds(tool.median)}` },
      { kind: "waiting", value: tool.p95 - tool.median, text: `95 % within ${seconds(tool.p95)}` },
    ],
  }));
  const most = Math.max(...tools.map((tool) => tool.p95), 0.000001);
  const cells = tools.map((tool) => [tool.name, String(tool.count), String(tool.failed), seconds(tool.median), seconds(tool.p95), seconds(tool.longest)]);
  return figure("Tools: time to the result", drawBars("Time of tools", rows, most),
    { numbers: table("Time of tools", ["tool", "runs", "failed", "median", "95 %", "longest"], cells), legend: [["running", "median"], ["waiting", "95 %"]] });
}
