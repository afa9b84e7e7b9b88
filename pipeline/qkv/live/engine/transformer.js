"use strict";
// The Transformer and greedy search, for one sentence, in typed arrays. Matrices are Float32Array, row after row. A
// kernel has the shape [inputs, outputs], as in Keras. Letters: T target positions, S source positions.

// Computes x W + b for `outputs` columns of the kernel, from column `first` on.
function linear(x, kernel, bias, first = 0, outputs = kernel.shape[1] - first) {
  const [inputs, width] = kernel.shape, k = kernel.data, rows = x.length / inputs;
  const result = new Float32Array(rows * outputs);
  for (let row = 0; row < rows; row++) {
    const y = result.subarray(row * outputs, (row + 1) * outputs), start = row * inputs;
    if (bias) y.set(bias.data.subarray(first, first + outputs));
    let i = 0;
    for (; i + 3 < inputs; i += 4) { // four rows of the kernel at once, so that y is read and written less often
      const x0 = x[start + i], x1 = x[start + i + 1], x2 = x[start + i + 2], x3 = x[start + i + 3];
      let index = i * width + first;
      for (let j = 0; j < outputs; j++, index++) {
        y[j] += x0 * k[index] + x1 * k[index + width] + x2 * k[index + 2 * width] + x3 * k[index + 3 * width];
      }
    }
    for (; i < inputs; i++) {
      const input = x[start + i];
      for (let j = 0, index = i * width + first; j < outputs; j++, index++) y[j] += input * k[index];
    }
  }
  return result;
}

function add(x, y) {
  return y ? x.map((value, i) => value + y[i]) : x;
}

function normalize(x, gamma, beta) {
  const width = gamma.data.length, result = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += width) {
    let mean = 0, variance = 0;
    for (let i = 0; i < width; i++) mean += x[start + i] / width;
    for (let i = 0; i < width; i++) variance += (x[start + i] - mean) ** 2 / width;
    const inverse = 1 / Math.sqrt(variance + 1e-5);
    for (let i = 0; i < width; i++) result[start + i] = (x[start + i] - mean) * inverse * gamma.data[i] + beta.data[i];
  }
  return result;
}

// Computes the error function to 1.2e-7 (Press et al. 1992, section 6.2).
function erf(x) {
  const t = 1 / (1 + Math.abs(x) / 2);
  const terms = [.17087277, -.82215223, 1.48851587, -1.13520398, .27886807, -.18628806, .09678418, .37409196, 1.00002368, -1.26551223];
  const tail = t * Math.exp(-x * x + terms.reduce((sum, term) => sum * t + term));
  return x >= 0 ? 1 - tail : tail - 1;
}

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => x / 2 * (1 + erf(x / Math.SQRT2)),
  silu: (x) => x / (1 + Math.exp(-x)),
};

// Returns the vector of a position, sines and cosines, alternating or as two halves; see `sinusoidal_positions` in
// model/embedding.py.
function sinusoid(position, width, halves) {
  const row = new Float32Array(width), sines = Math.ceil(width / 2);
  for (let i = 0; i < width; i++) {
    const pair = i >> 1, angle = position / 10000 ** (2 * pair / width);
    row[halves ? (i % 2 ? sines + pair : pair) : i] = i % 2 ? Math.cos(angle) : Math.sin(angle);
  }
  return row;
}

// Rotates coordinates i and size / 2 + i of queries or keys by the angle of their position. Changes `x`. `first` is the
// position of the first row. See `rotate` in the Python package.
function rotate(x, heads, size, first) {
  const half = size / 2;
  for (let start = 0; start < x.length; start += size) {
    const position = first + Math.floor(start / (heads * size));
    for (let i = 0; i < half; i++) {
      const angle = position / 10000 ** (2 * i / size), cosine = Math.cos(angle), sine = Math.sin(angle);
      const firstHalf = x[start + i], secondHalf = x[start + half + i];
      x[start + i] = firstHalf * cosine - secondHalf * sine;
      x[start + half + i] = secondHalf * cosine + firstHalf * sine;
    }
  }
}

