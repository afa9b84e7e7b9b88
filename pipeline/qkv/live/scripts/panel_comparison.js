"use strict";
// Two translations of one sentence side by side: which tokens differ, and by how much the log-probability.

// For each token of both lists, whether it is in their longest common subsequence.
function commonTokens(first, second) {
  const lengths = Array.from({ length: first.length + 1 }, () => new Uint16Array(second.length + 1));
  for (let i = first.length - 1; i >= 0; i--) {
    for (let j = second.length - 1; j >= 0; j--) {
      lengths[i][j] = first[i] === second[j] ? 1 + lengths[i + 1][j + 1] : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const common = [first.map(() => false), second.map(() => false)];
  for (let i = 0, j = 0; i < first.length && j < second.length; ) {
    if (first[i] === second[j]) common[0][i++] = common[1][j++] = true;
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return common;
}

function spellToken(token) {
  return token.replaceAll("\u2581", " ");
}

// A translation with the tokens marked that the other one lacks.
function markTokens(tokens, common) {
  const line = htmlElement("span", { class: "compared", dir: "auto" });
  tokens.forEach((token, place) => {
    if (place === tokens.length - 1 && token === "</s>") return;
    line.append(common[place] ? spellToken(token) : htmlElement("mark", {}, spellToken(token)));
  });
  return line;
}

function minus(number) {
  return number.toFixed(2).replace("-", "−");
}

// What edits did: `original` and `changed` are facts of a backend.
function drawComparison(original, changed) {
  const box = htmlElement("div", { class: "comparison", role: "status" });
  const same = original.ids.length === changed.ids.length && original.ids.every((id, place) => id === changed.ids[place]);
  const difference = changed.logProbability - original.logProbability;
  if (same && difference === 0) {
    box.append(htmlElement("p", {}, "Nothing changed: the same translation, with the same probability."));
    return box;
  }
  const tokens = [original.sentence.target, changed.sentence.target], common = commonTokens(...tokens);
  ["original", "changed"].forEach((name, side) => {
    const row = htmlElement("p", {});
    row.append(htmlElement("span", { class: "name" }, name), " ", markTokens(tokens[side], common[side]));
    box.append(row);
  });
  const differing = common[1].filter((kept) => !kept).length + common[0].filter((kept) => !kept).length;
  const words = same ? "The same translation" : `${differing} tokens differ`;
  const total = `log-probability ${minus(original.logProbability)} → ${minus(changed.logProbability)} (${difference < 0 ? "" : "+"}${minus(difference)})`;
  box.append(htmlElement("p", { class: "facts" }, `${words}; ${total}.`));
  return box;
}
