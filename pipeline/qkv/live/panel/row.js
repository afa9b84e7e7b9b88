"use strict";
// One row of a head's weights, moved by hand; its scores and the logit of the token that it predicts, explained.

const SETTLED = 120; // milliseconds after the last movement

// Sets one weight; the others keep their proportions, and all together make one.
function moveWeight(weights, place, value) {
  const rest = weights.reduce((sum, weight, i) => (i === place ? sum : sum + weight), 0);
  const scale = rest > 0 ? (1 - value) / rest : 0;
  return weights.map((weight, i) => (i === place ? value : rest > 0 ? weight * scale : (1 - value) / (weights.length - 1)));
}

// `ask(weights)` promises the alternatives at the row with these weights.
function drawRow({ keys, weights, before, ask }) {
  const box = htmlElement("div", { class: "moving" }), sliders = htmlElement("div", { class: "sliders" });
  const result = htmlElement("div", { "aria-live": "polite" });
  let now = [...weights], timer = null, asked = 0;
  const inputs = keys.map((key, place) => {
    const label = htmlElement("label", {}), input = htmlElement("input", { type: "range", min: 0, max: 1, step: 0.01, "aria-label": `weight of ${key}` });
    const share = htmlElement("output", {});
    input.addEventListener("input", () => move(place, Number(input.value)));
    label.append(htmlElement("span", { dir: "auto" }, nameToken(key)), input, share);
    sliders.append(label);
    return { input, share };
  });
  const show = () => inputs.forEach(({ input, share }, place) => {
    input.value = now[place];
    share.textContent = now[place].toFixed(2);
  });
  const move = (place, value) => {
    now = moveWeight(now, place, value);
    show();
    clearTimeout(timer);
    timer = setTimeout(tell, SETTLED);
  };
  const tell = async () => {
    const number = ++asked;
    try {
      const alternatives = await ask(now.map((weight) => Math.min(1, Math.max(0, weight))));
      if (number === asked) result.replaceChildren(drawAlternatives(alternatives, null, null, before));
    } catch (error) {
      result.replaceChildren(htmlElement("p", { class: "warning" }, error.message));
    }
  };
  const reset = makeButton("As the model has it", {}, () => {
    now = [...weights];
    show();
    result.replaceChildren();
    asked++;
  });
  show();
  box.append(sliders, reset, result);
  return box;
}

const MOST_PAIRS = 8; // bars; what is left is one more

// The tokens of each shown row or column: one, or all of a word.
function tokenGroups(tokens, words, texts, { words: asWords, hideEos }) {
  const groups = asWords ? groupByWord(tokens, words, texts) : tokens.map((_, place) => ({ word: words[place], places: [place] }));
  return groups.filter(({ word }) => !hideEos || word !== null).map(({ places }) => places);
}

// The pairs of parts, the largest first, and the sum of the pairs for which there is no room.
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
    item.append(name, bar, htmlElement("span", { class: "share" }, formatChange(value)));
    list.append(item);
  };
  for (const { query, key, value } of shown) line(query, key, value);
  if (count) line(`${count} other ${count === 1 ? "pair" : "pairs"}`, "", rest);
  return list;
}

// A bar under each source word, and a line for each other part; `facts` as `split` promises them.
function drawLogit({ total, sources, others }) {
  const words = htmlElement("ol", { class: "under", "aria-label": "What cross-attention has read from each word" });
  const largest = Math.max(1e-9, ...sources.map(([, value]) => Math.abs(value)));
  for (const [token, value] of sources) {
    const item = htmlElement("li"), bar = htmlElement("span", { class: value < 0 ? "bar against" : "bar" });
    bar.style.setProperty("--length", (Math.abs(value) / largest).toFixed(4));
    item.append(htmlElement("span", { dir: "auto" }, nameToken(token)), htmlElement("span", { class: "share" }, formatChange(value)), bar);
    words.append(item);
  }
  const read = sources.reduce((sum, [, value]) => sum + value, 0), rest = others.filter(([, value]) => value).map(([part, value]) => `${formatChange(value)} ${part}`);
  return [
    htmlElement("p", {}, `Logit ${formatChange(total)} from the mean of all tokens. Cross-attention gave ${formatChange(read)}, from each source word:`),
    words,
    htmlElement("p", {}, `The rest: ${rest.join(", ")}.`),
  ];
}

// `facts` as `explain` promises them; `key` is shown first, `choose(key)` is told when another one is.
function drawWhy(facts, key, choose) {
  const box = htmlElement("div"), line = htmlElement("label", {}, "Why ");
  const select = htmlElement("select", { dir: "auto" }), result = htmlElement("div", { "aria-live": "polite" });
  facts.keys.forEach((token, place) => select.append(htmlElement("option", { value: place }, nameToken(token))));
  select.value = key;
  line.append(select, "?");
  const show = () => {
    const place = Number(select.value), total = facts.differences[place].flat().reduce((sum, value) => sum + value, 0);
    const told = `Score ${formatNumber(facts.scores[place])}, ${formatChange(total)} from the mean of the row: query part × key part`;
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
