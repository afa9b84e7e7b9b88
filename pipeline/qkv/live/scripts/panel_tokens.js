"use strict";
// The tokens of a translation, each with what else might have been said there.

const SURE = 0.9; // tokens of a lower probability are underlined, the thicker the less likely

// `choose(place)` is called when a token is chosen, `chosen` is the place of the one that is.
function drawTokens(facts, chosen, choose) {
  const line = htmlElement("div", { class: "tokens", role: "group", dir: "auto", "aria-label": "Tokens of the translation: choose one to see what else was likely" });
  facts.sentence.target.forEach((token, place) => {
    const probability = probabilityOf(facts, place), given = place < facts.prefixTokens;
    const label = `${spellToken(token).trim() || token}: ${given ? "given" : formatShare(probability)}`;
    const button = htmlElement("button", {
      type: "button", class: given ? "token given" : "token", title: label, "aria-label": label,
      "aria-pressed": String(place === chosen), "data-place": place,
    }, spellToken(token) === " " ? "␣" : spellToken(token));
    if (probability !== null && probability < SURE) button.style.borderBottomWidth = `${1 + 4 * (1 - probability)}px`;
    button.addEventListener("click", () => choose(place === chosen ? null : place));
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

// The likeliest tokens at a place as bars; `before` are those of another reading, drawn beside them. `choose(id, token)`
// goes on from another token.
function drawAlternatives(alternatives, current, choose, before = null) {
  const list = htmlElement("ol", { class: "alternatives" });
  for (const [id, token, value] of alternatives) {
    const probability = Math.exp(value), row = htmlElement("li");
    const button = htmlElement("button", { type: "button", "aria-current": id === current ? "true" : null, disabled: !choose || id === current }, spellToken(token) === " " ? "␣" : spellToken(token));
    if (choose) button.addEventListener("click", () => choose(id, token));
    const bar = htmlElement("span", { class: "bar" });
    bar.style.setProperty("--share", probability.toFixed(4));
    const earlier = before?.find(([other]) => other === id);
    const change = before ? ` (${earlier ? formatShare(Math.exp(earlier[2])) : "less"} before)` : "";
    row.append(button, bar, htmlElement("span", { class: "share" }, formatShare(probability) + change));
    list.append(row);
  }
  return list;
}
