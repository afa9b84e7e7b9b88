"use strict";
// The section `steps`: the reader's own sentence, and one row of attention in it, from the state that asks to the next
// word. Every number is the model's. A result that is pointed at shows the products that add up to it.

function drawSteps(page, root) {
  const chooser = htmlElement("div", { class: "chooser" }), steps = htmlElement("ol", { class: "steps" }), aside = htmlElement("aside", { "aria-label": say("explain.steps.matrix") });
  const layout = htmlElement("div", { class: "beside" });
  layout.append(steps, aside);
  root.append(htmlElement("p", { class: "lead" }, say("explain.steps.lead")), drawForm(page), chooser, layout);
  const draw = () => keepPlace(root, () => {
    chooser.replaceChildren(...drawChooser(page));
    steps.replaceChildren(...[drawState, drawQuery, drawKeys, drawComparison, drawValues, drawContext, drawSum, drawNext].map((drawStep) => drawStep(page)));
    aside.replaceChildren(...drawMatrixOf(page));
  });
  draw();
  page.subscribe(draw);
}

// Returns the form in which the reader types a sentence.
function drawForm(page) {
  const form = htmlElement("form", { class: "ask" }), { examples, languages } = page.facts;
  const input = htmlElement("input", { name: "sentence", type: "text", lang: languages.source, dir: "auto", maxlength: 500, autocomplete: "off", spellcheck: "false" });
  const select = htmlElement("select", { name: "example" }), status = htmlElement("p", { "data-part": "status", role: "status", class: "warning" });
  select.append(htmlElement("option", { value: "" }, say("explain.steps.choose")), ...examples.map((text) => htmlElement("option", { value: text, lang: languages.source }, text)));
  input.value = page.state.sentence;
  form.append(
    labelled(say("explain.steps.sentence"), input), htmlElement("button", { type: "submit", class: "main" }, say("explain.steps.translate")),
    labelled(say("explain.steps.example"), select), status,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    page.set({ sentence: input.value });
  });
  select.addEventListener("change", () => {
    if (select.value) page.set({ sentence: select.value });
    select.value = "";
  });
  page.subscribe((changes) => { if ("sentence" in changes) input.value = page.state.sentence; });
  return form;
}

// Returns the choice of a row, of an attention, a layer and a head, and the sentence that says who asks whom.
function drawChooser(page) {
  const { site, layer, head, row } = page.chosen, { facts, answer } = page, side = site === "encoder_self" ? "source" : "target";
  const rows = drawChoices(answer[side].pieces.map((piece) => ({ content: [drawToken(page, piece, side)], label: tokenText(piece) })), {
    label: say(`explain.steps.row.${site}`), chosen: row, choose: (place) => page.set({ row: place, key: null }), focus: "row", className: "tokens", width: Infinity,
  });
  const line = htmlElement("div", { class: "line" });
  line.append(htmlElement("span", { class: "quiet" }, say(`explain.steps.row.${site}`)), rows);
  const where = htmlElement("div", { class: "line where" });
  const select = (name, options, value, label) => {
    const element = htmlElement("select", { name, "data-focus": `select ${name}` });
    element.append(...optionsOf(options));
    element.value = value;
    element.addEventListener("change", () => page.set(name === "site" ? { site: element.value, layer: null, head: null, row: null, key: null } : { [name]: element.value, key: null }));
    where.append(labelled(label, element));
  };
  select("site", Object.keys(facts.layers).map((name) => [name, say(`explain.site.${name}`)]), site, say("explain.steps.site"));
  if (facts.layers[site] > 1) select("layer", [...Array(facts.layers[site]).keys()].map((place) => [place, place]), layer, say("explain.steps.layer"));
  where.append(drawHeads(page, head));
  const who = htmlElement("p", { class: "who" }), { asks, predicts } = page.sides();
  who.append(...saidWith(`explain.steps.who.${site}`, {
    asks: drawToken(page, asks.piece, asks.side, { class: "token query" }), predicts: predicts ? drawToken(page, predicts.piece, "target") : "",
  }));
  return [line, where, who];
}

// Returns the choice of a head, with a small picture of the weights of each.
function drawHeads(page, chosen) {
  const { site, layer } = page.chosen, box = htmlElement("span", { class: "line" });
  const items = Array.from({ length: page.facts.heads }, (_, head) => ({ content: [drawSmall(page.weights(site, layer, head)), String(head)], label: say("explain.steps.head", { head: String(head) }) }));
  box.append(htmlElement("span", {}, say("explain.steps.heads")), drawChoices(items, {
    label: say("explain.steps.heads"), chosen, choose: (head) => page.set({ head, key: null }), focus: "head", className: "pictures", width: Infinity,
  }));
  return box;
}

