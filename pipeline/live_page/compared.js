"use strict";
// Two translations of one sentence, by the model as trained and by the changed one.

const NOTICEABLE = .005; // a smaller difference of log-probabilities is called none

// Two translations of a sentence, with the tokens marked that only one of them has, and what that costs.
function compare(before, after) {
  const total = ({ logProbabilities }) => logProbabilities.reduce((sum, value) => sum + value, 0);
  const difference = total(after) - total(before), same = before.target.join(" ") === after.target.join(" ");
  const [ours, theirs] = commonTokens(before.target, after.target);
  const table = htmlElement("table", { class: "compared" });
  for (const [name, sentence, kept] of [["as trained", before, ours], ["heads off", after, theirs]]) {
    const row = htmlElement("tr"), text = htmlElement("td", { dir: "auto" });
    sentence.target.forEach((token, place) => {
      if (sentence.targetWords[place] === null) return; // EOS
      const spelt = token.replaceAll("\u2581", " ");
      text.append(kept.has(place) ? spelt : htmlElement("mark", {}, spelt));
    });
    row.append(htmlElement("th", { scope: "row" }, name), text);
    row.append(htmlElement("td", { class: "number" }, `log-probability ${signedText(total(sentence))}`));
    table.append(row);
  }
  const signed = `${difference < 0 ? "" : "+"}${signedText(difference)}`;
  const verdict = !same ? `The translation changed; log-probability ${signed}.`
    : Math.abs(difference) < NOTICEABLE ? "Nothing changed: the same tokens, as likely as before."
      : `The translation did not change, only its log-probability: ${signed}.`;
  return [htmlElement("p", { class: "verdict" }, verdict), table];
}

const signedText = (number) => number.toFixed(2).replace("-", "−");

// The places of a longest common subsequence in both lists.
function commonTokens(one, other) {
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      lengths[i][j] = one[i] === other[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const places = [new Set(), new Set()];
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) places[0].add(i++), places[1].add(j++);
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return places;
}
