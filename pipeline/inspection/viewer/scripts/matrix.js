"use strict";
// The matrix: rows are queries, columns are keys; darker cells have more weight.

const CELL = 24;

function describe(shown, t, s) {
  return `${isolate(shown.rows[t])} ← ${isolate(shown.columns[s])}: ${shown.matrix[t][s].toFixed(4)}`;
}

// The cells of gold links, [row, column, sure]. Words that share a token have the number of the last one.
function goldCells(shown, gold) {
  const place = (words, wanted) => words.findIndex((word) => word !== null && word >= wanted);
  const cells = gold.map(([source, target, sure]) => [place(shown.rowWords, target), place(shown.columnWords, source), sure]);
  return cells.filter(([t, s]) => t >= 0 && s >= 0);
}

function drawMatrix(shown, gold, tell) {
  const left = labelWidth(shown.rows), top = labelWidth(shown.columns);
  const width = left + CELL * shown.columns.length + 10, height = top + CELL * shown.rows.length + 10;
  const svg = svgElement("svg", { width, height, role: "img", "aria-label": "Attention matrix; the table below lists it as text" });
  const cells = svgElement("g", { class: "cells" });
  shown.matrix.forEach((row, t) => {
    row.forEach((weight, s) => {
      const cell = svgElement("rect", {
        class: "cell", x: left + CELL * s, y: top + CELL * t, width: CELL - 1, height: CELL - 1,
        "fill-opacity": weight.toFixed(4), "data-row": t, "data-column": s, "data-weight": weight.toFixed(6),
        "pointer-events": "all",
      });
      cell.append(svgElement("title", {}, describe(shown, t, s)));
      cells.append(cell);
    });
  });
  cells.addEventListener("pointerover", ({ target }) => {
    if (target.dataset.row !== undefined) tell(describe(shown, target.dataset.row, target.dataset.column));
  });
  svg.append(cells);
  svg.append(svgElement("rect", { class: "frame", x: left - .5, y: top - .5, width: CELL * shown.columns.length, height: CELL * shown.rows.length }));
  for (const [t, s, sure] of goldCells(shown, gold)) {
    svg.append(svgElement("rect", {
      class: sure ? "gold" : "gold possible", x: left + CELL * s + 1.5, y: top + CELL * t + 1.5, width: CELL - 4, height: CELL - 4,
    }));
  }
  shown.rows.forEach((label, t) => {
    svg.append(svgElement("text", { x: left - 6, y: top + CELL * (t + .5) + 4, "text-anchor": "end" }, isolate(shorten(label))));
  });
  shown.columns.forEach((label, s) => {
    const x = left + CELL * (s + .5), y = top - 6;
    svg.append(svgElement("text", { x, y, transform: `rotate(-60 ${x} ${y})` }, isolate(shorten(label))));
  });
  return svg;
}