// Returns a small picture of weights, without text.
function drawSmall(weights) {
  const svg = svgElement("svg", { viewBox: `0 0 ${weights[0].length} ${weights.length}`, preserveAspectRatio: "none", "aria-hidden": "true", class: "small" });
  weights.forEach((line, r) => line.forEach((weight, c) => {
    if (weight > .02) svg.append(svgElement("rect", { x: c, y: r, width: 1, height: 1, "fill-opacity": weight.toFixed(2) }));
  }));
  return svg;
}

// Returns the matrix of the head, with the row that is followed.
function drawMatrixOf(page) {
  const { site, layer, head, row, key } = page.chosen, { source, target } = page.answer;
  const sourceTokens = source.pieces.map((piece) => ({ piece, side: "source" })), targetTokens = target.pieces.map((piece) => ({ piece, side: "target" }));
  const rows = site === "encoder_self" ? sourceTokens : targetTokens;
  const columns = site === "decoder_self" ? page.sides({ site, row: targetTokens.length - 1 }).keys : sourceTokens;
  return [
    htmlElement("h3", {}, say("explain.steps.matrix")),
    drawWeights(page, page.weights(site, layer, head), {
      rows, columns, row, column: key, label: say("explain.steps.matrix"), choose: (r, c) => page.set({ row: r, key: site === "decoder_self" ? Math.min(r, c) : c }),
    }),
    htmlElement("p", { class: "quiet" }, say(`explain.steps.matrix.${site}`)),
  ];
}

// Returns a step: its heading, its formula, one sentence, and its pictures.
function makeStep(name, formula, values, ...parts) {
  const step = htmlElement("li", { class: "step", "data-step": name }), heading = htmlElement("h3", {}, say(`explain.steps.${name}`));
  if (formula) heading.append(" ", drawExpression(formula));
  step.append(heading, drawText(say(`explain.steps.${name}.text`, values)), ...parts.filter(Boolean));
  return step;
}

// Returns a formula in which the names of queries, keys and values have their colours.
function drawExpression(text) {
  const code = htmlElement("code"), roles = { q: "query", W_Q: "query", k: "key", W_K: "key", v: "value", W_V: "value" };
  for (const word of text.split(/\b(W_[QKV]|[qkv])\b/)) {
    const part = htmlElement(roles[word] ? "b" : "span", { class: roles[word] });
    part.append(...mathNodes(word));
    code.append(part);
  }
  return code;
}

// Returns a vector with its name and its length.
function namedVector(name, values, options) {
  const line = htmlElement("div", { class: "named" }), length = say("explain.length", { length: formatNumber(vectorLength(values)) });
  line.append(htmlElement("span", {}, name), drawVector(values, { label: `${name}, ${length}`, ...options }), htmlElement("span", { class: "quiet number" }, formatNumber(vectorLength(values))));
  return line;
}

// Returns the chosen coordinate of queries, keys and values.
function chosenCoordinate(page, count) {
  const place = Number(page.state.coordinate ?? NaN);
  return Number.isInteger(place) && place >= 0 && place < count ? place : 0;
}

// Returns the products that add up to the chosen coordinate of a query, key or value: states times a column of the matrix.
function drawColumn(page, part, state, value) {
  const { site } = page.chosen, coordinate = chosenCoordinate(page, page.inside().query.length);
  if (page.model.settings.positions === "rotary" && site !== "cross" && part !== "value") return htmlElement("p", { class: "quiet sum" }, say("explain.steps.rotary"));
  const { weights, bias } = page.model.column(part, page.chosen, coordinate), products = state.map((x, i) => x * weights[i]);
  const sum = htmlElement("div", { class: "sum" });
  sum.append(
    htmlElement("p", { class: "quiet" }, say("explain.steps.column", {
      number: coordinate + 1, count: state.length, products: formatNumber(products.reduce((total, product) => total + product, 0)), bias: formatNumber(bias), value: formatNumber(value[coordinate]),
    })),
    drawVector(products, { role: part, height: 26, label: say("explain.steps.products", { count: state.length }) }),
  );
  return sum;
}

const plus = (x, y) => (y ? x.map((value, i) => value + y[i]) : x);

