"use strict";
// Drawing: the matrix, lines between words, thumbnails, and the table. Text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";
const CELL = 24;

function svgElement(name, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

function htmlElement(name, attributes = {}, text = null) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

function labelWidth(labels) {
  return 14 + 8 * Math.min(24, Math.max(1, ...labels.map((label) => [...label].length)));
}

function shorten(label) {
  const characters = [...label];
  return characters.length > 24 ? characters.slice(0, 23).join("") + "…" : label;
}

// Keeps the letters and punctuation of a word that is written from right to left apart from the text around it.
function isolate(label) {
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(label) ? `\u2068${label}\u2069` : label;
}

function describe(shown, t, s) {
  return `${isolate(shown.rows[t])} ← ${isolate(shown.columns[s])}: ${shown.matrix[t][s].toFixed(4)}`;
}

// The cells of gold links, [row, column, sure]. Words that share a token have the number of the last one.
function goldCells(shown, gold) {
  const place = (words, wanted) => words.findIndex((word) => word !== null && word >= wanted);
  const cells = gold.map(([source, target, sure]) => [place(shown.rowWords, target), place(shown.columnWords, source), sure]);
  return cells.filter(([t, s]) => t >= 0 && s >= 0);
}

// Rows are targets, columns are sources; darker cells have more weight.
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

// Sources on the left, targets on the right; thicker lines have more weight. Pointing at a word shows only its lines.
function drawLines(shown, gold, tell) {
  const left = labelWidth(shown.columns), right = labelWidth(shown.rows), gap = 220;
  const rows = Math.max(shown.rows.length, shown.columns.length);
  const svg = svgElement("svg", { width: left + gap + right, height: CELL * rows + 10, role: "img", "aria-label": "Lines of attention; the table below lists it as text" });
  const y = (place) => CELL * (place + .5) + 4;
  const lines = [], cells = goldCells(shown, gold);
  shown.matrix.forEach((row, t) => {
    row.forEach((weight, s) => {
      if (weight < .02) return;
      const marked = cells.some(([row, column]) => row === t && column === s);
      const line = svgElement("line", {
        class: marked ? "link gold" : "link", x1: left + 4, y1: y(s), x2: left + gap - 4, y2: y(t),
        "stroke-width": (.5 + 4 * weight).toFixed(2), "stroke-opacity": (.15 + .85 * weight).toFixed(3),
        "data-row": t, "data-column": s,
      });
      line.append(svgElement("title", {}, describe(shown, t, s)));
      line.addEventListener("pointerover", () => tell(describe(shown, t, s)));
      lines.push(line);
      svg.append(line);
    });
  });
  const only = (key, place) => lines.forEach((line) => line.classList.toggle("dim", place !== null && line.dataset[key] !== String(place)));
  const word = (label, x, anchor, key, place) => {
    const text = svgElement("text", { x, y: y(place) + 4, "text-anchor": anchor }, isolate(shorten(label)));
    text.addEventListener("pointerover", () => only(key, place));
    text.addEventListener("pointerout", () => only(key, null));
    svg.append(text);
  };
  shown.columns.forEach((label, s) => word(label, left - 4, "end", "column", s));
  shown.rows.forEach((label, t) => word(label, left + gap + 4, "start", "row", t));
  return svg;
}

function drawThumbnail(canvas, matrix) {
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  canvas.width = matrix[0]?.length || 1;
  canvas.height = matrix.length || 1;
  const context = canvas.getContext("2d");
  context.fillStyle = ink;
  matrix.forEach((row, t) => row.forEach((weight, s) => {
    context.globalAlpha = weight;
    context.fillRect(s, t, 1, 1);
  }));
}

// Lists for each row the column with the largest weight.
function drawTable(shown, probabilities) {
  const table = htmlElement("table");
  const head = htmlElement("tr");
  for (const [text, kind] of [["word", ""], ["most attended word", ""], ["weight", "number"], ["probability", "number"]]) {
    if (text !== "probability" || probabilities) head.append(htmlElement("th", { scope: "col", class: kind }, text));
  }
  table.append(head);
  shown.matrix.forEach((row, t) => {
    let best = 0;
    row.forEach((weight, s) => { if (weight > row[best]) best = s; });
    const line = htmlElement("tr");
    for (const word of [shown.rows[t], row.length ? shown.columns[best] : ""]) line.append(htmlElement("td", { dir: "auto" }, word));
    line.append(htmlElement("td", { class: "number" }, row.length ? row[best].toFixed(4) : ""));
    if (probabilities) line.append(htmlElement("td", { class: "number" }, Math.exp(probabilities[t]).toFixed(3)));
    table.append(line);
  });
  return table;
}
