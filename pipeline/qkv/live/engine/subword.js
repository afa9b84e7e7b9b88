"use strict";
// Encoding and decoding of SentencePiece (Kudo and Richardson 2018), for BPE and unigram models without normalisation.

const SPACE = "\u2581";
const UNKNOWN_PENALTY = 10;

class SubwordModel {
  // `model`: the result of `pack_tokenizer` in model_page.py. Its `reserved` are the ids of control and unknown pieces,
  // its `special` the ids that have no text.
  constructor(model) {
    Object.assign(this, model);
    const reserved = new Set(model.reserved);
    this.ids = new Map();
    model.pieces.forEach((piece, id) => { if (!reserved.has(id)) this.ids.set(piece, id); });
    this.longest = Math.max(...model.pieces.map((piece) => [...piece].length));
    const scores = model.scores.filter((_, id) => !reserved.has(id));
    this.lowest = Math.fround(Math.min(...scores) - UNKNOWN_PENALTY);
  }

  // Returns { ids, ends }: the ids of a text, without BOS and EOS, and the number of bytes up to the end of each.
  encode(text) {
    const { characters, ends } = prepare(text);
    const lengths = this.kind === "bpe" ? this.merge(characters) : this.likeliest(characters);
    const tokens = [];
    let index = 0;
    for (const length of lengths) {
      const id = this.ids.get(characters.slice(index, index + length).join("")) ?? this.unknown;
      index += length;
      // Adjacent unknown pieces become one token.
      if (id === this.unknown && tokens.at(-1)?.id === id) tokens.pop();
      tokens.push({ id, end: ends[index - 1] });
    }
    return { ids: tokens.map(({ id }) => id), ends: tokens.map(({ end }) => end) };
  }

  // BPE: merges the adjacent symbols with the best score, the leftmost first, until no two form a piece. Returns the
  // number of characters of each piece.
  merge(characters) {
    const symbols = [...characters];
    const score = (i) => (i + 1 < symbols.length ? this.scores[this.ids.get(symbols[i] + symbols[i + 1])] : undefined) ?? -Infinity;
    const pairs = symbols.map((_, i) => score(i));
    for (;;) {
      let best = 0;
      for (let i = 1; i < pairs.length; i++) if (pairs[i] > pairs[best]) best = i;
      if (!(pairs[best] > -Infinity)) return symbols.map((symbol) => [...symbol].length);
      symbols.splice(best, 2, symbols[best] + symbols[best + 1]);
      pairs.splice(best, 1);
      pairs[best] = score(best);
      if (best) pairs[best - 1] = score(best - 1);
    }
  }

  // Unigram: Viterbi's algorithm in float32. Of equally likely segmentations it takes the one whose last piece is
  // longest. Returns the number of characters of each piece.
  likeliest(characters) {
    const n = characters.length, best = new Float32Array(n + 1).fill(-Infinity), lengths = new Array(n + 1).fill(0);
    best[0] = 0;
    for (let start = 0; start < n; start++) {
      let piece = "", single = false;
      const reach = (length, score) => {
        const total = Math.fround(best[start] + Math.fround(score));
        if (!lengths[start + length] || total > best[start + length]) {
          best[start + length] = total;
          lengths[start + length] = length;
        }
      };
      for (let length = 1; length <= Math.min(this.longest, n - start); length++) {
        piece += characters[start + length - 1];
        const id = this.ids.get(piece);
        if (id === undefined) continue;
        reach(length, this.scores[id]);
        single ||= length === 1;
      }
      if (!single) reach(1, this.lowest);
    }
    const path = [];
    for (let end = n; end > 0; end -= lengths[end]) path.unshift(lengths[end]);
    return path;
  }

  decode(ids) {
    let text = "";
    for (const id of ids) {
      if (this.special.includes(id)) continue;
      if (id === this.unknown) text += " \u2047 ";
      else text += (text || !this.pieces[id].startsWith(SPACE) ? this.pieces[id] : this.pieces[id].slice(1)).replaceAll(SPACE, " ");
    }
    return text;
  }
}

// Returns { characters, ends }: the characters of a text, with a mark for each space between words and one before the
// first word, and the number of bytes up to the end of each.
function prepare(text) {
  const characters = [], ends = [];
  if (/^[\p{Z}\p{Cc}\p{Cf}]*$/u.test(text)) return { characters, ends }; // a blank line, see text/lines/line.py
  let bytes = 0, afterSpace = true;
  for (let character of text) {
    if (/^[\ud800-\udfff]$/.test(character)) character = "\ufffd"; // a lone surrogate
    bytes += new TextEncoder().encode(character).length;
    if (character === " " && afterSpace) {
      if (ends.length) ends[ends.length - 1] = bytes;
      continue;
    }
    if (!characters.length) { characters.push(SPACE); ends.push(bytes - new TextEncoder().encode(character).length); }
    afterSpace = character === " ";
    characters.push(afterSpace ? SPACE : character);
    ends.push(bytes);
  }
  while (characters.at(-1) === SPACE) { characters.pop(); ends.pop(); }
  return { characters, ends };
}
