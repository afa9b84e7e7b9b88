"use strict";
// SentencePiece's encoding and decoding (Kudo and Richardson 2018), of BPE and unigram models without normalisation.

const SPACE = "\u2581";
const UNKNOWN_PENALTY = 10;

class SubwordModel {
  // model: { kind, pieces, scores, reserved: ids of control and unknown pieces, unknown, special: ids left out of text }.
  constructor(model) {
    Object.assign(this, model);
    const reserved = new Set(model.reserved);
    this.ids = new Map();
    model.pieces.forEach((piece, id) => { if (!reserved.has(id)) this.ids.set(piece, id); });
    this.longest = Math.max(...model.pieces.map((piece) => [...piece].length));
    const scores = model.scores.filter((_, id) => !reserved.has(id));
    this.lowest = Math.fround(Math.min(...scores) - UNKNOWN_PENALTY);
  }

  // The ids of a text, without BOS and EOS, and for each the number of the text's bytes up to its end.
  encode(text) {
    const { characters, ends } = prepare(text);
    const lengths = this.kind === "bpe" ? this.merge(characters) : this.likeliest(characters);
    const tokens = [];
    let place = 0;
    for (const length of lengths) {
      const id = this.ids.get(characters.slice(place, place + length).join("")) ?? this.unknown;
      place += length;
      // Neighbouring unknown pieces are one token.
      if (id === this.unknown && tokens.at(-1)?.id === id) tokens.pop();
      tokens.push({ id, end: ends[place - 1] });
    }
    return { ids: tokens.map(({ id }) => id), ends: tokens.map(({ end }) => end) };
  }

  // Merges the neighbours of the best score, from the left, until no two make a piece.
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

  // Viterbi's algorithm in float32: of equally likely segmentations, the one whose last piece begins first.
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

// The characters of a text with a mark for each space between words and one before the first word, and for each the
// number of bytes up to its end.
function prepare(text) {
  const characters = [], ends = [];
  if (/^[\p{Z}\p{Cc}\p{Cf}]*$/u.test(text)) return { characters, ends }; // nothing to be seen, as text/lines/line.py has it
  let bytes = 0, afterSpace = true;
  for (let character of text) {
    if (/^[\ud800-\udfff]$/.test(character)) character = "\ufffd"; // half a character
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
