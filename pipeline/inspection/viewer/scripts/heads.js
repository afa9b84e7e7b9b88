"use strict";
// The heads of a site as a grid of small pictures: a row for each layer, its mean first.

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

// `matrixOf(layer, head)` and `choose(layer, head)` take "mean" as a head too; `decorate(button, {layer, head})` may
// give a button more classes and actions.
function drawHeads({ layers, heads, chosen, matrixOf, choose, decorate }) {
  const grid = htmlElement("div", { class: "heads", role: "group", "aria-label": "Layers and heads" });
  grid.style.gridTemplateColumns = `auto repeat(${heads + 1}, auto)`;
  for (let layer = 0; layer < layers; layer++) {
    grid.append(htmlElement("span", {}, `layer ${layer}`));
    for (const head of ["mean", ...Array(heads).keys()]) {
      const name = `layer ${layer}, ${head === "mean" ? "mean" : `head ${head}`}`;
      const pressed = layer === chosen.layer && head === chosen.head;
      const button = htmlElement("button", { type: "button", title: name, "aria-label": name, "aria-pressed": String(pressed) });
      const canvas = htmlElement("canvas");
      drawThumbnail(canvas, matrixOf(layer, head));
      button.append(canvas);
      button.addEventListener("click", () => choose(layer, head));
      decorate(button, { layer, head });
      grid.append(button);
    }
  }
  return grid;
}
