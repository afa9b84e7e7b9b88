"use strict";
// Why a head looks there: the score of a cell, split into what query and key take from the model below.

const MOST_PAIRS = 8; // bars; what is left is one more

// The tokens of each shown row or column: one, or those of a word.
function tokenGroups(tokens, words, texts, { words: asWords, hideEos }) {
  const groups = asWords ? groupByWord(tokens, words, texts) : tokens.map((_, place) => ({ word: words[place], places: [place] }));
  return groups.filter(({ word }) => !hideEos || word !== null).map(({ places }) => places);
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

// The pairs of parts, the largest first, and the sum of those for which there is no room.
function largestPairs({ queryParts, keyParts }, values) {
  const pairs = queryParts.flatMap((query, q) => keyParts.map((key, k) => ({ query, key, value: values[q][k] })));
  pairs.sort((one, other) => Math.abs(other.value) - Math.abs(one.value));
  const left = pairs.slice(MOST_PAIRS);
  return { shown: pairs.slice(0, MOST_PAIRS), count: left.length, rest: left.reduce((sum, { value }) => sum + value, 0) };
}

function drawPairs(facts, key) {
  const { shown, count, rest } = largestPairs(facts, facts.differences[key]), list = htmlElement("ol", { class: "pairs" });
  const largest = Math.max(1e-9, Math.abs(rest), ...shown.map(({ value }) => Math.abs(value)));
  const line = (query, key, value) => {
    const item = htmlElement("li"), bar = htmlElement("span", { class: value < 0 ? "bar against" : "bar" });
    bar.style.setProperty("--length", (Math.abs(value) / largest).toFixed(4));
    const name = htmlElement("span", { class: "pair" });
    name.append(htmlElement("span", {}, query), ...(key ? [htmlElement("span", { class: "times" }, " × "), htmlElement("span", {}, key)] : []));
    item.append(name, bar, htmlElement("span", { class: "share" }, signed(value)));
    list.append(item);
  };
  for (const { query, key, value } of shown) line(query, key, value);
  if (count) line(`${count} other ${count === 1 ? "pair" : "pairs"}`, "", rest);
  return list;
}

// `facts` as `explain` promises them; `key` is shown first, `choose(key)` is told when another one is.
function drawWhy(facts, key, choose) {
  const box = htmlElement("div"), line = htmlElement("label", {}, "Why "), select = htmlElement("select", { dir: "auto" }), result = htmlElement("div", { "aria-live": "polite" });
  facts.keys.forEach((token, place) => select.append(htmlElement("option", { value: place }, `${spellToken(token).trim() || token}`)));
  select.value = key;
  line.append(select, "?");
  const show = () => {
    const place = Number(select.value), total = facts.differences[place].flat().reduce((sum, value) => sum + value, 0);
    const told = `Score ${facts.scores[place].toFixed(2).replace("-", "−")}, ${signed(total)} from the mean of the row: query part × key part`;
    result.replaceChildren(htmlElement("p", {}, told), drawPairs(facts, place));
  };
  select.addEventListener("change", () => {
    choose(Number(select.value));
    show();
  });
  show();
  box.append(line, result);
  return box;
}
