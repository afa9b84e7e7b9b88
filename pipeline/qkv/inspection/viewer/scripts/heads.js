"use strict";
// The heads of a site as a grid of small pictures: a row for each layer, its mean first.
//
// Where sentences have gold links, the page opens with the head that agrees best with them: the one of the lowest
// alignment error rate (Och and Ney 2003), if each target word is linked to the source word that it attends to most.
//
// Elsewhere it opens with the head whose rows differ most, because such a head tells most. Its rows attend to few keys
// each, and to different keys. A head that always attends to the full stop tells nothing, nor does one that attends to
// all keys. The measure is the generalised Jensen-Shannon divergence of the rows (Lin 1991): the entropy of their mean,
// minus the mean of their entropies. It is 0 if all rows are equal, and log S if each row attends to another one of S
// keys.

// Returns the colour of weight 1 as [red, green, blue]. It is the caret colour of `#runs`, which browsers resolve in
// every colour mode.
function inkColour() {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = getComputedStyle(document.getElementById("runs")).caretColor;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
}

function drawThumbnail(canvas, matrix, [red, green, blue]) {
  canvas.width = matrix[0]?.length || 1;
  canvas.height = matrix.length || 1;
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  matrix.forEach((row, t) => row.forEach((weight, s) => image.data.set([red, green, blue, 255 * weight], 4 * (t * canvas.width + s))));
  context.putImageData(image, 0, 0);
}

const nameOfHead = (head) => (head === "mean" ? say("viewer.head.mean") : say("viewer.head", { head }));

// Returns the type of a head, {type, share}, null if it has none; see `describe_types` in head_types.py.
function typeOfHead(run, site, layer, head) {
  return run.types?.[`${site}/${layer}/${head}`] ?? null;
}

function describeType({ type, share }) {
  const words = { type: say(`viewer.type.${type}`), meaning: say(`viewer.type.${type}.meaning`) };
  return say("viewer.type.described", { ...words, share: Math.round(100 * share) });
}

const LABELLED_SIZE = 36; // the smallest picture, in pixels, that has its type as a label below it

