"use strict";
// The section that shows where queries, keys and values come from: the three sites of a Transformer with matrices of
// the reader's sentence, Bahdanau's recurrent decoder, and the additive score.

const SITE_CARDS = ["encoder", "decoder", "cross"];
const CELL = 24; // pixels of a cell of a matrix

// Draws the section. Its state: `encoderHead`, `decoderHead`, `crossHead`, each as "layer.head".
function drawSites(page, root) {
  const cards = htmlElement("div", { class: "site-list" }), draws = SITE_CARDS.map((site) => drawSiteCard(page, cards, site));
  cards.append(
    drawnCard("recurrent", drawRecurrent()),
    drawnCard("additive", drawAdditive()));
  root.append(mathElement("p", {}, say("explain.sites.text")), cards);
  const draw = () => draws.forEach((drawCard) => drawCard());
  page.subscribe((changes) => {
    if ("sentence" in changes || SITE_CARDS.some((site) => `${site}Head` in changes)) draw();
  });
  draw();
}

function card(name) {
  const box = htmlElement("article", { class: "site", "data-site": name });
  box.append(htmlElement("h3", {}, say(`explain.sites.${name}.title`)));
  return box;
}

// Returns a card with a picture that does not depend on the sentence.
function drawnCard(name, picture) {
  const box = card(name);
  box.append(picture, mathElement("p", {}, say(`explain.sites.${name}.text`)));
  return box;
}

// Appends the card of a site. Returns a function that draws its matrix again.
function drawSiteCard(page, cards, site) {
  const box = card(site), settings = page.model.settings, key = `${site}Head`;
  const model = settings.sites[MODEL_SITES[site]], layers = site === "encoder" ? settings.encoder_layers : settings.decoder_layers;
  const select = htmlElement("select", { name: key }), matrix = htmlElement("div", { class: "matrix-box", tabindex: 0, role: "group", "aria-label": say("explain.sites.matrix") });
  const shapes = htmlElement("p", { class: "shapes" });
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < model.heads; head++) {
      select.append(htmlElement("option", { value: `${layer}.${head}` }, say("explain.sites.head", { layer: String(layer), head: String(head) })));
    }
  }
  select.addEventListener("change", () => page.set({ [key]: select.value }));
  const label = htmlElement("label", {}, say("explain.sites.choose"));
  label.append(select);
  box.append(drawSite(site), mathElement("p", {}, say(`explain.sites.${site}.text`)), shapes, label, matrix);
  cards.append(box);
  return () => {
    const named = page.state[key];
    select.value = [...select.options].some(({ value }) => value === named) ? named : select.options[0].value;
    const [layer, head] = select.value.split(".").map(Number), facts = readMatrix(page, site, layer, head);
    shapes.replaceChildren(...shapeParts(facts.rows.length, facts.columns.length, model.size));
    const { source, target } = page.facts.languages;
    matrix.replaceChildren(drawMatrix({ ...facts, rowLanguage: site === "encoder" ? source : target, columnLanguage: site === "decoder" ? target : source }, site === "decoder"));
  };
}

// Returns the words of the matrix's shapes: queries, keys and values in their colours.
function shapeParts(T, S, size) {
  const part = (kind, text) => htmlElement("span", { class: `is-${kind}` }, text);
  return [part("query", `Q ${T} × ${size}`), " · ", part("key", `K ${S} × ${size}`), " · ", part("value", `V ${S} × ${size}`),
    " · ", say("explain.sites.shape", { rows: String(T), columns: String(S) })];
}

// Returns { rows, columns, weights } of a head in the sentence of the page: the tokens that ask, the tokens that are asked,
// and the weights as rows. A row of the cross-attention is named after the token that it writes.
function readMatrix(page, site, layer, head) {
  const { source, target } = page.answer, read = ["<s>", ...target.pieces.slice(0, -1)];
  const rows = { encoder: source.pieces, decoder: read, cross: target.pieces }[site];
  return { rows, columns: site === "decoder" ? read : source.pieces, weights: page.weights(MODEL_SITES[site], layer, head) };
}