// Computes attention: query t attends to the first `visible(t)` of the S keys. Returns { context, weights }, the
// weights in the order head, query, key. The context of a head for which `isOff(h)` is true is zero. `sharpness`: a
// factor on the scores before the softmax; 0 makes all weights equal, and Infinity the largest weight 1.
function attend(query, keys, values, S, { heads, size, scale, sharpness = 1 }, visible, isOff) {
  const T = query.length / (heads * size), context = new Float32Array(query.length);
  const weights = new Float32Array(heads * T * S);
  for (let h = 0; h < heads; h++) {
    for (let t = 0; t < T; t++) {
      const row = weights.subarray((h * T + t) * S, (h * T + t + 1) * S), seen = visible(t);
      const q = (t * heads + h) * size;
      let most = -Infinity, total = 0;
      for (let s = 0; s < seen; s++) {
        const k = (s * heads + h) * size;
        let score = 0;
        for (let i = 0; i < size; i++) score += query[q + i] * keys[k + i];
        row[s] = score * scale;
        if (row[s] > most) most = row[s];
      }
      const first = sharpness === Infinity ? row.indexOf(most) : -1;
      for (let s = 0; s < seen; s++) {
        if (first >= 0) row[s] = s === first ? 1 : 0;
        else row[s] = Math.exp((row[s] - most) * sharpness);
        total += row[s];
      }
      for (let s = 0; s < seen; s++) {
        row[s] /= total;
        if (isOff(h)) continue;
        const v = (s * heads + h) * size;
        for (let i = 0; i < size; i++) context[q + i] += row[s] * values[v + i];
      }
    }
  }
  return { context, weights };
}

// The changes that `encode`, `step` and `translate` can make, with the values that leave the model as it is. `off` holds
// the heads that are switched off, as "site/layer/head". The others change the cross-attention of all layers, as
// inspection/experiments/changed_mechanism.py does:
//
//   sharpness       see `attend`
//   unscaled        scores are not divided by the root of the key size
//   rawVectors      no W_Q and W_K: each head compares its part of the states themselves
//   withoutOutput   no W_O: the contexts of the heads are added side by side
const UNCHANGED = { off: new Set(), sharpness: 1, unscaled: false, rawVectors: false, withoutOutput: false };

class Transformer {
  // `settings`: see `model_settings` in model_page.py. `arrays`: name -> { shape, data }.
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

  // Computes a sublayer with its residual connection, and the normalisation before or after it. `see`: see `inside`.
  residual(x, name, sublayer, see) {
    const pre = this.settings.norm === "pre", norm = `${name}_residual/norm`;
    const read = pre ? this.norm(x, norm) : x, sum = add(x, sublayer(read)), after = pre ? sum : this.norm(sum, norm);
    see?.(name, { before: x, read, sum, after });
    return after;
  }

  feedForward(x, block) {
    return this.residual(x, `${block}/feed_forward`, (y) =>
      this.dense(this.dense(y, `${block}/feed_forward/inner`).map(this.activate), `${block}/feed_forward/outer`));
  }

  // Returns the vectors of `count` positions from `first` on; null if positions rotate queries and keys instead.
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

  // Returns { x, places }: the embeddings of ids, and the position vectors that are added to queries and keys, null for
  // none.
  embed(side, ids, first) {
    const { d_model, tables, scale_embeddings, positions_on } = this.settings, { data } = this.take(`${tables[side]}/table`);
    const factor = scale_embeddings ? Math.sqrt(d_model) : 1, x = new Float32Array(ids.length * d_model);
    ids.forEach((id, row) => { for (let i = 0; i < d_model; i++) x[row * d_model + i] = data[id * d_model + i] * factor; });
    const places = this.positions(side, first, ids.length);
    return positions_on === "input" ? { x: add(x, places), places: null } : { x, places };
  }

  // Returns [queries, keys, values] of a self-attention. Only queries and keys depend on positions; the first is
  // `from`.
  selfProject(x, places, block, { heads, size }, from) {
    const name = `${block}/self_attention/qkv`, placed = add(x, places), width = heads * size;
    const query = this.dense(placed, name, 0, width), key = this.dense(placed, name, width, width);
    if (this.settings.positions === "rotary") for (const projected of [query, key]) rotate(projected, heads, size, from);
    return [query, key, this.dense(x, name, 2 * width, width)];
  }

