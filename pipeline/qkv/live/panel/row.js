"use strict";
// One row of a head: sliders for its weights, the parts of its scores, and the parts of the logit of the predicted
// token.

const SETTLED = 120; // milliseconds from the last movement of a slider to the question

// Returns the weights with another value at index `place`. The other weights keep their proportions, and the sum is 1.
function moveWeight(weights, place, value) {
  const rest = weights.reduce((sum, weight, i) => (i === place ? sum : sum + weight), 0);
  const scale = rest > 0 ? (1 - value) / rest : 0;
  return weights.map((weight, i) => (i === place ? value : rest > 0 ? weight * scale : (1 - value) / (weights.length - 1)));
}

// Returns sliders for the weights of a row, and the effect of moving them. `keys`: the tokens. `before`: the
// alternatives with the original weights. `ask(weights)` promises the alternatives with other weights.
function drawRow({ keys, weights, before, ask }) {
  const box = htmlElement("div", { class: "moving" }), sliders = htmlElement("div", { class: "sliders" });
  const result = htmlElement("div", { "aria-live": "polite" });
  let now = [...weights], timer = null, asked = 0;
  const inputs = keys.map((key, place) => {
    const label = htmlElement("label", {}), input = htmlElement("input", { type: "range", min: 0, max: 1, step: 0.01, "aria-label": say("live.weight_of", { word: nameToken(key) }) });
    const share = htmlElement("output", {});
    input.addEventListener("input", () => move(place, Number(input.value)));
    label.append(htmlElement("span", { dir: "auto" }, nameToken(key)), input, share);
    sliders.append(label);
    return { input, share };
  });
  const show = () => inputs.forEach(({ input, share }, place) => {
    input.value = now[place];
    share.textContent = formatNumber(now[place]);
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
  const reset = makeButton(say("live.row.reset"), {}, () => {
    now = [...weights];
    show();
    result.replaceChildren();
    asked++;
  });
  show();
  box.append(sliders, reset, result);
  return box;
}

const MOST_PAIRS = 8; // bars; a further bar is the sum of the other pairs

// Returns the token indices of each shown row or column: one token, or all tokens of a word.
function tokenGroups(tokens, words, texts, { words: asWords, hideEos }) {
  const groups = asWords ? groupByWord(tokens, words, texts) : tokens.map((_, place) => ({ word: words[place], places: [place] }));
  return groups.filter(({ word }) => !hideEos || word !== null).map(({ places }) => places);
}

// Returns {shown, count, rest}: the pairs of parts with the largest absolute values, the largest first, and the number
// and the sum of the other pairs.
function largestPairs({ queryParts, keyParts }, values) {
  const pairs = queryParts.flatMap((query, q) => keyParts.map((key, k) => ({ query, key, value: values[q][k] })));
  pairs.sort((first, second) => Math.abs(second.value) - Math.abs(first.value));
  const others = pairs.slice(MOST_PAIRS);
  return { shown: pairs.slice(0, MOST_PAIRS), count: others.length, rest: others.reduce((sum, { value }) => sum + value, 0) };
}

// Returns the name of a part of a state, such as decoder.0.self; see score_parts.py and logit_parts.py.
function namePart(part) {
  const [, side, layer, kind] = /^(encoder|decoder)\.(\d+)\.(\w+)$/.exec(part) ?? [];
  if (side) return say(`live.part.${side}.${kind}`, { layer });
  return ["token", "position", "bias", "biases"].includes(part) ? say(`live.part.${part}`) : part;
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
  for (const { query, key, value } of shown) line(namePart(query), namePart(key), value);
  if (count) line(say("live.why.others", { count }), "", rest);
  return list;
}

// Returns the parts of a logit: a bar under each source word, and a line with the other parts. The argument is the
// answer of `split`, see panel/backend.js.
function drawLogit({ total, sources, others }) {
  const words = htmlElement("ol", { class: "under", "aria-label": say("live.logit.words") });
  const largest = Math.max(1e-9, ...sources.map(([, value]) => Math.abs(value)));
  for (const [token, value] of sources) {
    const item = htmlElement("li"), bar = htmlElement("span", { class: value < 0 ? "bar against" : "bar" });
    bar.style.setProperty("--length", (Math.abs(value) / largest).toFixed(4));
    item.append(htmlElement("span", { dir: "auto" }, nameToken(token)), htmlElement("span", { class: "share" }, formatChange(value)), bar);
    words.append(item);
  }
  const read = sources.reduce((sum, [, value]) => sum + value, 0), rest = others.filter(([, value]) => value).map(([part, value]) => `${formatChange(value)} ${namePart(part)}`);
  return [
    htmlElement("p", {}, say("live.logit.total", { total: formatChange(total), read: formatChange(read) })),
    words,
    htmlElement("p", {}, say("live.logit.rest", { parts: rest.join(", ") })),
  ];
}

// Returns the parts of the scores of a row, for one key at a time. `facts`: the answer of `explain`, see
// panel/backend.js. `key`: the index of the key that is shown first. `choose(key)` is called when the user chooses
// another key.
function drawWhy(facts, key, choose) {
  const box = htmlElement("div"), line = htmlElement("label", {}, say("live.why.key"));
  const select = htmlElement("select", { dir: "auto" }), result = htmlElement("div", { "aria-live": "polite" });
  facts.keys.forEach((token, place) => select.append(htmlElement("option", { value: place }, nameToken(token))));
  select.value = key;
  line.append(" ", select);
  const show = () => {
    const place = Number(select.value), total = facts.differences[place].flat().reduce((sum, value) => sum + value, 0);
    const text = say("live.why.score", { score: formatNumber(facts.scores[place]), change: formatChange(total) });
    result.replaceChildren(htmlElement("p", {}, text), drawPairs(facts, place));
  };
  select.addEventListener("change", () => {
    choose(Number(select.value));
    show();
  });
  show();
  box.append(line, result);
  return box;
}