function drawState(page) {
  const { before, read, position } = page.inside(), { asks } = page.sides(), post = page.model.settings.norm === "post";
  return makeStep("state", "x", { token: tokenText(asks.piece), count: before.length },
    namedVector(say("explain.steps.before"), before, {}),
    post ? null : namedVector(say("explain.steps.read"), read, {}),
    position && namedVector(say("explain.steps.position"), position, {}));
}

function drawQuery(page) {
  const { query, read, position } = page.inside(), chosen = chosenCoordinate(page, query.length);
  return makeStep("query", position ? "q = (x + p) W_Q + b" : "q = x W_Q + b", { count: query.length, inputs: read.length },
    namedVector("q", query, { role: "query", chosen, choose: (coordinate) => page.set({ coordinate }), focus: "vector query" }),
    drawColumn(page, "query", plus(read, position), query));
}

// Returns a line for each key, of which one can be chosen. `fill(place)` returns the content beside the token.
function drawKeyLines(page, name, fill, className = "") {
  const { key } = page.chosen, { keys } = page.sides();
  const items = keys.map(({ piece, side }, place) => {
    const { content, label } = fill(place), token = drawToken(page, piece, side);
    return { content: [token, ...content], label: `${tokenText(piece)}: ${label}` };
  });
  return drawChoices(items, { label: say(`explain.steps.${name}`), chosen: key, choose: (place) => page.set({ key: place }), focus: name, className: `lines ${className}` });
}

function drawKeys(page) {
  const { keys, states, positions, query } = page.inside(), { key } = page.chosen, scale = largestSize(...keys), chosen = chosenCoordinate(page, query.length);
  const lines = drawKeyLines(page, "keys", (place) => ({
    content: [drawVector(keys[place], { role: "key", scale, height: 24, label: "", chosen })], label: say("explain.length", { length: formatNumber(vectorLength(keys[place])) }),
  }));
  return makeStep("keys", positions ? "k = (x + p) W_K + b" : "k = x W_K + b", {}, lines, drawColumn(page, "key", plus(states[key], positions?.[key]), keys[key]));
}

function drawComparison(page) {
  const { products, scores, weights, scale, query, keys } = page.inside(), { key } = page.chosen, count = query.length, root = Math.sqrt(count);
  const largest = largestSize(products), head = htmlElement("div", { class: "heading", "aria-hidden": "true" }), divided = scale !== 1;
  head.append(htmlElement("span"), drawExpression("q · k"), drawExpression(divided ? `/ √${count}` : "= "), htmlElement("code", {}, "softmax"));
  const lines = drawKeyLines(page, "comparison", (place) => ({
    content: [
      drawBar(products[place] / largest), htmlElement("span", { class: "number" }, formatNumber(products[place])), htmlElement("span", { class: "number" }, formatNumber(scores[place])),
      drawBar(weights[place], { whole: true, role: "weight" }), htmlElement("span", { class: "number" }, formatNumber(weights[place])),
    ],
    label: say("explain.steps.comparison.line", { product: formatNumber(products[place]), score: formatNumber(scores[place]), weight: formatNumber(weights[place]) }),
  }), "compare");
  return makeStep("comparison", null, {}, head, lines, ...drawScore(page, { query, key: keys[key], product: products[key], scores, weight: weights[key], place: key, root, divided }));
}

// Returns how the score and the weight of the chosen key come about.
function drawScore(page, { query, key, product, scores, weight, place, root, divided }) {
  const chosen = chosenCoordinate(page, query.length), terms = query.map((value, i) => value * key[i]), token = tokenText(page.sides().keys[place].piece);
  const box = htmlElement("div", { class: "sum" }), choose = (coordinate) => page.set({ coordinate });
  const powers = scores.map((score) => Math.exp(score - Math.max(...scores))), total = powers.reduce((sum, power) => sum + power, 0);
  box.append(
    htmlElement("h4", {}, say("explain.steps.score", { token })),
    namedVector("q", query, { role: "query", height: 26, chosen }), namedVector("k", key, { role: "key", height: 26, chosen }),
    namedVector("q × k", terms, { height: 30, chosen, choose, focus: "vector terms" }),
    htmlElement("p", { class: "quiet" }, say("explain.steps.terms", {
      number: chosen + 1, query: formatNumber(query[chosen]), key: formatNumber(key[chosen]), term: formatNumber(terms[chosen]), count: query.length, product: formatNumber(product),
    })),
    htmlElement("p", { class: "quiet" }, divided
      ? say("explain.steps.divided", { product: formatNumber(product), root: formatNumber(root), count: query.length, score: formatNumber(scores[place]) })
      : say("explain.steps.undivided", { score: formatNumber(scores[place]) })),
    htmlElement("p", { class: "quiet" }, say("explain.steps.softmax", {
      score: formatNumber(scores[place]), largest: formatNumber(Math.max(...scores)), power: formatNumber(powers[place], 3), total: formatNumber(total, 3), weight: formatNumber(weight, 3),
    })),
  );
  return [box];
}

