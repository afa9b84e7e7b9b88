"use strict";
// The page's weights, and the tokens of a matrix.

// Decodes 16-bit parts of 65535: all high bytes, then all low bytes, gzipped, as base64.
async function readWeights(text) {
  const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = bytes.length / 2;
  const weights = new Uint16Array(count);
  for (let i = 0; i < count; i++) weights[i] = (bytes[i] << 8) | bytes[count + i];
  return weights;
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

// The weights of one sentence: where each site's begin in an array, which may hold those of other sentences too.
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
