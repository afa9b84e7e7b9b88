"use strict";
// The matrix: rows are queries, columns are keys, and darker cells have more weight. Its labels stay visible while it
// scrolls. Also the pinning of a word, and the table of the strongest weights as text.

function describe(shown, t, s) {
  return say("viewer.cell", { row: isolate(shown.rows[t]), column: isolate(shown.columns[s]), weight: shown.matrix[t][s] });
}

// Parses a pinned word, "r3" for row 3 or "c2" for column 2. Returns {axis, place}, null if there is no such word.
function readPin(pin, shown) {
  const match = /^([rc])(\d+)$/.exec(pin ?? "");
  if (!match) return null;
  const place = Number(match[2]), axis = match[1] === "r" ? "row" : "column";
  return place < (axis === "row" ? shown.rows : shown.columns).length ? { axis, place } : null;
}

const TOLD_LINKS = 4; // links in a description

// Returns a description of the strongest links of a word.
function describeLinks(shown, { axis, place }) {
  const row = axis === "row";
  const weights = row ? [...shown.matrix[place]] : shown.matrix.map((weights) => weights[place]);
  const labels = row ? shown.columns : shown.rows;
  const strongest = [...weights.keys()].sort((first, second) => weights[second] - weights[first]).slice(0, TOLD_LINKS);
  const links = strongest.filter((i) => weights[i] >= 0.005).map((i) => say("viewer.link", { word: isolate(labels[i]), weight: weights[i] }));
  const word = isolate((row ? shown.rows : shown.columns)[place]);
  return `${word} ${row ? "←" : "→"} ${links.join(" · ") || say("viewer.link.none")}`;
}

// Returns the cells of gold links, [row, column, sure]. A token of several words has the index of its last word.
function goldCells(shown, gold) {
  const place = (words, wanted) => words.findIndex((word) => word !== null && word >= wanted);
  const cells = gold.map(([source, target, sure]) => [place(shown.rowWords, target), place(shown.columnWords, source), sure]);
  return cells.filter(([t, s]) => t >= 0 && s >= 0);
}

const SMALLEST_CELL = 13, LARGEST_CELL = 44;

function cellSize(shown, { width, height }, { left, top }) {
  const wide = (width - left - 12) / Math.max(1, shown.columns.length);
  const high = Math.max((height - top - 12) / Math.max(1, shown.rows.length), 22);
  return Math.max(SMALLEST_CELL, Math.min(LARGEST_CELL, Math.floor(Math.min(wide, high))));
}

