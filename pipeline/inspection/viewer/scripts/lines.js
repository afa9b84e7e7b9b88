"use strict";
// Lines between words.

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