  // Encodes the source. Returns { memory, S, weights, states }: the keys and values of each cross-attention, the number
  // of source tokens, the weights of each layer, and the states that are the memory of the decoder. `changes`: see
  // UNCHANGED. `see`: see `inside`.
  encode(ids, changes, see) {
    const { sites, encoder_layers, decoder_layers } = this.settings, S = ids.length, weights = [];
    const { off, rawVectors } = { ...UNCHANGED, ...changes };
    let { x, places } = this.embed("source", ids, 0);
    for (let layer = 0; layer < encoder_layers; layer++) {
      const block = `encoder_${layer}`;
      x = this.residual(x, `${block}/self_attention`, (y) => {
        const [q, k, v] = this.selfProject(y, places, block, sites.encoder_self, 0);
        const attention = attend(q, k, v, S, sites.encoder_self, () => S, (h) => off.has(`encoder_self/${layer}/${h}`));
        weights.push(attention.weights);
        see?.(`${block}/self_attention`, { query: q, keys: k, values: v, places, ...attention });
        return this.dense(attention.context, `${block}/self_attention/output`);
      }, see);
      x = this.feedForward(x, block);
    }
    if (this.settings.norm === "pre") x = this.norm(x, "encoder_norm");
    const placed = add(x, places), memory = [];
    for (let layer = 0; layer < decoder_layers; layer++) {
      const name = `decoder_${layer}/cross_attention`;
      memory.push({ keys: rawVectors ? placed : this.dense(placed, `${name}/key`), values: this.dense(x, `${name}/value`) });
    }
    return { memory, S, weights, states: x };
  }

  // Computes one step of the decoder: { logProbabilities, weights } after the token `id`. Writes the keys and values of
  // the token into the cache.
  step(id, position, encoded, cache, changes, see) {
    const { sites, decoder_layers, tables } = this.settings, { heads, size } = sites.decoder_self;
    const { off, sharpness, unscaled, rawVectors, withoutOutput } = { ...UNCHANGED, ...changes };
    const cross = { ...sites.cross, sharpness, ...(unscaled && { scale: 1 }) };
    const weights = { decoder_self: [], cross: [] };
    let { x, places } = this.embed("target", [id], position);
    for (let layer = 0; layer < decoder_layers; layer++) {
      const block = `decoder_${layer}`, past = cache[layer];
      x = this.residual(x, `${block}/self_attention`, (y) => {
        const [q, k, v] = this.selfProject(y, places, block, sites.decoder_self, position);
        past.keys.set(k, position * heads * size);
        past.values.set(v, position * heads * size);
        const attention = attend(q, past.keys, past.values, position + 1, sites.decoder_self, () => position + 1,
          (h) => off.has(`decoder_self/${layer}/${h}`));
        weights.decoder_self.push(attention.weights);
        see?.(`${block}/self_attention`, { query: q, ...past, places, ...attention });
        return this.dense(attention.context, `${block}/self_attention/output`);
      }, see);
      x = this.residual(x, `${block}/cross_attention`, (y) => {
        const placed = add(y, places), q = rawVectors ? placed : this.dense(placed, `${block}/cross_attention/query`);
        const { keys, values } = encoded.memory[layer];
        const attention = attend(q, keys, values, encoded.S, cross, () => encoded.S, (h) => off.has(`cross/${layer}/${h}`));
        weights.cross.push(attention.weights);
        see?.(`${block}/cross_attention`, { query: q, keys, values, places, ...attention });
        return withoutOutput ? attention.context : this.dense(attention.context, `${block}/cross_attention/output`);
      }, see);
      x = this.feedForward(x, block);
    }
    if (this.settings.norm === "pre") x = this.norm(x, "decoder_norm");
    return { logProbabilities: this.logProbabilities(x, this.take(`${tables.output}/table`), this.arrays[`${tables.output}/bias`]), weights };
  }

  logProbabilities(x, table, bias) {
    const [vocabulary, width] = table.shape, { data } = table, logits = new Float64Array(vocabulary);
    let most = -Infinity, total = 0;
    for (let id = 0, index = 0; id < vocabulary; id++) {
      let logit = bias ? bias.data[id] : 0;
      for (let i = 0; i < width; i++, index++) logit += x[i] * data[index];
      logits[id] = logit;
      if (logit > most) most = logit;
    }
    for (const logit of logits) total += Math.exp(logit - most);
    const shift = most + Math.log(total);
    return logits.map((logit) => logit - shift);
  }

  // Returns the memory for the decoder's own keys and values of `count` tokens, for each layer.
  emptyCache(count) {
    const { sites: { decoder_self: { heads, size } }, decoder_layers } = this.settings, length = count * heads * size;
    return Array.from({ length: decoder_layers }, () => ({ keys: new Float32Array(length), values: new Float32Array(length) }));
  }

