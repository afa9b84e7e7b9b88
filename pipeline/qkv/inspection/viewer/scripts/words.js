"use strict";
// Matrices as they are shown: words for subwords, with or without EOS.

// Applies the toggles to a matrix: words for subwords (columns added up, rows averaged), EOS left out.
function present(matrix, tokens, words, options) {
  let shown = { matrix, ...tokens };
  if (options.words) shown = mergeWords(shown, words);
  return options.hideEos ? withoutEos(shown) : shown;
}

function mergeWords({ matrix, rows, columns, rowWords, columnWords }, words) {
  const columnGroups = groupByWord(columns, columnWords, words.columns);
  const rowGroups = groupByWord(rows, rowWords, words.rows);
  const share = (places, group) => {
    let total = 0;
    for (const t of places) for (const s of group.places) total += matrix[t][s];
    return total / places.length;
  };
  return {
    matrix: rowGroups.map(({ places }) => columnGroups.map((group) => share(places, group))),
    rows: rowGroups.map((group) => group.text),
    columns: columnGroups.map((group) => group.text),
    rowWords: rowGroups.map((group) => group.word),
    columnWords: columnGroups.map((group) => group.word),
  };
}

// Leaves out EOS and BOS, and makes each row sum to one again.
function withoutEos({ matrix, rows, columns, rowWords, columnWords }) {
  const kept = (words) => [...words.keys()].filter((place) => words[place] !== null);
  const keptRows = kept(rowWords), keptColumns = kept(columnWords);
  const renormalise = (row) => {
    const total = row.reduce((sum, weight) => sum + weight, 0);
    return total > 0 ? row.map((weight) => weight / total) : row;
  };
  return {
    matrix: keptRows.map((t) => renormalise(keptColumns.map((s) => matrix[t][s]))),
    rows: keptRows.map((t) => rows[t]),
    columns: keptColumns.map((s) => columns[s]),
    rowWords: keptRows.map((t) => rowWords[t]),
    columnWords: keptColumns.map((s) => columnWords[s]),
  };
}

// The words of a sentence where spaces separate them; null where its tokens spell them.
function wordsOf(run, sentence, side) {
  if (run.units[side] !== "spaces") return null;
  return (side === "source" ? sentence.sourceText : sentence.hypothesis).split(" ").filter(Boolean);
}

// Groups the pieces of each word, in the order of the tokens; a token without a word (EOS, BOS) is a group of its own.
function groupByWord(tokens, words, texts) {
  const groups = [];
  tokens.forEach((token, place) => {
    const word = words[place];
    const last = groups.at(-1);
    if (word !== null && last && last.word === word) last.places.push(place);
    else groups.push({ word, text: word !== null && texts ? (texts[word] ?? token) : token, places: [place] });
  });
  if (texts) return groups;
  const spell = ({ places }) => places.map((place) => tokens[place].replaceAll("\u2581", "")).join("");
  return groups.map((group) => (group.word === null ? group : { ...group, text: spell(group) || group.text }));
}

// Which sides have words that are not separated by spaces, and what counts as a word there.
function describeUnits(units) {
  const sides = Object.entries(units).filter(([, unit]) => unit !== "spaces");
  return sides.map(([side, unit]) => `Words of the ${side} are its ${unit}.`).join(" ");
}