// Returns the picture of a matrix. `frame`: {width, height} of the available space. `axes`: {rows, columns}, the names
// of the axes. `pin`: the pinned word, {axis, place}. `tell(text)` shows a description of the cell or word under the
// pointer. `choose(pin)` is called with the word that the user pins. `table`: the table beside the picture, see
// `drawTable`; its row is marked with the row of the picture, and the other way round. `focus`: the prefix of the cells'
// names, see `keepPlace`.
function drawMatrix(shown, { gold, frame, axes, pin, table, tell, choose, focus }) {
  const margins = (size) => ({ // with space for marked labels, which are bold
    left: Math.ceil(Math.max(1.1 * widest(shown.rows, size), textWidth(`${axes.rows} ↓`, 11)) + 12),
    top: Math.ceil(Math.max(1.1 * widest(shown.columns, size) * 0.87, 26) + 16),
  });
  const cell = cellSize(shown, frame, margins(13)), size = Math.min(13, 0.8 * cell), { left, top } = margins(size);
  const spill = Math.max(8, textWidth(shorten(shown.columns.at(-1) ?? "")) * 0.5 - cell / 2 + 6);
  const wide = cell * shown.columns.length, high = cell * shown.rows.length;
  const part = (kind, width, height, attributes = {}) =>
    svgElement("svg", { class: kind, width, height, viewBox: `0 0 ${width} ${height}`, ...attributes });
  const corner = part("corner", left, top, { "aria-hidden": "true" });
  corner.append(
    svgElement("text", { class: "axis", x: left - 6, y: 15, "text-anchor": "end" }, `${axes.columns} →`),
    svgElement("text", { class: "axis", x: left - 6, y: top - 6, "text-anchor": "end" }, `${axes.rows} ↓`),
  );
  const columns = part("columns", wide + spill, top), rows = part("rows", left, high + 4);
  const columnLabels = shown.columns.map((label, s) => {
    const x = cell * (s + 0.5) + size * 0.3, y = top - 6;
    return svgElement("text", { x, y, transform: `rotate(-60 ${x} ${y})`, "data-column": s, "font-size": size }, isolate(shorten(label)));
  });
  const rowLabels = shown.rows.map((label, t) => {
    const place = { x: left - 6, y: cell * (t + 0.5) + size * 0.36 };
    return svgElement("text", { ...place, "text-anchor": "end", "data-row": t, "font-size": size }, isolate(shorten(label)));
  });
  columns.append(...columnLabels);
  rows.append(...rowLabels);
  const body = part("body", wide + spill, high + 4, { role: "grid", "aria-label": say("viewer.matrix") });
  const band = (width, height) => svgElement("rect", { class: "band", width, height });
  const bands = { row: band(wide, cell), column: band(cell, high) };
  body.append(bands.row, bands.column, ...drawCells(shown, cell, pin, focus));
  body.append(svgElement("rect", { class: "frame", x: 0.5, y: 0.5, width: wide - 1, height: high - 1 }));
  for (const [t, s, sure] of goldCells(shown, gold)) {
    const place = { x: cell * s + 1.5, y: cell * t + 1.5, width: cell - 4, height: cell - 4 };
    body.append(svgElement("rect", { class: sure ? "gold" : "gold possible", ...place, "data-row": t, "data-column": s }));
  }
  const picture = htmlElement("div", { class: "matrix" });
  picture.append(corner, columns, rows, body);
  listenToMatrix(picture, shown, { cell, bands, rowLabels, columnLabels, pin, table, tell, choose });
  return picture;
}

function drawCells(shown, cell, pin, focus) {
  return shown.matrix.map((weights, t) => {
    const row = svgElement("g", { role: "row", "aria-label": shown.rows[t] });
    row.append(...Array.from(weights, (weight, s) => {
      const dim = pin && (pin.axis === "row" ? pin.place !== t : pin.place !== s);
      return svgElement("rect", {
        class: dim ? "cell dim" : "cell", x: cell * s, y: cell * t, width: cell - 1, height: cell - 1,
        "fill-opacity": weight.toFixed(4), "data-row": t, "data-column": s, "data-weight": weight.toFixed(6),
        "data-focus": `${focus} ${t} ${s}`, role: "gridcell", "aria-label": describe(shown, t, s),
      });
    }));
    return row;
  });
}