// Returns the picture of a matrix of weights. If `masked`, the cells above the diagonal are barred: a row must not see
// what comes after it.
function drawMatrix({ rows, columns, weights, rowLanguage, columnLanguage }, masked) {
  const left = widest(rows.map(shortToken)) + 12, slope = widest(columns.map(shortToken)), top = slope * Math.sin(Math.PI / 3) + 14;
  const width = left + columns.length * CELL + Math.max(0, slope / 2 - CELL / 2) + 6, height = top + rows.length * CELL + 1;
  const best = rows.map((_, t) => {
    const most = Math.max(...weights[t]);
    return say("explain.sites.row", { row: tokenText(rows[t]), column: tokenText(columns[weights[t].indexOf(most)]), weight: formatNumber(most) });
  });
  const svg = svgElement("svg", { class: "matrix", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": best.join(" ") });
  columns.forEach((token, s) => {
    const x = left + (s + 0.5) * CELL;
    svg.append(svgElement("text", { class: "is-key token", lang: columnLanguage, transform: `translate(${x + 4} ${top - 6}) rotate(-60)` }, shortToken(token)));
  });
  rows.forEach((token, t) => {
    const y = top + t * CELL;
    svg.append(svgElement("text", { class: "is-query token", lang: rowLanguage, x: left - 7, y: y + CELL / 2 + 4, "text-anchor": "end" }, shortToken(token)));
    columns.forEach((column, s) => {
      const x = left + s * CELL, weight = weights[t][s], barred = masked && s > t;
      const cell = svgElement("rect", { class: barred ? "cell barred" : "cell", x: x + 1, y: y + 1, width: CELL - 2, height: CELL - 2, "fill-opacity": barred ? null : weight.toFixed(3) });
      cell.append(svgElement("title", {}, barred
        ? say("explain.sites.barred", { row: tokenText(token), column: tokenText(column) })
        : `${tokenText(token)} → ${tokenText(column)} ${formatNumber(weight)}`));
      svg.append(cell);
      if (barred) svg.append(svgElement("path", { class: "bars", d: `M${x + 5} ${y + CELL - 5}L${x + CELL - 5} ${y + 5}` }));
    });
  });
  return svg;
}

const shortToken = (token) => isolate(tokenText(token).length > 11 ? `${tokenText(token).slice(0, 10)}…` : tokenText(token));

// Helpers of pictures: a box, a circle and an arrow, each with words.

function pictureBox(x, y, width, height, label, kind = "") {
  const group = svgElement("g", { class: `box ${kind}` });
  group.append(svgElement("rect", { x, y, width, height, rx: 6 }), mathText(x + width / 2, y + height / 2 + 4.5, label));
  return group;
}

function pictureCircle(x, y, label) {
  const group = svgElement("g", { class: "box" });
  group.append(svgElement("circle", { cx: x, cy: y, r: 13 }), mathText(x, y + 4.5, label));
  return group;
}

// Returns an arrow; its label stands beside its middle, `shift` pixels to the right.
function pictureArrow(from, to, kind, label = "", shift = 10) {
  const group = svgElement("g", { class: `flow is-${kind}` }), [x1, y1] = from, [x2, y2] = to, length = Math.hypot(x2 - x1, y2 - y1);
  const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length], back = [x2 - 7 * dx, y2 - 7 * dy];
  group.append(
    svgElement("path", { class: "line", d: `M${x1} ${y1}L${back[0]} ${back[1]}` }),
    svgElement("path", { class: "tip", d: `M${x2} ${y2}L${back[0] - 4 * dy} ${back[1] + 4 * dx}L${back[0] + 4 * dy} ${back[1] - 4 * dx}Z` }));
  if (label) group.append(mathText((x1 + x2) / 2 + shift, (y1 + y2) / 2 + 4, label));
  return group;
}

function picture(width, height, label, parts) {
  const svg = svgElement("svg", { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  svg.append(...parts);
  return svg;
}

// Returns the picture of a site: who asks, who is asked, and what comes out.
function drawSite(site) {
  const asks = say(`explain.sites.${site}.asks`), asked = site === "cross" ? say("explain.sites.cross.asked") : asks;
  const top = [pictureBox(70, 8, 160, 30, "softmax(Q Kᵀ / √d_k) V")];
  const boxes = site === "cross"
    ? [pictureBox(6, 96, 136, 32, asks), pictureBox(158, 96, 136, 32, asked)]
    : [pictureBox(50, 96, 200, 32, asks)];
  const [q, k, v] = site === "cross" ? [74, 200, 250] : [95, 150, 205];
  const ends = [105, 150, 195];
  return picture(300, 134, say("explain.sites.drawing", { asks, asked }), [
    ...top, ...boxes,
    pictureArrow([q, 96], [ends[0], 39], "query", "W_Q", -18),
    pictureArrow([k, 96], [ends[1], 39], "key", "W_K", site === "cross" ? -16 : 15),
    pictureArrow([v, 96], [ends[2], 39], "value", "W_V", 18),
  ]);
}

// Returns the picture of one step of Bahdanau's decoder.
function drawRecurrent() {
  const parts = [], weights = [0.1, 0.15, 0.65, 0.1], sum = [150, 78];
  weights.forEach((weight, j) => {
    const x = 28 + j * 66;
    parts.push(pictureBox(x, 138, 44, 28, `h_${j + 1}`, "of-memory"));
    const arrow = pictureArrow([x + 22, 138], [sum[0] + (x + 22 - sum[0]) * 0.17, sum[1] + 13], "value", `α_(i${j + 1})`, j < 2 ? -16 : 16);
    arrow.querySelector(".line").setAttribute("stroke-width", (1 + 5 * weight).toFixed(1));
    parts.push(arrow);
  });
  parts.push(
    pictureCircle(...sum, "Σ"),
    pictureBox(20, 14, 62, 28, "s_(i-1)", "of-query"), pictureBox(200, 14, 62, 28, "s_i"),
    pictureArrow([82, 28], [199, 28], "plain"),
    pictureArrow([161, 70], [205, 43], "plain", "c_i", 14),
    pictureArrow([46, 42], [46, 104], "query", "q", -11));
  parts.push(svgElement("path", { class: "asking", d: "M46 104H252" }));
  return picture(300, 172, say("explain.sites.recurrent.drawing"), parts);
}

// Returns the picture of the additive score of one query and one key.
function drawAdditive() {
  return picture(300, 172, say("explain.sites.additive.drawing"), [
    pictureBox(12, 136, 60, 28, "s_(i-1)", "of-query"), pictureBox(116, 136, 60, 28, "h_j", "of-memory"),
    pictureArrow([42, 136], [42, 108], "query"), pictureArrow([146, 136], [146, 108], "key"),
    pictureBox(12, 80, 60, 28, "W_q s_(i-1)", "of-query"), pictureBox(116, 80, 60, 28, "W_k h_j", "of-memory"),
    pictureArrow([60, 80], [86, 50], "query"), pictureArrow([128, 80], [103, 50], "key"),
    pictureCircle(94, 38, "+"),
    pictureArrow([107, 38], [136, 38], "plain"), pictureBox(136, 24, 54, 28, "tanh"),
    pictureArrow([190, 38], [216, 38], "plain"), pictureBox(216, 24, 40, 28, "v ·"),
    pictureArrow([236, 52], [236, 80], "plain"), pictureBox(216, 80, 40, 28, "e_ij"),
  ]);
}

const SUBSCRIPT = /_(\([^)]*\)|\p{L}+|\d+)/u;

// Returns the parts of a text with subscripts: [text, isSubscript]. "W_Q" has the subscript Q, "s_(i-1)" has i-1.
function splitMath(text) {
  return text.split(SUBSCRIPT).map((part, place) => [place % 2 ? part.replace(/^\(|\)$/g, "") : part, place % 2 === 1]).filter(([part]) => part);
}

// Returns an element of HTML with words in which matrices and vectors are named.
function mathElement(name, attributes, text) {
  const element = htmlElement(name, attributes);
  element.append(...mathNodes(text));
  return element;
}

// Returns a centred text of SVG that may have subscripts.
function mathText(x, y, text) {
  const element = svgElement("text", { x, y, "text-anchor": "middle" });
  let low = false;
  for (const [part, isSubscript] of splitMath(text)) {
    element.append(svgElement("tspan", { class: isSubscript ? "sub" : null, dy: isSubscript === low ? null : isSubscript ? 3 : -3 }, part));
    low = isSubscript;
  }
  return element;
}
