"use strict";
// The weights of the page, and the shown matrices: by words or subwords, with or without EOS.

// Unpacks a gzip file from its text in base64. The browser verifies gzip's checksum, and throws an error if it is
// wrong.
async function unpackBytes(text) {
  const characters = atob(text.trim()), packed = new Uint8Array(characters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = characters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Joins bytes to 16-bit numbers: all high bytes come first, then all low bytes; see `byte_planes` in page.py.
function joinBytes(bytes) {
  const numbers = new Uint16Array(Math.ceil(bytes.length / 2));
  for (let i = 0; i < numbers.length; i++) numbers[i] = (bytes[i] << 8) | bytes[numbers.length + i];
  return numbers;
}

// Decodes the text of weights, which are stored as multiples of 1 / 65535; see `encode_weights` in page.py.
async function readWeights(text) {
  return joinBytes(await unpackBytes(text));
}

// Returns {rows, columns, rowWords, columnWords}, the tokens and words of a matrix. `axes`: the sentences of its rows
// (queries) and columns (keys). `side`: the kind of target tokens that label the rows. Target keys are always input
// tokens.
function tokensOf(sentence, axes, side = "output") {
  const source = { tokens: sentence.source, words: sentence.sourceWords };
  const output = { tokens: sentence.target, words: sentence.targetWords };
  const input = { tokens: ["<s>", ...sentence.target.slice(0, -1)], words: [null, ...sentence.targetWords.slice(0, -1)] };
  const rows = axes[0] === "source" ? source : side === "output" ? output : input;
  const columns = axes[1] === "source" ? source : input;
  return { rows: rows.tokens, columns: columns.tokens, rowWords: rows.words, columnWords: columns.words };
}

// The weights of a sentence, in an array that may hold the weights of other sentences too.
class SentenceWeights {
  // `sites`: site -> [layers, heads], in the order of the weights. `axes`: site -> its axes. `start`: the index of the
  // sentence's first weight in the array.
  constructor(sentence, sites, axes, array, start = 0) {
    this.array = array;
    this.unit = array instanceof Uint16Array ? 1 / 65535 : 1;
    this.places = {};
    this.end = start;
    for (const [site, [layers, heads]] of Object.entries(sites)) {
      const { rows, columns } = tokensOf(sentence, axes[site]);
      this.places[site] = { start: this.end, heads, rows: rows.length, columns: columns.length };
      this.end += layers * heads * rows.length * columns.length;
    }
  }

  // Returns the matrix of a head, or the mean of a layer's heads for "mean", as an array of rows.
  matrix(site, layer, head) {
    const { start, heads, rows, columns } = this.places[site];
    const wanted = head === "mean" ? [...Array(heads).keys()] : [head];
    const matrix = Array.from({ length: rows }, () => new Float64Array(columns));
    for (const number of wanted) {
      let place = start + (layer * heads + number) * rows * columns;
      for (const row of matrix) {
        for (let column = 0; column < columns; column++) row[column] += (this.array[place++] * this.unit) / wanted.length;
      }
    }
    return matrix;
  }
}

// Applies the controls to a matrix: by words (columns are summed, rows averaged), and without EOS.
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

// Removes EOS and BOS from a matrix, and scales each row to a sum of 1.
function withoutEos({ matrix, rows, columns, rowWords, columnWords }) {
  const withWords = (words) => [...words.keys()].filter((place) => words[place] !== null);
  const keptRows = withWords(rowWords), keptColumns = withWords(columnWords);
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

// Returns the words of a sentence that spaces separate; null if the tokens spell the words.
function wordsOf(run, sentence, side) {
  if (run.units[side] !== "spaces") return null;
  return (side === "source" ? sentence.sourceText : sentence.hypothesis).split(" ").filter(Boolean);
}

// Returns the tokens of each word, in order: [{word, text, places}]. A token without a word, such as EOS, is a separate
// group.
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

// Returns a note on the units of words, for the sides on which spaces do not separate words.
function describeUnits(units) {
  const sides = Object.entries(units).filter(([, unit]) => unit !== "spaces");
  return sides.map(([side, unit]) => say(`viewer.units.${unit}.${side}`)).join(" ");
}
