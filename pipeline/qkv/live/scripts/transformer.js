"use strict";
// The Transformer and greedy search for one sentence.

class Transformer {
  // settings: see `model_settings` of packed_model.py; arrays: { name: { shape, data } }.
  constructor(settings, arrays) {
    Object.assign(this, { settings, arrays });
    this.activate = ACTIVATIONS[settings.activation];
  }

  take(name) {
    if (!this.arrays[name]) throw new Error(`the model has no weights ${name}`);
    return this.arrays[name];
  }

  dense(x, name, first, outputs) {
    return linear(x, this.take(`${name}/kernel`), this.take(`${name}/bias`), first, outputs);
  }

  norm(x, name) {
    return normalize(x, this.take(`${name}/gamma`), this.take(`${name}/beta`));
  }

  // The residual connection around a sublayer, with the normalisation before or after it.
  residual(x, name, sublayer) {
    const pre = this.settings.norm === "pre", norm = `${name}_residual/norm`;
    const sum = add(x, sublayer(pre ? this.norm(x, norm) : x));
    return pre ? sum : this.norm(sum, norm);
  }

  feedForward(x, block) {
    return this.residual(x, `${block}/feed_forward`, (y) =>
      this.dense(this.dense(y, `${block}/feed_forward/inner`).map(this.activate), `${block}/feed_forward/outer`));
  }

  // The vectors of positions from `first` on; null if positions turn queries and keys instead.
  positions(side, first, count) {
    const { d_model, positions } = this.settings;
    if (positions === "rotary") return null;
    const rows = new Float32Array(count * d_model);
    for (let i = 0; i < count; i++) {
      rows.set(positions === "learned"
        ? this.take(`${side}_positions/table`).data.subarray((first + i) * d_model, (first + i + 1) * d_model)
        : sinusoid(first + i, d_model, positions === "sinusoidal_halves"), i * d_model);
    }
    return rows;
  }

  // Embeddings of ids, and what is added to queries and keys.
  embed(side, ids, first) {
    const { d_model, tables, scale_embeddings, positions_on } = this.settings, { data } = this.take(`${tables[side]}/table`);
    const factor = scale_embeddings ? Math.sqrt(d_model) : 1, x = new Float32Array(ids.length * d_model);
    ids.forEach((id, row) => { for (let i = 0; i < d_model; i++) x[row * d_model + i] = data[id * d_model + i] * factor; });
    const places = this.positions(side, first, ids.length);
    return positions_on === "input" ? { x: add(x, places), places: null } : { x, places };
  }

  // Queries, keys and values of a self-attention from position `from` on; positions are not in the values.
  selfProject(x, places, block, { heads, keySize, valueSize }, from) {
    const name = `${block}/self_attention/qkv`, placed = add(x, places), width = heads * keySize;
    const both = [0, width].map((first) => this.dense(placed, name, first, width));
    if (this.settings.positions === "rotary") for (const one of both) rotate(one, heads, keySize, from);
    return [...both, this.dense(x, name, 2 * width, heads * valueSize)];
  }

  encode(ids, off) {
    const { sites, encoder_layers, decoder_layers } = this.settings, S = ids.length, weights = [];
    let { x, places } = this.embed("source", ids, 0);
    for (let layer = 0; layer < encoder_layers; layer++) {
      const block = `encoder_${layer}`;
      x = this.residual(x, `${block}/self_attention`, (y) => {
        const [q, k, v] = this.selfProject(y, places, block, sites.encoder_self, 0);
        const found = attend(q, k, v, S, sites.encoder_self, () => S, (h) => off.has(`encoder_self/${layer}/${h}`));
        weights.push(found.weights);
        return this.dense(found.context, `${block}/self_attention/output`);
      });
      x = this.feedForward(x, block);
    }
    if (this.settings.norm === "pre") x = this.norm(x, "encoder_norm");
    const placed = add(x, places), memory = [];
    for (let layer = 0; layer < decoder_layers; layer++) {
      const name = `decoder_${layer}/cross_attention`;
      memory.push({ keys: this.dense(placed, `${name}/key`), values: this.dense(x, `${name}/value`) });
    }
    return { memory, S, weights };
  }

  // One step: the log-probabilities after a token, its weights, and its keys and values added to the cache.
  step(id, position, encoded, cache, off) {
    const { sites, decoder_layers, tables } = this.settings, { heads, keySize, valueSize } = sites.decoder_self;
    const weights = { decoder_self: [], cross: [] };
    let { x, places } = this.embed("target", [id], position);
    for (let layer = 0; layer < decoder_layers; layer++) {
      const block = `decoder_${layer}`, kept = cache[layer];
      x = this.residual(x, `${block}/self_attention`, (y) => {
        const [q, k, v] = this.selfProject(y, places, block, sites.decoder_self, position);
        kept.keys.set(k, position * heads * keySize);
        kept.values.set(v, position * heads * valueSize);
        const found = attend(q, kept.keys, kept.values, position + 1, sites.decoder_self, () => position + 1,
          (h) => off.has(`decoder_self/${layer}/${h}`));
        weights.decoder_self.push(found.weights);
        return this.dense(found.context, `${block}/self_attention/output`);
      });
      x = this.residual(x, `${block}/cross_attention`, (y) => {
        const q = this.dense(add(y, places), `${block}/cross_attention/query`), { keys, values } = encoded.memory[layer];
        const found = attend(q, keys, values, encoded.S, sites.cross, () => encoded.S, (h) => off.has(`cross/${layer}/${h}`));
        weights.cross.push(found.weights);
        return this.dense(found.context, `${block}/cross_attention/output`);
      });
      x = this.feedForward(x, block);
    }
    if (this.settings.norm === "pre") x = this.norm(x, "decoder_norm");
    return { logProbabilities: this.logProbabilities(x, this.take(`${tables.output}/table`), this.arrays[`${tables.output}/bias`]), weights };
  }