// Returns a grid of small pictures of heads, which are buttons. In the functions, a head is an index or "mean":
//   matrixOf(layer, head)             the weights of a picture
//   typeOf(layer, head)               the result of `typeOfHead`
//   choose(layer, head)               is called when the user chooses a head
//   decorate(button, {layer, head})   is called with each button, and may add classes and listeners
// `chosen`: the shown head, {layer, head}. `large`: whether the pictures fill the width. `focus`: the prefix of the
// buttons' names, see `keepPlace`.
function drawHeads({ layers, heads, chosen, matrixOf, typeOf, choose, decorate, large = false, focus }) {
  const grid = htmlElement("div", { class: large ? "heads large" : "heads", role: "group", "aria-label": say("viewer.heads") });
  const names = ["mean", ...Array(heads).keys()], ink = inkColour(), buttons = [];
  grid.style.setProperty("--columns", names.length);
  const size = Math.max(26, Math.min(64, Math.floor(216 / layers), Math.floor(900 / names.length)));
  grid.style.setProperty("--thumbnail", `${size}px`);
  const caption = (head) => (large || size >= 44 || head === "mean" ? nameOfHead(head) : String(head));
  grid.append(htmlElement("span"), ...names.map((head) => htmlElement("span", { class: "column" }, caption(head))));
  for (let layer = 0; layer < layers; layer++) {
    grid.append(htmlElement("span", { class: "layer" }, say("viewer.layer", { layer })));
    for (const head of names) {
      const type = typeOf(layer, head), pressed = layer === chosen.layer && head === chosen.head;
      const name = [say("viewer.layer", { layer }), nameOfHead(head), ...(type ? [describeType(type)] : [])].join(", ");
      const button = makeButton(null, {
        title: name, "aria-label": name, "aria-pressed": String(pressed), "data-focus": `${focus} ${layer} ${head}`,
      }, () => choose(layer, head));
      const canvas = htmlElement("canvas");
      drawThumbnail(canvas, matrixOf(layer, head), ink);
      canvas.classList.toggle("fine", Math.max(canvas.width, canvas.height) > 40);
      const label = (text, kind = null) => button.append(htmlElement("span", { class: kind, "aria-hidden": "true" }, text));
      button.append(canvas);
      if (large) label(head === "mean" ? say("viewer.head.short.mean", { layer }) : say("viewer.head.short", { layer, head }));
      if (type && (large || size >= LABELLED_SIZE)) label(say(large ? `viewer.type.${type.type}` : `viewer.type.${type.type}.short`), "type");
      decorate(button, { layer, head });
      buttons.push(button);
      grid.append(button);
    }
  }
  makeRoving(grid, buttons, names.length, Math.max(0, buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true")));
  return grid;
}

const MEASURED_SENTENCES = 50, MEASURED_WEIGHTS = 5e6; // of a site; for large models the second limit leaves fewer sentences

function entropy(shares) {
  let sum = 0;
  for (const share of shares) if (share > 0) sum -= share * Math.log(share);
  return sum;
}

// Returns the Jensen-Shannon divergence of the rows of a matrix. Rows are scaled to a sum of 1; rows of zeros are left
// out.
function divergenceOfRows(matrix) {
  const rows = matrix.map((row) => [row, row.reduce((sum, weight) => sum + weight, 0)]).filter(([, total]) => total > 0);
  if (!rows.length) return 0;
  const mean = new Float64Array(matrix[0].length);
  let within = 0;
  for (const [row, total] of rows) {
    const shares = row.map((weight) => weight / total);
    shares.forEach((share, s) => { mean[s] += share / rows.length; });
    within += entropy(shares) / rows.length;
  }
  return entropy(mean) - within;
}

// Returns {layer, head} of the head with which the page opens at a site, null without sentences: of a run's first
// sentences, see the top of this file. `side`: the kind of target tokens that label the rows.
function firstHead(store, index, site, side) {
  const run = store.runs[index], [layers, heads] = run?.sites[site] ?? [0, 0];
  let weights = 0;
  const first = (run?.sentences ?? []).slice(0, MEASURED_SENTENCES).filter(({ source, target }, i) => {
    weights += layers * heads * source.length * target.length;
    return i === 0 || weights < MEASURED_WEIGHTS;
  });
  const linked = store.sites[site]?.aligns ? first.filter(({ gold }) => gold.length) : [];
  const cost = (layer, head) =>
    linked.length ? errorRate(store, index, site, side, layer, head, linked) : -divergence(store, index, site, layer, head, first);
  const places = Array.from({ length: layers * heads }, (_, place) => ({ layer: Math.floor(place / heads), head: place % heads }));
  const costs = places.map(({ layer, head }) => (first.length ? cost(layer, head) : 0));
  return first.length ? (places[costs.indexOf(Math.min(...costs))] ?? null) : null;
}

// Returns the mean divergence of the rows of a head over sentences, weighted by their numbers of rows.
function divergence(store, index, site, layer, head, sentences) {
  let total = 0, rows = 0;
  for (const { id } of sentences) {
    const matrix = store.matrix(index, id, site, layer, head);
    total += divergenceOfRows(matrix) * matrix.length;
    rows += matrix.length;
  }
  return total / rows;
}

// Returns the alignment error rate of a head over sentences with gold links, from 0 to 1.
function errorRate(store, index, site, side, layer, head, sentences) {
  const { axes } = store.sites[site], run = store.runs[index];
  let links = 0, sure = 0, right = 0; // right links count once as possible and once more as sure
  for (const sentence of sentences) {
    const texts = { rows: wordsOf(run, sentence, axes[0]), columns: wordsOf(run, sentence, axes[1]) };
    const matrix = store.matrix(index, sentence.id, site, layer, head);
    const shown = present(matrix, tokensOf(sentence, axes, side), texts, { words: true, hideEos: true });
    const gold = goldCells(shown, sentence.gold);
    shown.matrix.forEach((row, t) => {
      if (!row.length) return;
      const most = row.indexOf(Math.max(...row)), hit = gold.find(([target, source]) => target === t && source === most);
      links += 1;
      if (hit) right += hit[2] ? 2 : 1;
    });
    sure += gold.filter(([, , isSure]) => isSure).length;
  }
  return 1 - right / Math.max(1, links + sure);
}
