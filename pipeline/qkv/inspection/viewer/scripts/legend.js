"use strict";
// Legends: how dark, how thick, and which colour is which head.

const STEPS = 20;

// From no weight to all of it.
function drawScale() {
  const width = 120, svg = svgElement("svg", { class: "scale", width: width + 16, height: 30, role: "img", "aria-label": "Colour scale: white is weight 0, the darkest is weight 1" });
  for (let step = 0; step < STEPS; step++) {
    const x = 8 + (step * width) / STEPS;
    svg.append(svgElement("rect", { class: "cell", x, y: 2, width: width / STEPS + 0.3, height: 10, "fill-opacity": ((step + 0.5) / STEPS).toFixed(3) }));
  }
  svg.append(svgElement("rect", { class: "frame", x: 7.5, y: 1.5, width: width + 1, height: 11 }));
  for (const value of [0, 0.5, 1]) {
    svg.append(svgElement("text", { class: "axis", x: 8 + width * value, y: 26, "text-anchor": "middle" }, value === 0.5 ? "weight" : String(value)));
  }
  return svg;
}

// Lines of three weights.
function drawThickness() {
  const svg = svgElement("svg", { class: "scale", width: 136, height: 30, role: "img", "aria-label": "Thicker lines have more weight; below 0.02 none is drawn" });
  [0.1, 0.5, 1].forEach((weight, i) => {
    const x = 8 + 44 * i;
    svg.append(svgElement("line", { class: "link", x1: x, x2: x + 32, y1: 7, y2: 7, "stroke-width": 0.5 + 4 * weight, "stroke-opacity": 0.15 + 0.85 * weight }));
    svg.append(svgElement("text", { class: "axis", x: x + 16, y: 26, "text-anchor": "middle" }, String(weight)));
  });
  return svg;
}

// A button for each head: pointing at it shows its lines alone, a click opens it. `picture` has the lines.
function drawHeadColours(heads, picture, open) {
  const legend = htmlElement("div", { class: "colours", role: "group", "aria-label": "Colours of the heads" });
  for (let head = 0; head < heads; head++) {
    const button = htmlElement("button", { type: "button", title: `Show head ${head} alone`, "data-focus": `colour ${head}` });
    const swatch = svgElement("svg", { width: 22, height: 10, "aria-hidden": "true" });
    swatch.append(svgElement("line", { class: `link ${headClass(head)}`, x1: 1, x2: 21, y1: 5, y2: 5, "stroke-width": 3 }));
    button.append(swatch, `head ${head}`);
    const only = (strand) => {
      for (const line of picture.querySelectorAll("[data-strand]")) line.classList.toggle("faint", strand !== null && line.dataset.strand !== String(strand));
    };
    for (const name of ["pointerenter", "focus"]) button.addEventListener(name, () => only(head));
    for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => only(null));
    button.addEventListener("click", () => open(head));
    legend.append(button);
  }
  return legend;
}
