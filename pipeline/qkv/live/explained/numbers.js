"use strict";
// Numbers as pictures: vectors as bars up and down, products that add up, weights, and a matrix. All sections use them.

// Returns a number with two decimals and a true minus sign, as the reader's language writes it.
function formatNumber(number, digits = 2) {
  const rounded = Number(number.toFixed(digits)) || 0;
  return rounded.toLocaleString(say.language ?? pageLanguage(), { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
}

// Returns a share as per cent. Shares close to 0 or 1 keep a digit that tells them from 0 and 1.
function formatShare(share) {
  const near = Math.min(share, 1 - share), digits = near < .0005 ? 0 : near < .01 ? 1 : 0;
  return share.toLocaleString(say.language ?? pageLanguage(), { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// Returns the text of a token: without the mark of a word's beginning, and with names for those that end or begin a text.
function tokenText(piece) {
  const names = { "</s>": "explain.token.end", "<s>": "explain.token.begin", "<unk>": "explain.token.unknown" };
  return names[piece] ? say(names[piece]) : piece.replaceAll(SPACE, " ").trim() || "␣";
}

// Returns the element of a token. `side`: source or target, whose language it has. Names of ends are in the page's language.
function drawToken(page, piece, side, attributes = {}) {
  const isName = ["</s>", "<s>", "<unk>"].includes(piece);
  return htmlElement("span", { class: isName ? "token special" : "token", lang: isName ? null : page.facts.languages[side], dir: "auto", ...attributes }, tokenText(piece));
}

// Returns words that name matrices, such as W_Q or d_k, as nodes with the letters below the line.
function mathNodes(text) {
  return text.split(/\b(W_[QKVO]|d_k)\b/).map((piece, place) => {
    if (place % 2 === 0) return piece;
    const name = htmlElement("span", { class: "math" }, piece[0]);
    name.append(htmlElement("sub", {}, piece[2]));
    return name;
  });
}

// Returns a paragraph of words in which matrices are named.
function drawText(text, attributes = {}) {
  const paragraph = htmlElement("p", attributes);
  paragraph.append(...mathNodes(text));
  return paragraph;
}

// Returns the text of a translation without its end.
function tokensText(pieces) {
  return pieces.filter((piece) => piece !== "</s>").map((piece) => piece.replaceAll(SPACE, " ")).join("").trim();
}

const vectorLength = (vector) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
const largestSize = (...vectors) => Math.max(1e-9, ...vectors.map((vector) => vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0)));

// Returns a vector as bars up and down. With `choose`, it is a slider: arrow keys and the mouse choose a coordinate.
//
//   role       the colour: query, key, value, or plain
//   scale      the value whose bar is full; by default the largest of the vector
//   label      what the vector is, for those who do not see it
//   chosen     the coordinate that is marked, null for none
//   choose     a function that is called with a coordinate
function drawVector(values, { role = "plain", scale = largestSize(values), label, chosen = null, choose = null, height = 34, focus = null }) {
  const count = values.length, half = height / 2, box = htmlElement("div", { class: `vector ${role}` });
  const svg = svgElement("svg", { viewBox: `0 0 ${count} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.style.height = `${height}px`;
  const bars = [...values].map((value, i) => {
    const size = Math.min(1, Math.abs(value) / scale) * (half - 1);
    return `M${i + .12} ${half}h.76v${(value < 0 ? size : -size).toFixed(2)}h-.76z`;
  });
  const mark = svgElement("rect", { class: "mark", y: 0, width: 1, height, x: chosen ?? 0, visibility: chosen === null ? "hidden" : "visible" });
  svg.append(mark, svgElement("path", { d: bars.join("") }), svgElement("line", { x1: 0, x2: count, y1: half, y2: half }));
  box.append(svg);
  if (!choose) {
    fillElement(box, { role: "img", "aria-label": label }, null);
    return box;
  }
  const valueOf = (i) => say("explain.coordinate", { number: i + 1, value: formatNumber(values[i]) });
  const move = (i) => {
    const place = Math.min(count - 1, Math.max(0, i));
    if (place !== Number(box.getAttribute("aria-valuenow")) - 1) choose(place);
  };
  fillElement(box, {
    role: "slider", tabindex: 0, "aria-label": label, "aria-valuemin": 1, "aria-valuemax": count, "aria-valuenow": (chosen ?? 0) + 1,
    "aria-valuetext": valueOf(chosen ?? 0), "data-focus": focus,
  }, null);
  const pointed = ({ clientX }) => {
    const { left, width } = svg.getBoundingClientRect();
    return Math.floor((clientX - left) / width * count);
  };
  box.addEventListener("pointermove", (event) => move(pointed(event)));
  box.addEventListener("pointerdown", (event) => move(pointed(event)));
  box.addEventListener("keydown", (event) => {
    const now = Number(box.getAttribute("aria-valuenow")) - 1;
    const places = { ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1, Home: 0, End: count - 1, PageUp: now + 10, PageDown: now - 10 };
    if (!(event.key in places) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(places[event.key]);
  });
  return box;
}

// Returns a bar from the middle to the left or right. `share`: its length from -1 to 1. With `whole`, it is from the left.
function drawBar(share, { role = "plain", whole = false } = {}) {
  const bar = htmlElement("span", { class: `bar ${role}${whole ? " whole" : ""}${share < 0 ? " negative" : ""}`, "aria-hidden": "true" });
  bar.style.setProperty("--share", Math.min(1, Math.abs(share)).toFixed(4));
  return bar;
}

// Returns lines of which one can be chosen, by pointing, by Enter, or by arrow keys: a group that is one stop of the Tab key.
// `items`: [{ content: elements, label }]; `choose(place)` is called when one is chosen. They are in rows of `width`.
function drawChoices(items, { label, chosen, choose, focus, className = "", width = 1 }) {
  const list = htmlElement("div", { class: `choices ${className}`, role: "radiogroup", "aria-label": label });
  const lines = items.map(({ content, label: name }, place) => {
    const line = htmlElement("div", { role: "radio", "aria-checked": String(place === chosen), "aria-label": name, "data-focus": `${focus} ${place}` });
    line.append(...content);
    line.addEventListener("click", () => choose(place));
    line.addEventListener("focus", () => place !== chosen && choose(place));
    line.addEventListener("keydown", ({ key }) => (key === "Enter" || key === " ") && choose(place));
    list.append(line);
    return line;
  });
  makeRoving(list, lines, Math.min(width, lines.length), Math.max(0, chosen ?? 0));
  return list;
}

// Returns the weights of a head as a table of cells, darker for more. `row` is marked; `choose(row, column)` is called
// when a cell is chosen. Labels: { piece, side } for each row and column.
function drawWeights(page, weights, { rows, columns, row = null, column = null, choose = null, label }) {
  const table = htmlElement("table", { class: "weights", "aria-label": label });
  table.style.setProperty("--columns", columns.length);
  const head = htmlElement("tr");
  head.append(htmlElement("td"), ...columns.map(({ piece, side }, c) => {
    const cell = htmlElement("th", { scope: "col", class: c === column ? "marked" : null });
    cell.append(drawToken(page, piece, side));
    return cell;
  }));
  table.append(htmlElement("thead"), htmlElement("tbody"));
  table.tHead.append(head);
  const cells = [];
  weights.forEach((line, r) => {
    const element = htmlElement("tr", { class: r === row ? "marked" : null }), title = htmlElement("th", { scope: "row" });
    title.append(drawToken(page, rows[r].piece, rows[r].side));
    element.append(title, ...line.map((weight, c) => {
      const cell = htmlElement("td"), text = `${tokenText(rows[r].piece)} → ${tokenText(columns[c].piece)}: ${formatNumber(weight)}`;
      const inner = choose ? makeButton(null, { title: text, "aria-label": text, "data-focus": `cell ${r} ${c}` }, () => choose(r, c)) : htmlElement("span", { title: text });
      inner.style.setProperty("--weight", weight.toFixed(4));
      cells.push(inner);
      cell.append(inner);
      return cell;
    }));
    table.tBodies[0].append(element);
  });
  if (choose) makeRoving(table, cells, columns.length, row === null ? 0 : row * columns.length + (column ?? 0));
  return table;
}