  logProbabilities(x, table, bias) {
    const [vocabulary, width] = table.shape, { data } = table, logits = new Float64Array(vocabulary);
    let most = -Infinity, total = 0;
    for (let id = 0, place = 0; id < vocabulary; id++) {
      let logit = bias ? bias.data[id] : 0;
      for (let i = 0; i < width; i++, place++) logit += x[i] * data[place];
      logits[id] = logit;
      if (logit > most) most = logit;
    }
    for (const logit of logits) total += Math.exp(logit - most);
    const shift = most + Math.log(total);
    return logits.map((logit) => logit - shift);
  }

  // The translation of ids, which end in EOS: { ids, logProbabilities, likeliest, truncated, attention }, where
  // `attention` has for each site the weights of every layer and head, row after row, and `likeliest` for each token
  // the [id, log-probability] of the likeliest ones there. `off` is a set of "site/layer/head"; the translation begins
  // with the ids of `prefix`; `pause` is awaited before each token, with the number of tokens so far and the largest one.
  async translate(source, off = new Set(), pause = () => {}, prefix = []) {
    const { sites, decoder_layers, limits, special: { pad, bos, eos } } = this.settings;
    const usual = Math.trunc(limits.max_target_ratio * (source.length - 1)) + limits.max_target_extra;
    const longest = Math.min(Math.max(usual, prefix.length && prefix.length + limits.max_target_extra), limits.max_positions);
    const { heads, keySize, valueSize } = sites.decoder_self;
    const cache = Array.from({ length: decoder_layers }, () => ({
      keys: new Float32Array(longest * heads * keySize), values: new Float32Array(longest * heads * valueSize),
    }));
    await pause(0, longest);
    const encoded = this.encode(source, off), ids = [], logProbabilities = [], likeliest = [], steps = [];
    while (ids.length < longest && ids.at(-1) !== eos) {
      await pause(ids.length, longest);
      const found = this.step(ids.at(-1) ?? bos, ids.length, encoded, cache, off);
      const banned = new Set([pad, bos, ...(ids.length < limits.min_length ? [eos] : []), ...repeats(ids, limits.no_repeat_ngram)]);
      let best = prefix[ids.length] ?? -1;
      if (best < 0) {
        found.logProbabilities.forEach((value, id) => {
          if (!banned.has(id) && (best < 0 || value > found.logProbabilities[best])) best = id;
        });
      }
      likeliest.push(largest(found.logProbabilities, SHOWN_TOKENS));
      ids.push(best);
      logProbabilities.push(found.logProbabilities[best]);
      steps.push(found.weights);
    }
    const attention = { encoder_self: encoded.weights, decoder_self: [], cross: [] };
    for (let layer = 0; layer < decoder_layers; layer++) {
      for (const [site, columns] of [["decoder_self", ids.length], ["cross", encoded.S]]) {
        attention[site].push(stack(steps.map((step) => step[site][layer]), sites[site].heads, columns));
      }
    }
    return { ids, logProbabilities, likeliest, truncated: ids.at(-1) !== eos, attention };
  }
}

const SHOWN_TOKENS = 8; // as in alternatives.py

// The [id, value] of the largest values, the largest first; of equal ones the first.
function largest(values, count) {
  const found = [];
  values.forEach((value, id) => {
    if (found.length === count && value <= found[count - 1][1]) return;
    let place = found.length;
    while (place > 0 && found[place - 1][1] < value) place--;
    found.splice(place, 0, [id, value]);
    found.length = Math.min(found.length, count);
  });
  return found;
}

// The tokens that would repeat an n-gram.
function repeats(ids, n) {
  const followers = [], last = ids.length - n + 1;
  for (let start = 0; n && start < last; start++) {
    let same = true;
    for (let i = 0; i < n - 1; i++) same &&= ids[start + i] === ids[last + i];
    if (same) followers.push(ids[start + n - 1]);
  }
  return followers;
}

// Puts one row of weights for each step, of every head, in the order head, step, key; keys that a step did not see are 0.
function stack(rows, heads, columns) {
  const result = new Float32Array(heads * rows.length * columns);
  rows.forEach((row, t) => {
    const seen = row.length / heads;
    for (let h = 0; h < heads; h++) result.set(row.subarray(h * seen, (h + 1) * seen), (h * rows.length + t) * columns);
  });
  return result;
}