  // Translates a source, ids that end in EOS. Returns { ids, logProbabilities, likeliest, truncated, attention }:
  // `likeliest` holds the likeliest tokens at each position as [id, log-probability], and `attention` the weights of
  // each site, an array for each layer in the order head, row, column. Arguments:
  //   changes  see UNCHANGED
  //   pause    an async function (number of tokens so far, maximum number) that is awaited before each token
  //   prefix   the ids with which the translation begins
  async translate(source, changes = UNCHANGED, pause = () => {}, prefix = []) {
    const { sites, decoder_layers, limits, special: { pad, bos, eos } } = this.settings;
    const byRatio = Math.trunc(limits.max_target_ratio * (source.length - 1)) + limits.max_target_extra;
    const longest = Math.min(Math.max(byRatio, prefix.length && prefix.length + limits.max_target_extra), limits.max_positions);
    const cache = this.emptyCache(longest);
    await pause(0, longest);
    const encoded = this.encode(source, changes), ids = [], logProbabilities = [], likeliest = [], steps = [];
    while (ids.length < longest && ids.at(-1) !== eos) {
      await pause(ids.length, longest);
      const output = this.step(ids.at(-1) ?? bos, ids.length, encoded, cache, changes);
      const banned = new Set([pad, bos, ...(ids.length < limits.min_length ? [eos] : []), ...repeats(ids, limits.no_repeat_ngram)]);
      let best = prefix[ids.length] ?? -1;
      if (best < 0) {
        output.logProbabilities.forEach((value, id) => {
          if (!banned.has(id) && (best < 0 || value > output.logProbabilities[best])) best = id;
        });
      }
      likeliest.push(largest(output.logProbabilities, SHOWN_TOKENS));
      ids.push(best);
      logProbabilities.push(output.logProbabilities[best]);
      steps.push(output.weights);
    }
    const attention = { encoder_self: encoded.weights, decoder_self: [], cross: [] };
    for (let layer = 0; layer < decoder_layers; layer++) {
      for (const [site, columns] of [["decoder_self", ids.length], ["cross", encoded.S]]) {
        attention[site].push(stack(steps.map((step) => step[site][layer]), sites[site].heads, columns));
      }
    }
    return { ids, logProbabilities, likeliest, truncated: ids.at(-1) !== eos, attention };
  }

  // Computes one row of one head with every number on the way, for ids that end in EOS. `row`: the position of the query,
  // in the source for encoder_self, else in the target. `changes`: see UNCHANGED. Returns:
  //
  //   before, read    the state of the row that enters the layer, and the same as the layer reads it, after pre-norm
  //   position        the position vector that is added to `read` for the query, null for none
  //   states          the states from which keys and values are made, one for each key
  //   positions       the position vectors that are added to them for the keys, null for none
  //   query, keys, values
  //   products        the product of the query with each key
  //   scale, scores   the factor of the products, and the products times it
  //   weights         of the keys
  //   context         the sum of the values, each times its weight
  //   added, others   what this head adds to the state through its rows of W_O, and the sum of the other heads
  //   bias            what the layer adds beside the heads; null for none
  //   sum, after      the state with all that, and the same after post-norm
  //   lengths         of the vectors that each value adds through W_O
  //   alone           the id that each value alone would predict; none in the encoder
  inside(source, target, { site, layer, head, row }, changes = UNCHANGED) {
    const { sites, special: { bos }, d_model } = this.settings, { heads, size, scale } = sites[site];
    const block = `${site === "encoder_self" ? "encoder" : "decoder"}_${layer}`, name = `${block}/${site === "cross" ? "cross" : "self"}_attention`;
    const seen = {}, reads = [], rowsOf = (x, width, count) => Array.from({ length: count }, (_, i) => x.slice(i * width, (i + 1) * width));
    const see = (part, facts) => part === name && Object.assign(seen, facts), cache = this.emptyCache(row + 1);
    const encoded = this.encode(source, changes, see);
    for (let t = 0; t <= row && site !== "encoder_self"; t++) {
      this.step(t ? target[t - 1] : bos, t, encoded, cache, changes, see);
      reads.push(seen.read);
    }
    const ofEncoder = site === "encoder_self", count = site === "decoder_self" ? row + 1 : source.length, place = ofEncoder ? row : 0;
    const partOf = (x) => x.slice(place * d_model, (place + 1) * d_model), headOf = (x) => x.slice(head * size, (head + 1) * size);
    const states = site === "decoder_self" ? reads : rowsOf(ofEncoder ? seen.read : encoded.states, d_model, count);
    const query = headOf(seen.query.slice(place * heads * size, (place + 1) * heads * size));
    const keys = rowsOf(seen.keys, heads * size, count).map(headOf), values = rowsOf(seen.values, heads * size, count).map(headOf);
    const factor = changes.unscaled && site === "cross" ? 1 : scale, products = keys.map((key) => dot(query, key));
    const weights = seen.weights.slice((head * (ofEncoder ? count : 1) + place) * count, (head * (ofEncoder ? count : 1) + place + 1) * count);
    const contexts = seen.context.slice(place * heads * size, (place + 1) * heads * size), whole = changes.withoutOutput && site === "cross";
    const through = (vector, h) => whole ? spread(vector, h, d_model) : this.output(vector, name, h, size);
    const outputs = Array.from({ length: heads }, (_, h) => through(contexts.slice(h * size, (h + 1) * size), h));
    const added = values.map((value) => through(value, head));
    const placed = seen.places && (site === "decoder_self" ? this.positions("target", 0, count) : this.positions("source", 0, count));
    return {
      before: partOf(seen.before), read: partOf(seen.read), position: seen.places && partOf(seen.places),
      states, positions: placed && rowsOf(placed, d_model, count), query, keys, values, products, scale: factor,
      scores: products.map((product) => product * factor), weights, context: headOf(contexts),
      added: outputs[head], others: outputs.reduce((sum, output, h) => (h === head ? sum : add(sum, output)), new Float32Array(d_model)),
      bias: whole ? null : this.take(`${name}/output/bias`).data, sum: partOf(seen.sum), after: partOf(seen.after),
      lengths: added.map((vector) => Math.sqrt(dot(vector, vector))),
      alone: ofEncoder ? [] : added.map((vector) => this.readAlone(vector)),
    };
  }

