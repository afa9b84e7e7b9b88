"use strict";
// Pointing and pinning: what is said about a cell, and about the links of a word.

function describe(shown, t, s) {
  return `${isolate(shown.rows[t])} ← ${isolate(shown.columns[s])}: ${shown.matrix[t][s].toFixed(4)}`;
}

// A pinned word is "r3", of row 3, or "c2", of column 2; null where nothing is pinned or the place is not there.
function readPin(pin, shown) {
  const found = /^([rc])(\d+)$/.exec(pin ?? "");
  if (!found) return null;
  const place = Number(found[2]), axis = found[1] === "r" ? "row" : "column";
  return place < (axis === "row" ? shown.rows : shown.columns).length ? { axis, place } : null;
}

const TOLD_LINKS = 4;

// The strongest links of a word, as text.
function describeLinks(shown, { axis, place }) {
  const row = axis === "row";
  const weights = row ? [...shown.matrix[place]] : shown.matrix.map((weights) => weights[place]);
  const others = row ? shown.columns : shown.rows;
  const strongest = [...weights.keys()].sort((one, other) => weights[other] - weights[one]).slice(0, TOLD_LINKS);
  const links = strongest.filter((i) => weights[i] >= 0.005).map((i) => `${isolate(others[i])} ${weights[i].toFixed(2)}`);
  const word = isolate((row ? shown.rows : shown.columns)[place]);
  return `${word} ${row ? "←" : "→"} ${links.join(" · ") || "nothing"}`;
}

// The cells of gold links, [row, column, sure]. Words that share a token have the number of the last one.
function goldCells(shown, gold) {
  const place = (words, wanted) => words.findIndex((word) => word !== null && word >= wanted);
  const cells = gold.map(([source, target, sure]) => [place(shown.rowWords, target), place(shown.columnWords, source), sure]);
  return cells.filter(([t, s]) => t >= 0 && s >= 0);
}
