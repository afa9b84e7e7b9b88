"use strict";
// The query, keys and values of one row of one head, as strips of coloured cells and a line for each key.

// Returns a strip: a cell for each number of a vector, blue for positive and orange for negative numbers, darker for
// larger ones. `largest`: the absolute value of the darkest cell. `name`: a description. `tell(index)` shows the number of
// that index, `tell(null)` all of them.
function drawStrip(vector, largest, name, tell) {
  const strip = svgElement("svg", { class: "strip", viewBox: `0 0 ${vector.length} 1`, preserveAspectRatio: "none", role: "img", "aria-label": name, tabindex: -1 });
  vector.forEach((number, index) => {
    strip.append(svgElement("rect", { class: number < 0 ? "negative" : "positive", x: index, width: 1.02, height: 1, "fill-opacity": Math.min(1, Math.abs(number) / largest).toFixed(3) }));
  });
  strip.addEventListener("pointermove", ({ clientX }) => {
    const { left, width } = strip.getBoundingClientRect();
    tell(Math.max(0, Math.min(vector.length - 1, Math.floor(((clientX - left) / width) * vector.length))));
  });
  strip.addEventListener("focus", () => tell(null));
  return strip;
}

function largestOf(vectors) {
  return Math.max(1e-9, ...vectors.flat().map(Math.abs));
}

// Returns the query, keys, products, weights and values of a row. `facts`: the answer of `row`, see panel/backend.js.
// `word`: the token of the row.
function drawVectors(facts, word) {
  const { query, keys, values, products, scale, scores, weights, tokens, words, lengths, context } = facts;
  const box = htmlElement("div", { class: "vectors" }), readout = htmlElement("p", { class: "readout", "aria-live": "polite" }, say("live.vectors.hint"));
  const strips = [], list = (vector) => vector.map((number) => formatNumber(number)).join("  ");
  const makeStrip = (vector, largest, name, terms) => {
    const tell = (index) => {
      const number = index === null ? list(vector) : `${say("live.vectors.number", { place: index + 1, count: vector.length })} ${formatNumber(vector[index])}`;
      readout.textContent = `${name}: ${number}${index !== null && terms ? terms(index) : ""}`;
    };
    strips.push(drawStrip(vector, largest, say("live.vectors.strip", { name, count: vector.length }), tell));
    return strips.at(-1);
  };
  const line = (label, strip, note = "") => {
    const part = htmlElement("p", { class: "vector" });
    part.append(htmlElement("span", { class: "name" }, label), strip, htmlElement("span", { class: "note" }, note));
    return part;
  };
  const largestKey = largestOf(keys), largestValue = largestOf(values), top = weights.indexOf(Math.max(...weights));
  const queryName = say("live.vectors.query_of", { word });
  const contextName = say("live.vectors.context"), strip = makeStrip(query, largestOf([query]), queryName), sum = makeStrip(context, largestOf([context]), contextName);
  box.append(line(queryName, strip, say("live.vectors.numbers", { count: query.length })));
  const table = htmlElement("table", { class: "keys" }), head = htmlElement("tr");
  const scaled = scale !== 1, columns = ["word", "key", "product", ...(scaled ? ["score"] : []), "weight", "value", ...(words.length ? ["alone"] : [])];
  for (const column of columns) {
    const root = Math.round(1 / scale ** 2);
    head.append(htmlElement("th", { scope: "col", title: say(`live.vectors.${column}.title`, { root }) }, say(`live.vectors.${column}`, { root })));
  }
  table.append(head);
  tokens.forEach((token, place) => {
    const row = htmlElement("tr", { class: place === top ? "top" : null }), key = nameToken(token);
    const cell = (content, kind = null) => {
      const element = htmlElement("td", { class: kind });
      element.append(content);
      row.append(element);
    };
    row.append(htmlElement("th", { scope: "row", dir: "auto" }, key));
    cell(makeStrip(keys[place], largestKey, say("live.vectors.key_of", { word: key }), (i) => ` × ${formatNumber(query[i])} = ${formatNumber(query[i] * keys[place][i])}`));
    cell(formatNumber(products[place]), "number");
    if (scaled) cell(formatNumber(scores[place]), "number");
    const weight = htmlElement("span", { class: "bar" }), share = htmlElement("span", { class: "weight" });
    weight.style.setProperty("--share", weights[place].toFixed(4));
    share.append(weight, formatNumber(weights[place]));
    cell(share, "number");
    cell(makeStrip(values[place], largestValue, say("live.vectors.value_of", { word: key }), (i) => ` × ${formatNumber(weights[place])} = ${formatNumber(weights[place] * values[place][i])}`));
    if (words.length) {
      const alone = htmlElement("span", { dir: "auto", title: say("live.vectors.alone.length", { length: formatNumber(lengths[place]) }) }, nameToken(words[place]));
      cell(alone, "alone");
    }
    table.append(row);
  });
  const scroller = htmlElement("div", { class: "scroller" });
  scroller.append(table);
  box.append(scroller, line(contextName, sum, say("live.vectors.context.note")), readout);
  makeRoving(box, strips, 2, 2); // the query and the sum, then the key and the value of each word
  return box;
}