  // Returns the numbers that make one coordinate of a head's queries, keys or values of a state: { weights, bias }, a
  // column of W_Q, W_K or W_V. `part`: query, key or value.
  column(part, { site, layer, head }, coordinate) {
    const { heads, size } = this.settings.sites[site], own = site === "cross" ? part : "qkv";
    const name = `${site === "encoder_self" ? "encoder" : "decoder"}_${layer}/${site === "cross" ? "cross" : "self"}_attention/${own}`;
    const first = own === "qkv" ? ["query", "key", "value"].indexOf(part) * heads * size : 0, place = first + head * size + coordinate;
    const { shape: [inputs, width], data } = this.take(`${name}/kernel`);
    return { weights: Float32Array.from({ length: inputs }, (_, i) => data[i * width + place]), bias: this.take(`${name}/bias`).data[place] };
  }

  // Returns what a head's context adds to the state, through its rows of the output projection.
  output(context, name, head, size) {
    const kernel = this.take(`${name}/output/kernel`), width = kernel.shape[1];
    return linear(context, { shape: [size, width], data: kernel.data.subarray(head * size * width, (head + 1) * size * width) }, null);
  }

  // Returns the id that a state alone would predict after the last layer, without the bias of the output.
  readAlone(x) {
    const end = this.settings.norm === "pre" ? this.norm(x, "decoder_norm") : x;
    const logits = this.logProbabilities(end, this.take(`${this.settings.tables.output}/table`), null);
    return logits.indexOf(Math.max(...logits));
  }
}

// Returns the product of two vectors.
function dot(x, y) {
  return x.reduce((sum, value, i) => sum + value * y[i], 0);
}

// Returns a head's context at the head's own place in a state of zeros.
function spread(context, head, width) {
  const state = new Float32Array(width);
  state.set(context, head * context.length);
  return state;
}

const SHOWN_TOKENS = 8; // as in live_run.py

// Returns the [id, value] of the largest values, the largest first. Ties go to the lower id.
function largest(values, count) {
  const best = [];
  values.forEach((value, id) => {
    if (best.length === count && value <= best[count - 1][1]) return;
    let index = best.length;
    while (index > 0 && best[index - 1][1] < value) index--;
    best.splice(index, 0, [id, value]);
    best.length = Math.min(best.length, count);
  });
  return best;
}

// Returns the tokens that would repeat an n-gram; none if n is 0.
function repeats(ids, n) {
  const followers = [], last = ids.length - n + 1;
  for (let start = 0; n && start < last; start++) {
    let same = true;
    for (let i = 0; i < n - 1; i++) same &&= ids[start + i] === ids[last + i];
    if (same) followers.push(ids[start + n - 1]);
  }
  return followers;
}

// Joins the weights of all steps, each in the order head, key, in the order head, step, key. Keys after those of a step
// get the weight 0.
function stack(rows, heads, columns) {
  const result = new Float32Array(heads * rows.length * columns);
  rows.forEach((row, t) => {
    const seen = row.length / heads;
    for (let h = 0; h < heads; h++) result.set(row.subarray(h * seen, (h + 1) * seen), (h * rows.length + t) * columns);
  });
  return result;
}
