"use strict";
// Lines between words: sources on the left, targets on the right; thicker lines have more weight.

const LEAST_LINE = 0.02, ROW = 24, COLOURS = 8;

// The class of a head's colour; from the ninth head on lines are dashed too.
function headClass(head) {
  return `head-${head % COLOURS}${head >= COLOURS ? ` dash-${Math.floor(head / COLOURS) % 3}` : ""}`;
}

// `strands`: [{matrix, kind, name}], one for each head that is drawn, with the class of its lines and the name that is
// told; the others as of `drawMatrix`.
function drawLines(shown, { strands, gold, frame, axes, pin, tell, choose, focus }) {
  const left = Math.max(widest(shown.columns), textWidth(`${axes.columns} →`)) + 18, right = Math.max(widest(shown.rows), textWidth(axes.rows)) + 14;
  const gap = Math.max(120, Math.min(440, frame.width - left - right - 16)), top = 22;
  const count = Math.max(shown.rows.length, shown.columns.length);
  const width = left + gap + right, height = top + ROW * count + 6;
  const svg = svgElement("svg", { class: "lines", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Lines of attention; the table lists the strongest as text" });
  const y = (place, among) => top + ROW * (place + 0.5 + (count - among) / 2);
  const ends = (t, s) => ({ x1: left + 4, y1: y(s, shown.columns.length), x2: left + gap - 4, y2: y(t, shown.rows.length) });
  const lines = [];
  const line = (t, s, attributes) => {
    lines.push(svgElement("line", { ...ends(t, s), "data-row": t, "data-column": s, ...attributes }));
    return lines.at(-1);
  };
  for (const [t, s, sure] of goldCells(shown, gold)) line(t, s, { class: sure ? "gold" : "gold possible" });
  strands.forEach(({ matrix, kind, name }, strand) => {
    const shift = (strand - (strands.length - 1) / 2) * Math.min(2.4, 14 / strands.length);
    matrix.forEach((row, t) => row.forEach((weight, s) => {
      if (weight < LEAST_LINE) return;
      const drawn = line(t, s, {
        class: `link ${kind}`, "stroke-width": (0.5 + (strands.length > 1 ? 3 : 4) * weight).toFixed(2), "stroke-opacity": (0.15 + 0.85 * weight).toFixed(3),
        transform: shift ? `translate(0 ${shift.toFixed(1)})` : null, "data-strand": strand,
      });
      drawn.addEventListener("pointerover", () => tell(`${describe({ ...shown, matrix }, t, s)}${name ? `, ${name}` : ""}`));
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
  listenToLines(svg, shown, { words, lines, pin, tell, choose });
  return svg;
}

function listenToLines(svg, shown, { words, lines, pin, tell, choose }) {
  const only = (one) => {
    for (const line of lines) line.classList.toggle("dim", one !== null && line.dataset[one.axis] !== String(one.place));
    for (const word of words) word.classList.toggle("marked", one !== null && word.dataset.axis === one.axis && word.dataset.place === String(one.place));
    if (one) tell(describeLinks(shown, one));
  };
  const rest = () => {
    only(pin);
    if (!pin) tell("");
  };
  const wordAt = ({ target }) => {
    const word = target.closest?.(".word");
    return word ? { axis: word.dataset.axis, place: Number(word.dataset.place) } : null;
  };
  const point = (event) => wordAt(event) && only(wordAt(event));
  const turn = ({ axis, place }) => choose(pin?.axis === axis && pin.place === place ? null : `${axis[0]}${place}`);
  for (const name of ["pointerover", "focusin"]) svg.addEventListener(name, point);
  for (const name of ["pointerout", "focusout"]) svg.addEventListener(name, rest);
  svg.addEventListener("click", (event) => wordAt(event) && turn(wordAt(event)));
  svg.addEventListener("keydown", (event) => {
    if (!wordAt(event) || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    turn(wordAt(event));
  });
  makeRoving(svg, words, 1);
  rest();
}