function listenToMatrix(picture, shown, { cell, bands, rowLabels, columnLabels, pin, table, tell, choose }) {
  const cells = [...picture.querySelectorAll(".cell")], width = shown.columns.length;
  const mark = (t, s) => {
    rowLabels.forEach((label, i) => label.classList.toggle("marked", i === t));
    columnLabels.forEach((label, i) => label.classList.toggle("marked", i === s));
    bands.row.classList.toggle("shown", t !== null);
    bands.column.classList.toggle("shown", s !== null);
    picture.querySelector(".pointed")?.classList.remove("pointed");
    if (t !== null && s !== null) cells[t * width + s].classList.add("pointed");
    markRow(table, t);
    if (t !== null) bands.row.setAttribute("y", cell * t);
    if (s !== null) bands.column.setAttribute("x", cell * s);
  };
  const rest = () => {
    mark(pin?.axis === "row" ? pin.place : null, pin?.axis === "column" ? pin.place : null);
    tell(pin ? describeLinks(shown, pin) : "");
  };
  const placeOf = ({ target }) => target.closest("[data-row], [data-column]")?.dataset ?? {};
  const point = (event) => {
    const { row, column } = placeOf(event);
    if (row === undefined && column === undefined) return;
    const t = row === undefined ? null : Number(row), s = column === undefined ? null : Number(column);
    mark(t, s);
    if (t !== null && s !== null) tell(describe(shown, t, s));
    else tell(describeLinks(shown, t === null ? { axis: "column", place: s } : { axis: "row", place: t }));
  };
  picture.addEventListener("focusin", point);
  picture.addEventListener("focusout", rest);
  const pinned = pin && `${pin.axis[0]}${pin.place}`;
  const turn = (name) => choose(name === pinned ? null : name);
  for (const element of [picture, table]) {
    element.addEventListener("pointerover", point);
    element.addEventListener("pointerleave", rest);
    element.addEventListener("click", (event) => {
      const { row, column } = placeOf(event);
      if (row !== undefined) turn(`r${row}`);
      else if (column !== undefined) turn(`c${column}`);
    });
  }
  picture.addEventListener("keydown", (event) => {
    const { row, column } = event.target.dataset;
    if (row === undefined || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    turn(event.key === "Enter" ? `r${row}` : `c${column}`);
  });
  makeRoving(picture, cells, Math.max(1, width));
  rest();
}

const STEPS = 20;

// Returns the colour scale from weight 0 to weight 1.
function drawScale() {
  const width = 120, label = say("viewer.scale");
  const svg = svgElement("svg", { class: "scale", width: width + 16, height: 30, role: "img", "aria-label": label });
  for (let step = 0; step < STEPS; step++) {
    const x = 8 + (step * width) / STEPS;
    svg.append(svgElement("rect", { class: "cell", x, y: 2, width: width / STEPS + 0.3, height: 10, "fill-opacity": ((step + 0.5) / STEPS).toFixed(3) }));
  }
  svg.append(svgElement("rect", { class: "frame", x: 7.5, y: 1.5, width: width + 1, height: 11 }));
  for (const value of [0, 0.5, 1]) {
    svg.append(svgElement("text", { class: "axis", x: 8 + width * value, y: 26, "text-anchor": "middle" }, value === 0.5 ? say("viewer.scale.weight") : String(value)));
  }
  return svg;
}

// Returns the legend of gold links: framed cells in a matrix, or lines.
function drawGoldKey(lines) {
  const key = htmlElement("span", { class: "key" });
  key.append(htmlElement("span", { title: say("viewer.gold.title") }, say("viewer.gold")));
  for (const kind of ["sure", "possible"]) {
    const swatch = svgElement("svg", { class: "swatch", width: 26, height: 14, "aria-hidden": "true" });
    const look = { class: kind === "sure" ? "gold" : "gold possible" };
    if (lines) swatch.append(svgElement("line", { ...look, x1: 1, y1: 7, x2: 25, y2: 7 }));
    else swatch.append(svgElement("rect", { ...look, x: 7, y: 1, width: 12, height: 12 }));
    const item = htmlElement("span");
    item.append(swatch, say(`viewer.gold.${kind}`));
    key.append(item);
  }
  return key;
}

// Marks the row `t` of a table of `drawTable`; null marks none.
function markRow(table, t) {
  for (const line of table.querySelectorAll("[data-row]")) line.classList.toggle("marked", line.dataset.row === String(t));
}

// Returns a table of the largest weight of each row. `probabilities`: the log-probabilities of the tokens, null if
// unknown.
function drawTable(shown, probabilities, caption) {
  const table = htmlElement("table");
  if (caption) table.append(htmlElement("caption", {}, caption));
  const head = htmlElement("tr");
  for (const [name, kind] of [["word", ""], ["most", ""], ["weight", "number"], ["probability", "number"]]) {
    if (name !== "probability" || probabilities) head.append(htmlElement("th", { scope: "col", class: kind }, say(`viewer.table.${name}`)));
  }
  table.append(head);
  shown.matrix.forEach((row, t) => {
    let best = 0;
    row.forEach((weight, s) => { if (weight > row[best]) best = s; });
    const line = htmlElement("tr", { "data-row": t, "data-column": row.length ? best : null });
    for (const word of [shown.rows[t], row.length ? shown.columns[best] : ""]) line.append(htmlElement("td", { dir: "auto" }, word));
    line.append(htmlElement("td", { class: "number" }, row.length ? sayNumber(row[best], 2) : ""));
    if (probabilities) line.append(htmlElement("td", { class: "number" }, sayNumber(Math.exp(probabilities[t]), 2)));
    table.append(line);
  });
  return table;
}
