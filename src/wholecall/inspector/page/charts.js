// Small charts, drawn as SVG. Each has its numbers beside it as a table.

import { draw, make, seconds, table } from "./dom.js";

const WIDTH = 480;
const ROW = 22;
const KINDS = ["released", "repaired", "rejected"];

// Bars of parts: [{label, parts: [{kind, value, text}]}], each as long as its share of `most`.
export function drawBars(title, rows, most) {
  const height = rows.length * ROW;
  const chart = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": title, class: "chart" });
  rows.forEach((row, number) => {
    let left = 0;
    for (const part of row.parts) {
      const width = most ? (part.value / most) * WIDTH : 0;
      const bar = draw("rect", { x: left, y: number * ROW + 3, width, height: ROW - 6, class: part.kind });
      bar.append(draw("title", {}, part.text));
      chart.append(bar);
      left += width;
    }
    chart.append(draw("text", { x: 4, y: number * ROW + 15 }, row.label));
  });
  return chart;
}

function countBy(rows, name) {
  const counts = new Map();
  for (const row of rows) {
    const key = row[name] || "–";
    counts.set(key, (counts.get(key) ?? 0) + row.count);
  }
  return [...counts].sort((one, other) => other[1] - one[1]);
}

function figure(title, chart, numbers) {
  return make("figure", {}, make("figcaption", {}, title), chart, numbers);
}

export function showFigures(figures) {
  const views = [showVerdicts(figures.calls), showReasons(figures.calls),
    showOddities(figures.oddities), showTools(figures.tools), showRuns(figures.runs)];
  return views.filter(Boolean);
}

function showVerdicts(calls) {
  if (!calls.length) return make("p", {}, "No call was kept yet.");
  const models = countBy(calls, "model");
  const rows = models.map(([model, total]) => ({
    label: model,
    parts: KINDS.map((kind) => {
      const of = calls.filter((row) => (row.model || "–") === model && row.verdict === kind);
      const value = of.reduce((sum, row) => sum + row.count, 0);
      return { kind, value: value / total, text: `${kind}: ${value} of ${total}`, count: value };
    }),
  }));
  const numbers = table("Calls by model", ["model", ...KINDS], rows.map((row) => [row.label, ...row.parts.map((part) => String(part.count))]));
  return figure("Accepted, repaired, rejected", drawBars("Share of calls by verdict", rows, 1), numbers);
}

function simple(title, heads, counts, kind) {
  if (!counts.length) return null;
  const rows = counts.map(([label, value]) => ({ label, parts: [{ kind, value, text: `${label}: ${value}` }] }));
  const most = Math.max(...counts.map(([, value]) => value));
  return figure(title, drawBars(title, rows, most), table(title, heads, counts.map(([label, value]) => [label, String(value)])));
}

function showReasons(calls) {
  const rejected = calls.filter((row) => row.verdict === "rejected")
    .map((row) => ({ ...row, why: `${row.model || "–"}: ${row.reason}` }));
  return simple("Rejections by reason", ["model and reason", "calls"], countBy(rejected, "why"), "rejected");
}

function showOddities(oddities) {
  return simple("Inconsistencies", ["kind", "times"], oddities.map((row) => [row.kind, row.count]), "odd");
}

function showRuns(runs) {
  const named = runs.map((row) => ({ ...row, what: `${row.model || "–"}: ${row.fate || "–"}` }));
  return simple("Runs", ["model and end", "runs"], countBy(named, "what"), "released");
}

function showTools(tools) {
  if (!tools.length) return null;
  const rows = tools.map((tool) => ({
    label: tool.name,
    parts: [
      { kind: "building", value: tool.median, text: `median ${seconds(tool.median)}` },
      { kind: "waiting", value: tool.p95 - tool.median, text: `95 % within ${seconds(tool.p95)}` },
    ],
  }));
  const most = Math.max(...tools.map((tool) => tool.p95), 0.000001);
  const cells = tools.map((tool) => [tool.name, String(tool.count), String(tool.failed), seconds(tool.median), seconds(tool.p95), seconds(tool.longest)]);
  return figure("Tools: time to the result", drawBars("Time of tools", rows, most),
    table("Time of tools", ["tool", "runs", "failed", "median", "95 %", "longest"], cells));
}
