"use strict";
// The page's weights, and matrices as they are shown: words for subwords, with or without EOS.

// The bytes of a text in base64, gzipped: their sum at its end is checked while they are unpacked.
async function unpackBytes(text) {
  const characters = atob(text.trim()), packed = new Uint8Array(characters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = characters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// 16-bit numbers from bytes that hold all their high bytes, then all their low bytes.
function joinBytes(bytes) {
  const numbers = new Uint16Array(Math.ceil(bytes.length / 2));
  for (let i = 0; i < numbers.length; i++) numbers[i] = (bytes[i] << 8) | bytes[numbers.length + i];
  return numbers;
}

// Decodes weights in parts of 65535.
async function readWeights(text) {
  return joinBytes(await unpackBytes(text));
}

// The tokens and words of a matrix: `axes` say which sentence its rows (queries) and columns (keys) run over, `side`
// which target tokens label the rows. Keys of the target are always its input tokens.
function tokensOf(sentence, axes, side = "output") {
  const source = { tokens: sentence.source, words: sentence.sourceWords };
  const output = { tokens: sentence.target, words: sentence.targetWords };
  const input = { tokens: ["<s>", ...sentence.target.slice(0, -1)], words: [null, ...sentence.targetWords.slice(0, -1)] };
  const rows = axes[0] === "source" ? source : side === "output" ? output : input;
  const columns = axes[1] === "source" ? source : input;
  return { rows: rows.tokens, columns: columns.tokens, rowWords: rows.words, columnWords: columns.words };
}

// The weights of one sentence: where each site's begin in an array, which may hold other sentences' weights too.
class SentenceWeights {
  // `sites`: [layers, heads] by name, in the order in which the weights were written; `axes`: of each site by name.
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

  // One head's matrix, or the mean of a layer's heads ("mean"), as an array of rows.
  matrix(site, layer, head) {
    const { start, heads, rows, columns } = this.places[site];
    const wanted = head === "mean" ? [...Array(heads).keys()] : [head];
    const matrix = Array.from({ length: rows }, () => new Float64Array(columns));
    for (const one of wanted) {
      let place = start + (layer * heads + one) * rows * columns;
      for (const row of matrix) {
        for (let column = 0; column < columns; column++) row[column] += (this.array[place++] * this.unit) / wanted.length;
      }
    }
    return matrix;
  }
}

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

// The unit of words on each side where spaces do not separate them, in a sentence.
function describeUnits(units) {
  const sides = Object.entries(units).filter(([, unit]) => unit !== "spaces");
  return sides.map(([side, unit]) => `Words of the ${side} are its ${unit}.`).join(" ");
}
