"use strict";
// The backend of a model page, which translates in the browser; for its interface see panel/backend.js. Search is
// greedy, and heads can be switched off.

// Reads the model inside the page, which `pack` in model_page.py has written. Returns { header, arrays }.
async function unpackModel(text) {
  const bytes = await unpackBytes(text), start = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  const floats = halfFloats(), numbers = joinBytes(bytes.subarray(start)), arrays = {};
  let index = 0;
  for (const [name, shape] of header.arrays) {
    const data = new Float32Array(shape.reduce((product, size) => product * size, 1));
    for (let i = 0; i < data.length; i++) data[i] = floats[numbers[index++]];
    arrays[name] = { shape, data };
  }
  if (index !== numbers.length) throw new Error("the model's arrays do not fill its block");
  return { header, arrays };
}

// Returns the value of each 16-bit float, by its bits.
function halfFloats() {
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
  });
}

// Name of a site in the viewer -> its name in the model.
const MODEL_SITES = { cross: "cross", encoder: "encoder_self", decoder: "decoder_self" };
const PAUSE = 30; // milliseconds of computing between two updates of the page

class PageBackend {
  // `facts`: the facts of the page, see panel/backend.js. The other argument is the result of `unpackModel`.
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

  // Reads a text. Returns { text, ids, pieces, ends, cut }: the normalised text, its ids with EOS at the end, their
  // pieces, the number of bytes of `text` up to the end of each token, and whether tokens were left out.
  readText(typed) {
    const text = this.normalize(typed.toWellFormed ? typed.toWellFormed() : typed), encoded = this.subwords.encode(text);
    const kept = encoded.ids.slice(0, this.limit - 1), ids = [...kept, this.special.eos];
    if (!kept.length) throw new Error(say("live.nothing"));
    return { text, ids, pieces: this.spell(ids), ends: encoded.ends.slice(0, kept.length), cut: encoded.ids.length >= this.limit };
  }

  // Promises the translation of a text, by greedy search: { source, target, text, logProbabilities, likeliest, attention,
  // truncated }. `source` is the result of `readText`, `target` has ids and pieces, `text` is the translation; for the
  // others, and the arguments, see `Transformer.translate`.
  async translation(typed, { changes, pause, prefix } = {}) {
    const source = this.readText(typed), { ids, ...result } = await this.model.translate(source.ids, changes, pause, prefix);
    return { source, target: { ids, pieces: this.spell(ids) }, text: this.subwords.decode(ids), ...result };
  }

  // Promises one row of attention in numbers, as `row` of live_run.py. `site`: cross, encoder_self or decoder_self.
  // `target`: the ids of the translation, or null for the model's own. `query`: the position of the row.
  async row({ text, target = null, site, layer, head, query: row }) {
    const source = this.readText(text), ids = target ?? (await this.model.translate(source.ids)).ids;
    const { alone, ...facts } = this.model.inside(source.ids, ids, { site, layer, head, row });
    const keys = site === "decoder_self" ? [this.special.bos, ...ids] : source.ids;
    return {
      query: [...facts.query], keys: facts.keys.map((key) => [...key]), values: facts.values.map((value) => [...value]),
      products: facts.products, scale: facts.scale, scores: facts.scores, weights: [...facts.weights],
      tokens: this.spell(keys.slice(0, facts.keys.length)), words: this.spell(alone), lengths: facts.lengths, context: [...facts.context],
    };
  }

  async answer({ text, changes, prefix }, tell = () => {}) {
    const read = this.readText(text), { text: source, ids } = read;
    const off = new Set(changes.map(({ site, layer, head }) => `${site}/${layer}/${head}`));
    let last = performance.now();
    const pause = async (done) => {
      if (done && performance.now() - last < PAUSE) return;
      tell(done ? say("live.translating.tokens", { count: done }) : say("live.translating"));
      await new Promise((resolve) => setTimeout(resolve));
      last = performance.now();
    };
    const result = await this.model.translate(ids, { off }, pause, prefix);
    const sentence = {
      sourceText: source, reference: null, hypothesis: this.subwords.decode(result.ids), plain: null,
      source: read.pieces, target: this.spell(result.ids),
      sourceWords: [...this.wordsOfSource(source, read.ends), null],
      targetWords: this.wordsOfTarget(result.ids),
      logProbabilities: result.logProbabilities, likelihood: mean(result.logProbabilities),
      mode: "greedy", truncated: result.truncated || read.cut, score: null, confidence: null, gold: [],
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

  // Returns the index of the word of each token of the source, null for none. `ends`: the number of bytes up to the end
  // of each token.
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

  // Returns the index of the word of each token of the translation, null for none; see `Tokenizer.words_from_ids`.
  wordsOfTarget(ids) {
    const special = Object.values(this.special);
    if (this.units.target !== "spaces") return ids.map((id, index) => (special.includes(id) ? null : index));
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
    return words.map((word) => (word === current + 1 ? null : word)); // a lone space mark at the end is not a word
  }
}

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length);

function join(arrays) {
  const joined = new Float32Array(arrays.reduce((sum, array) => sum + array.length, 0));
  let index = 0;
  for (const array of arrays) {
    joined.set(array, index);
    index += array.length;
  }
  return joined;
}

// Adds the measures of the sentence list to a sentence; see inspection/measures.py of the Python package.
function measure(sentence, layers, heads) {
  const S = sentence.source.length, T = sentence.target.length, covered = new Float64Array(S), marked = new Map();
  let entropy = 0, eos = 0;
  for (const weights of layers) {
    weights.forEach((weight, index) => {
      if (weight > 0) entropy -= weight * Math.log(weight);
      if (index % S === S - 1) eos += weight;
      covered[index % S] += weight;
    });
  }
  const rows = layers.length * heads * T, coverage = [...covered].map((total) => total / rows * S);
  sentence.sourceWords.forEach((word, index) => {
    if (word !== null) marked.set(word, (marked.get(word) ?? true) && coverage[index] < .2);
  });
  const least = Math.min(...coverage.filter((_, index) => sentence.sourceWords[index] !== null));
  sentence.measures = { entropy: entropy / rows, eos_share: eos / rows, least_coverage: Number.isFinite(least) ? least : 0 };
  sentence.underAttendedWords = [...marked].filter(([, all]) => all).map(([word]) => word);
}

// Returns the backend of the model inside the page.
async function openModel(facts) {
  try {
    return new PageBackend(facts, await unpackModel(document.getElementById("model").textContent));
  } catch (error) {
    throw new Error(say("live.damaged", { message: error.message }));
  }
}
