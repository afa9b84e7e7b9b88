"use strict";
// From the page's data to matrices. Weights are 16-bit parts of 65535: all high bytes, then all low bytes, gzipped.

async function readWeights(text) {
  const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = bytes.length / 2;
  const weights = new Uint16Array(count);
  for (let i = 0; i < count; i++) weights[i] = (bytes[i] << 8) | bytes[count + i];
  return weights;
}

// Finds where each sentence's weights start, in the order in which they were written: run, sentence, site.
function placeWeights(runs) {
  let offset = 0;
  for (const run of runs) {
    for (const sentence of run.sentences) {
      sentence.offsets = {};
      for (const [site, [layers, heads]] of Object.entries(run.sites)) {
        sentence.offsets[site] = offset;
        const { rows, columns } = tokensOf(sentence, data.sites[site].axes);
        offset += layers * heads * rows.length * columns.length;
      }
    }
  }
  return offset;
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

// One head's matrix, or the mean of a layer's heads ("mean"), as an array of rows.
function readMatrix(weights, run, sentence, site, layer, head) {
  const heads = run.sites[site][1];
  const { rows, columns } = tokensOf(sentence, data.sites[site].axes);
  const size = rows.length * columns.length;
  const wanted = head === "mean" ? [...Array(heads).keys()] : [head];
  const matrix = rows.map(() => new Float64Array(columns.length));
  for (const one of wanted) {
    let place = sentence.offsets[site] + (layer * heads + one) * size;
    for (const row of matrix) {
      for (let column = 0; column < row.length; column++) row[column] += weights[place++] / 65535 / wanted.length;
    }
  }
  return matrix;
}

// Applies the toggles to a matrix: words for subwords (columns added up, rows averaged), EOS left out.
function present(matrix, tokens, words, options) {
  let { rows, columns, rowWords, columnWords } = tokens;
  if (options.words) {
    const columnGroups = groupByWord(columns, columnWords, words.columns);
    const rowGroups = groupByWord(rows, rowWords, words.rows);
    matrix = rowGroups.map(({ places }) =>
      columnGroups.map((group) => {
        let total = 0;
        for (const t of places) for (const s of group.places) total += matrix[t][s];
        return total / places.length;
      }),
    );
    rows = rowGroups.map((group) => group.text);
    columns = columnGroups.map((group) => group.text);
    rowWords = rowGroups.map((group) => group.word);
    columnWords = columnGroups.map((group) => group.word);
  }
  if (options.hideEos) {
    const keptRows = rowWords.map((word, i) => (word === null ? -1 : i)).filter((i) => i >= 0);
    const keptColumns = columnWords.map((word, i) => (word === null ? -1 : i)).filter((i) => i >= 0);
    matrix = keptRows.map((t) => {
      const row = keptColumns.map((s) => matrix[t][s]);
      const total = row.reduce((sum, weight) => sum + weight, 0);
      return total > 0 ? row.map((weight) => weight / total) : row;
    });
    rows = keptRows.map((i) => rows[i]);
    columns = keptColumns.map((i) => columns[i]);
    rowWords = keptRows.map((i) => rowWords[i]);
    columnWords = keptColumns.map((i) => columnWords[i]);
  }
  return { matrix, rows, columns, rowWords, columnWords };
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
