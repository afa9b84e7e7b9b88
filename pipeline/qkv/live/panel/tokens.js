"use strict";
// The tokens of a translation, the alternatives at a token, and the comparison of two translations.

function spellToken(token) {
  return token.replaceAll("\u2581", " ");
}

// Returns the label of a token. A lone space is shown by a sign.
function labelToken(token) {
  return spellToken(token) === " " ? "␣" : spellToken(token);
}

function nameToken(token) {
  return spellToken(token).trim() || token;
}

function formatNumber(number) {
  return number.toFixed(2).replace("-", "−");
}

function formatChange(number) {
  return `${number < 0 ? "" : "+"}${formatNumber(number)}`;
}

// Returns a translation in which the tokens at the indices `differing`, a Set, are marked.
function markTokens(tokens, differing) {
  const line = htmlElement("span", { class: "compared", dir: "auto" });
  tokens.forEach((token, place) => {
    if (place === tokens.length - 1 && token === "</s>") return;
    line.append(differing.has(place) ? htmlElement("mark", {}, spellToken(token)) : spellToken(token));
  });
  return line;
}

// Returns a comparison of two translations, which shows the effect of edits. Arguments: facts of a backend.
function drawComparison(original, changed) {
  const box = htmlElement("div", { class: "comparison", role: "status" });
  const same = original.ids.length === changed.ids.length && original.ids.every((id, place) => id === changed.ids[place]);
  const difference = changed.logProbability - original.logProbability;
  if (same && difference === 0) {
    box.append(htmlElement("p", {}, "Nothing changed: the same translation, with the same probability."));
    return box;
  }
  const tokens = [original.sentence.target, changed.sentence.target], differing = differences(...tokens);
  ["original", "changed"].forEach((name, side) => {
    const row = htmlElement("p", {});
    row.append(htmlElement("span", { class: "name" }, name), " ", markTokens(tokens[side], differing[side]));
    box.append(row);
  });
  const words = same ? "The same translation" : `${differing[0].size + differing[1].size} tokens differ`;
  const total = `log-probability ${formatNumber(original.logProbability)} → ${formatNumber(changed.logProbability)} (${formatChange(difference)})`;
  box.append(htmlElement("p", { class: "facts" }, `${words}; ${total}.`));
  return box;
}

const SURE = 0.9; // tokens with a lower probability are underlined, the less likely the thicker

// Returns a button for each token of a translation. `chosen`: the index of the chosen token, null for none.
// `choose(place)` is called with the index of a token that the user chooses, null if the choice is removed.
function drawTokens(facts, chosen, choose) {
  const name = "Tokens of the translation: choose one to see what else was likely";
  const line = htmlElement("div", { class: "tokens", role: "group", dir: "auto", "aria-label": name });
  facts.sentence.target.forEach((token, place) => {
    const probability = probabilityOf(facts, place), isPrefix = place < facts.prefixTokens;
    const label = `${nameToken(token)}: ${isPrefix ? "given" : formatShare(probability)}`;
    const button = makeButton(labelToken(token), {
      class: isPrefix ? "token given" : "token", title: label, "aria-label": label,
      "aria-pressed": String(place === chosen), "data-place": place,
    }, () => choose(place === chosen ? null : place));
    if (probability !== null && probability < SURE) button.style.borderBottomWidth = `${1 + 4 * (1 - probability)}px`;
    line.append(button);
  });
  return line;
}

function probabilityOf(facts, place) {
  const value = facts.sentence.logProbabilities?.[place];
  return value === undefined ? null : Math.exp(value);
}

function formatShare(probability) {
  if (probability === null) return "";
  return probability >= 0.995 ? "> 99 %" : probability < 0.001 ? "< 0.1 %" : `${(100 * probability).toFixed(probability < 0.1 ? 1 : 0)} %`;
}

// Returns a list of the likeliest tokens at a position, with bars. `alternatives`: [[id, token, log-probability], ...].
// `current`: the id of the token in the translation. `choose(id, token)` is called with a token that the user chooses;
// null for no choice. `before`: the alternatives before a change, shown beside them; null for none.
function drawAlternatives(alternatives, current, choose, before = null) {
  const list = htmlElement("ol", { class: "alternatives" });
  for (const [id, token, value] of alternatives) {
    const probability = Math.exp(value), row = htmlElement("li");
    const attributes = { "aria-current": id === current ? "true" : null, disabled: !choose || id === current };
    const button = makeButton(labelToken(token), attributes, () => choose(id, token));
    const bar = htmlElement("span", { class: "bar" });
    bar.style.setProperty("--share", probability.toFixed(4));
    const earlier = before?.find(([other]) => other === id);
    const change = before ? ` (${earlier ? formatShare(Math.exp(earlier[2])) : "less"} before)` : "";
    row.append(button, bar, htmlElement("span", { class: "share" }, formatShare(probability) + change));
    list.append(row);
  }
  return list;
}
