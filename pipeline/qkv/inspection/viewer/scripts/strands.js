"use strict";
// Lines between words: keys on the left, queries on the right. Thicker lines have more weight. Also the legends.

const LEAST_LINE = 0.02, ROW = 24;

// Returns the attributes of a head's lines: one of HEAD_COLOURS colours, and dashes when all colours have been used.
function headLook(head) {
  const colour = head % HEAD_COLOURS, dashes = Math.floor(head / HEAD_COLOURS) % 3;
  return { class: `link head-${colour}${head < HEAD_COLOURS ? "" : ` dash-${dashes}`}`, style: `--strand: var(--head-${colour})` };
}

// Returns a picture of lines. `strands`: [{matrix, look, name}], the weights of each drawn head, the attributes of its
// lines, and its name in descriptions. For the other options see `drawMatrix`.
function drawLines(shown, { strands, gold, frame, axes, pin, table, tell, choose, focus }) {
  const left = Math.max(widest(shown.columns), textWidth(`${axes.columns} →`)) + 18, right = Math.max(widest(shown.rows), textWidth(axes.rows)) + 14;
  const gap = Math.max(120, Math.min(440, frame.width - left - right - 16)), top = 22;
  const count = Math.max(shown.rows.length, shown.columns.length);
  const width = left + gap + right, height = top + ROW * count + 6;
  const svg = svgElement("svg", {
    class: "lines", width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": say("viewer.lines"),
  });
  const y = (place, among) => top + ROW * (place + 0.5 + (count - among) / 2);
  const ends = (t, s) => ({ x1: left + 4, y1: y(s, shown.columns.length), x2: left + gap - 4, y2: y(t, shown.rows.length) });
  const lines = [];
  const line = (t, s, attributes) => {
    lines.push(svgElement("line", { ...ends(t, s), "data-row": t, "data-column": s, ...attributes }));
    return lines.at(-1);
  };
  for (const [t, s, sure] of goldCells(shown, gold)) line(t, s, { class: sure ? "gold" : "gold possible" });
  strands.forEach(({ matrix, look, name }, strand) => {
    const shift = (strand - (strands.length - 1) / 2) * Math.min(2.4, 14 / strands.length);
    matrix.forEach((row, t) => row.forEach((weight, s) => {
      if (weight < LEAST_LINE) return;
      const drawn = line(t, s, {
        ...look, "stroke-width": (0.5 + (strands.length > 1 ? 3 : 4) * weight).toFixed(2), "stroke-opacity": (0.15 + 0.85 * weight).toFixed(3),
        transform: shift ? `translate(0 ${shift.toFixed(1)})` : null, "data-strand": strand,
      });
      drawn.addEventListener("pointerover", () => {
        const cell = describe({ ...shown, matrix }, t, s);
        tell(name ? say("viewer.cell.head", { cell, head: name }) : cell);
        markRow(table, t);
      });
    }));
  });
  svg.append(...lines);
  svg.append(
    svgElement("text", { class: "axis", x: left - 4, y: 13, "text-anchor": "end" }, `${axes.columns} →`),
    svgElement("text", { class: "axis", x: left + gap + 4, y: 13 }, axes.rows),
  );
  const word = (axis, label, place) => {
    const row = axis === "row", among = row ? shown.rows.length : shown.columns.length;
    const at = { x: row ? left + gap + 4 : left - 4, y: y(place, among) + 4, "text-anchor": row ? "start" : "end" };
    const names = { role: "button", "aria-pressed": String(pin?.axis === axis && pin.place === place), "data-focus": `${focus} ${axis} ${place}` };
    return svgElement("text", { ...at, class: "word", "data-axis": axis, "data-place": place, ...names }, isolate(shorten(label)));
  };
  const words = [...shown.columns.map((label, s) => word("column", label, s)), ...shown.rows.map((label, t) => word("row", label, t))];
  svg.append(...words);
  listenToLines(svg, shown, { words, lines, pin, table, tell, choose });
  return svg;
}

function listenToLines(svg, shown, { words, lines, pin, table, tell, choose }) {
  const only = (chosen) => {
    for (const line of lines) line.classList.toggle("dim", chosen !== null && line.dataset[chosen.axis] !== String(chosen.place));
    for (const word of words) word.classList.toggle("marked", chosen !== null && word.dataset.axis === chosen.axis && word.dataset.place === String(chosen.place));
    markRow(table, chosen?.axis === "row" ? chosen.place : null);
    if (chosen) tell(describeLinks(shown, chosen));
  };
  const rest = () => {
    only(pin);
    if (!pin) tell("");
  };
  const wordAt = ({ target }) => {
    const word = target.closest(".word, tr[data-row]")?.dataset;
    return word ? { axis: word.axis ?? "row", place: Number(word.place ?? word.row) } : null;
  };
  const point = (event) => wordAt(event) && only(wordAt(event));
  const turn = ({ axis, place }) => choose(pin?.axis === axis && pin.place === place ? null : `${axis[0]}${place}`);
  svg.addEventListener("focusin", point);
  svg.addEventListener("focusout", rest);
  for (const element of [svg, table]) {
    element.addEventListener("pointerover", point);
    element.addEventListener("pointerout", rest);
    element.addEventListener("click", (event) => wordAt(event) && turn(wordAt(event)));
  }
  svg.addEventListener("keydown", (event) => {
    if (!wordAt(event) || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    turn(wordAt(event));
  });
  makeRoving(svg, words, 1);
  rest();
}

// Returns the legend of the lines: lines of three weights.
function drawThickness() {
  const svg = svgElement("svg", { class: "scale", width: 136, height: 30, role: "img", "aria-label": say("viewer.thickness", { least: LEAST_LINE }) });
  [0.1, 0.5, 1].forEach((weight, i) => {
    const x = 8 + 44 * i;
    const look = { "stroke-width": 0.5 + 4 * weight, "stroke-opacity": 0.15 + 0.85 * weight };
    svg.append(svgElement("line", { class: "link", x1: x, x2: x + 32, y1: 7, y2: 7, ...look }));
    svg.append(svgElement("text", { class: "axis", x: x + 16, y: 26, "text-anchor": "middle" }, sayNumber(weight)));
  });
  return svg;
}

// Returns a button for each head. Pointing at it highlights the head's lines in `picture`; a click calls `open(head)`.
function drawHeadColours(heads, picture, open) {
  const legend = htmlElement("div", { class: "colours", role: "group", "aria-label": say("viewer.colours") });
  for (let head = 0; head < heads; head++) {
    const attributes = { title: say("viewer.colours.title", { head }), "data-focus": `colour ${head}` };
    const button = makeButton(null, attributes, () => open(head));
    const swatch = svgElement("svg", { width: 22, height: 10, "aria-hidden": "true" });
    swatch.append(svgElement("line", { ...headLook(head), x1: 1, x2: 21, y1: 5, y2: 5, "stroke-width": 3 }));
    button.append(swatch, nameOfHead(head));
    const only = (strand) => {
      for (const line of picture.querySelectorAll("[data-strand]")) line.classList.toggle("faint", strand !== null && line.dataset.strand !== String(strand));
    };
    for (const name of ["pointerenter", "focus"]) button.addEventListener(name, () => only(head));
    for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => only(null));
    legend.append(button);
  }
  return legend;
}