function drawValues(page) {
  const { values, states, alone, lengths, query } = page.inside(), { key } = page.chosen, scale = largestSize(...values), chosen = chosenCoordinate(page, query.length);
  const words = page.backend.spell(alone), lines = drawKeyLines(page, "values", (place) => ({
    content: [
      drawVector(values[place], { role: "value", scale, height: 24, label: "", chosen }),
      ...(words.length ? [drawToken(page, words[place], "target", { class: "token alone" })] : [htmlElement("span", { class: "quiet number" }, formatNumber(lengths[place]))]),
    ],
    label: words.length ? say("explain.steps.alone", { token: tokenText(words[place]) }) : say("explain.length", { length: formatNumber(lengths[place]) }),
  }), "with-word");
  return makeStep("values", "v = x W_V + b", {}, words.length ? drawText(say("explain.steps.values.alone"), { class: "quiet" }) : null, lines, drawColumn(page, "value", states[key], values[key]));
}

function drawContext(page) {
  const { context, weights, values } = page.inside(), chosen = chosenCoordinate(page, context.length), terms = values.map((value, place) => weights[place] * value[chosen]);
  const largest = largestSize(terms), lines = drawKeyLines(page, "context", (place) => ({
    content: [
      htmlElement("span", { class: "number quiet" }, `${formatNumber(weights[place])} × ${formatNumber(values[place][chosen])}`),
      drawBar(terms[place] / largest, { role: "value" }), htmlElement("span", { class: "number" }, formatNumber(terms[place])),
    ],
    label: `${formatNumber(weights[place])} × ${formatNumber(values[place][chosen])} = ${formatNumber(terms[place])}`,
  }), "terms");
  return makeStep("context", "Σ weight · v", {},
    namedVector(say("explain.steps.mixture"), context, { role: "value", chosen, choose: (coordinate) => page.set({ coordinate }), focus: "vector context" }),
    htmlElement("p", { class: "quiet sum" }, say("explain.steps.mixed", { number: chosen + 1, value: formatNumber(context[chosen]) })), lines);
}

function drawSum(page) {
  const { before, added, others, bias, sum, after } = page.inside(), { head } = page.chosen, place = Number(page.state.place ?? NaN);
  const chosen = Number.isInteger(place) && place >= 0 && place < sum.length ? place : 0, post = page.model.settings.norm === "post";
  const rest = plus(others, bias), options = { scale: largestSize(before, added, rest, sum), chosen, choose: (i) => page.set({ place: i }) };
  return makeStep("sum", "context W_O", {},
    namedVector(say("explain.steps.before"), before, { ...options, focus: "vector before" }),
    namedVector(say("explain.steps.head.adds", { head: String(head) }), added, { ...options, role: "value", focus: "vector added" }),
    namedVector(say("explain.steps.others"), rest, { ...options, focus: "vector others" }),
    namedVector(say("explain.steps.after"), sum, { ...options, focus: "vector after" }),
    htmlElement("p", { class: "quiet sum" }, say("explain.steps.adds", {
      number: chosen + 1, before: formatNumber(before[chosen]), added: formatNumber(added[chosen]), others: formatNumber(rest[chosen]), sum: formatNumber(sum[chosen]),
    })),
    post ? namedVector(say("explain.steps.normalised"), after, {}) : null);
}

function drawNext(page) {
  const { site, row } = page.chosen;
  if (site === "encoder_self") return makeStep("onwards", null, {});
  const list = htmlElement("ul", { class: "lines next" });
  page.answer.likeliest[row].slice(0, 5).forEach(([id, logProbability]) => {
    const line = htmlElement("li"), share = Math.exp(logProbability);
    line.append(drawToken(page, page.backend.spell([id])[0], "target"), drawBar(share, { whole: true }), htmlElement("span", { class: "number" }, formatShare(share)));
    list.append(line);
  });
  return makeStep("next", null, {}, list);
}
