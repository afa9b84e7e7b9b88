"use strict";
// Translates in the page: the panel's backend where the model is inside, see panel/backend.js. Search is greedy, and heads
// can be switched off.

// Reads the model that the page holds, as `pack` in model_page.py writes it.
async function unpackModel(text) {
  const bytes = await unpackBytes(text), start = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  const floats = halfFloats(), numbers = joinBytes(bytes.subarray(start)), arrays = {};
  let place = 0;
  for (const [name, shape] of header.arrays) {
    const data = new Float32Array(shape.reduce((product, size) => product * size, 1));
    for (let i = 0; i < data.length; i++) data[i] = floats[numbers[place++]];
    arrays[name] = { shape, data };
  }
  if (place !== numbers.length) throw new Error("the model's arrays do not fill its block");
  return { header, arrays };
}

// The number of each 16-bit float.
function halfFloats() {
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
  });
}

const MODEL_SITES = { cross: "cross", encoder: "encoder_self", decoder: "decoder_self" }; // the viewer's and the model's
const PAUSE = 30; // milliseconds after which the browser may draw

class PageBackend {
  // `facts`: what the panel knows of the run; `model`: {header, arrays}, see `unpackModel`.
  constructor(facts, { header, arrays }) {
    Object.assign(this, { ...facts, beams: [1], rows: false });
    this.model = new Transformer(header.model, arrays);
    this.subwords = new SubwordModel(header.tokenizer);
    this.unread = header.tokenizer.unread;
    this.normalize = typedText(header.typed, this.unread);
    this.units = header.units;
    this.special = header.model.special;
    this.limit = header.model.limits.max_positions;
  }

  async answer({ text, changes, prefix }, tell = () => {}) {
    const source = this.normalize(text.toWellFormed ? text.toWellFormed() : text), found = this.subwords.encode(source);
    const cut = found.ids.length >= this.limit, sourceIds = found.ids.slice(0, this.limit - 1);
    const zeroed = new Set(changes.map(({ site, layer, head }) => `${site}/${layer}/${head}`));
    let last = performance.now();
    const pause = async (done) => {
      if (done && performance.now() - last < PAUSE) return;
      tell(done ? `translating: ${done} tokens …` : "translating …");
      await new Promise((resolve) => setTimeout(resolve));
      last = performance.now();
    };
    if (!sourceIds.length) throw new Error("there is nothing to translate in this text");
    const ids = [...sourceIds, this.special.eos], result = await this.model.translate(ids, zeroed, pause, prefix);
    const sentence = {
      sourceText: source, reference: null, hypothesis: this.subwords.decode(result.ids), plain: null,
      source: this.spell(ids), target: this.spell(result.ids),
      sourceWords: [...this.wordsOfSource(source, found.ends.slice(0, sourceIds.length)), null],
      targetWords: this.wordsOfTarget(result.ids),
      logProbabilities: result.logProbabilities, likelihood: mean(result.logProbabilities),
      mode: "greedy", truncated: result.truncated || cut, score: null, gold: [],
    };
    measure(sentence, result.attention.cross, this.model.settings.sites.cross.heads);
    const words = this.units.source === "spaces" ? source.split(" ").filter(Boolean) : sentence.source;
    sentence.underAttended = sentence.underAttendedWords.map((word) => words[word].replaceAll(SPACE, "")).filter(Boolean).join(" ");
    const logProbability = result.logProbabilities.reduce((sum, value) => sum + value, 0);
    return {
      sentence, units: this.units, ids: result.ids, logProbability, prefixTokens: prefix.length,
      difference: describeUnread(text, this.unread),
      weights: join(Object.values(MODEL_SITES).flatMap((site) => result.attention[site])),
      alternatives: result.likeliest.map((row) => row.map(([id, value]) => [id, this.subwords.pieces[id], value])),
      nBest: [{ text: sentence.hypothesis, ids: result.ids, score: logProbability, logProbability }],
    };
  }

  spell(ids) {
    return ids.map((id) => this.subwords.pieces[id]);
  }

  // The word of each token of the source, by the bytes up to its end.
  wordsOfSource(text, ends) {
    if (this.units.source !== "spaces") return [...ends.keys()];
    const wordEnds = [], encoder = new TextEncoder();
    let bytes = 0;
    for (const word of text.split(" ")) {
      bytes += encoder.encode(word).length;
      if (word) wordEnds.push(bytes);
      bytes++;
    }
    return ends.map((end) => {
      const word = wordEnds.findIndex((wordEnd) => wordEnd > end - 1);
      return word < 0 ? null : word;
    });
  }

  // The word of each token of the translation, as `Tokenizer.words_from_ids`.
  wordsOfTarget(ids) {
    const special = Object.values(this.special);
    if (this.units.target !== "spaces") return ids.map((id, place) => (special.includes(id) ? null : place));
    let current = -1, atStart = true;
    const words = ids.map((id) => {
      if (special.includes(id)) return null;
      const piece = this.subwords.pieces[id], unknown = id === this.subwords.unknown;
      atStart ||= piece.startsWith(SPACE) || unknown;
      const word = atStart ? current + 1 : current;
      if (atStart && piece !== SPACE) {
        current++;
        atStart = false;
      }
      atStart ||= unknown;
      return word;
    });
    return words.map((word) => (word === current + 1 ? null : word)); // a lone mark at the end is no word
  }
}

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length);

function join(arrays) {
  const joined = new Float32Array(arrays.reduce((sum, array) => sum + array.length, 0));
  let place = 0;
  for (const array of arrays) {
    joined.set(array, place);
    place += array.length;
  }
  return joined;
}

// Takes the measures that the list shows, as inspection/measures.py of the Python package does.
function measure(sentence, layers, heads) {
  const S = sentence.source.length, T = sentence.target.length, covered = new Float64Array(S), marked = new Map();
  let entropy = 0, eos = 0;
  for (const weights of layers) {
    weights.forEach((weight, place) => {
      if (weight > 0) entropy -= weight * Math.log(weight);
      if (place % S === S - 1) eos += weight;
      covered[place % S] += weight;
    });
  }
  const rows = layers.length * heads * T, coverage = [...covered].map((total) => total / rows * S);
  sentence.sourceWords.forEach((word, place) => {
    if (word !== null) marked.set(word, (marked.get(word) ?? true) && coverage[place] < .2);
  });
  const least = Math.min(...coverage.filter((_, place) => sentence.sourceWords[place] !== null));
  sentence.measures = { entropy: entropy / rows, eos_share: eos / rows, least_coverage: Number.isFinite(least) ? least : 0 };
  sentence.underAttendedWords = [...marked].filter(([, all]) => all).map(([word]) => word);
}

// Opens the model that the page holds.
async function openModel(facts) {
  try {
    return new PageBackend(facts, await unpackModel(document.getElementById("model").textContent));
  } catch (error) {
    throw new Error(`it is damaged: the model inside is not the one it was written with (${error.message}). Get the file again`);
  }
}
