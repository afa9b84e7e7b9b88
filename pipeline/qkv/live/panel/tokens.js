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

// Returns a number with two decimals, as the language of the page writes it, with a minus sign instead of a hyphen.
function formatNumber(number, digits = 2) {
  const fixed = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const rounded = Math.abs(number) < 0.5 * 10 ** -digits ? 0 : number; // no minus before a zero
  return rounded.toLocaleString(pageLanguage(), fixed).replace("-", "−");
}

function formatChange(number) {
  return `${number < 0 ? "" : "+"}${formatNumber(number)}`;
}

// Returns a share from 0 to 1 as a percentage.
function formatShare(share) {
  if (share === null) return "";
  const percent = (number, digits = 0) => say("live.percent", { number: formatNumber(number, digits) });
  return share >= 0.995 ? `> ${percent(99)}` : share < 0.001 ? `< ${percent(0.1, 1)}` : percent(100 * share, share < 0.1 ? 1 : 0);
}

// Returns a line that says what edits have changed. Arguments: facts of a backend.
function drawComparison(original, changed) {
  const same = original.ids.length === changed.ids.length && original.ids.every((id, place) => id === changed.ids[place]);
  const difference = changed.logProbability - original.logProbability;
  if (same && difference === 0) return htmlElement("p", { class: "comparison" }, say("live.nothing_changed"));
  const differing = differences(original.sentence.target, changed.sentence.target), count = differing[0].size + differing[1].size;
  const words = same ? say("live.same_translation") : say("live.tokens_differ", { count });
  const numbers = { before: formatNumber(original.logProbability), after: formatNumber(changed.logProbability), change: formatChange(difference) };
  return htmlElement("p", { class: "comparison" }, `${words} ${say("live.log_probability", numbers)}`);
}

const SURE = 0.9; // tokens with a lower probability are underlined, the less likely the thicker

// Returns a button for each token of a translation. The options:
//   chosen          the index of the chosen token, null for none
//   differing       the indices of tokens that are marked, a Set
//   choose(place)   is called with the index of a token that the user chooses
//   focus           the prefix of the buttons' names, see `keepPlace`
function drawTokens(facts, { chosen, differing, choose, focus }) {
  const line = htmlElement("div", { class: "tokens", role: "group", dir: "auto", "aria-label": say("live.tokens") });
  facts.sentence.target.forEach((token, place) => {
    const probability = probabilityOf(facts, place), isPrefix = place < facts.prefixTokens;
    const label = `${nameToken(token)}: ${isPrefix ? say("live.given") : formatShare(probability)}`;
    const button = makeButton(labelToken(token), {
      class: ["token", isPrefix ? "given" : "", differing.has(place) ? "differing" : ""].filter(Boolean).join(" "), title: label, "aria-label": label,
      "aria-pressed": String(place === chosen), "data-place": place, "data-focus": `${focus} ${place}`,
    }, () => choose(place));
    if (probability !== null && probability < SURE) button.style.borderBottomWidth = `${1 + 4 * (1 - probability)}px`;
    line.append(button);
  });
  makeRoving(line, [...line.children], line.children.length, chosen ?? 0);
  return line;
}

function probabilityOf(facts, place) {
  const value = facts.sentence.logProbabilities?.[place];
  return value === undefined ? null : Math.exp(value);
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
    const change = before ? ` ${say("live.before", { share: earlier ? formatShare(Math.exp(earlier[2])) : say("live.less") })}` : "";
    row.append(button, bar, htmlElement("span", { class: "share" }, formatShare(probability) + change));
    list.append(row);
  }
  return list;
}
