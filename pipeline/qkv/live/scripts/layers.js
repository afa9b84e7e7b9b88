"use strict";
// What a Transformer is made of, in plain typed arrays. Arrays of rows are Float32Array, row after row; a kernel has the
// shape [inputs, outputs], as in Keras. T target and S source positions.

// x W + b, of the kernel's columns from `first` on.
function linear(x, kernel, bias, first = 0, outputs = kernel.shape[1] - first) {
  const [inputs, width] = kernel.shape, k = kernel.data, rows = x.length / inputs;
  const result = new Float32Array(rows * outputs);
  for (let row = 0; row < rows; row++) {
    const y = result.subarray(row * outputs, (row + 1) * outputs), start = row * inputs;
    if (bias) y.set(bias.data.subarray(first, first + outputs));
    let i = 0;
    for (; i + 3 < inputs; i += 4) { // four rows of the kernel at once: y is read and written less often
      const x0 = x[start + i], x1 = x[start + i + 1], x2 = x[start + i + 2], x3 = x[start + i + 3];
      let place = i * width + first;
      for (let j = 0; j < outputs; j++, place++) {
        y[j] += x0 * k[place] + x1 * k[place + width] + x2 * k[place + 2 * width] + x3 * k[place + 3 * width];
      }
    }
    for (; i < inputs; i++) {
      const one = x[start + i];
      for (let j = 0, place = i * width + first; j < outputs; j++, place++) y[j] += one * k[place];
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

// The error function to 1.2e-7 (Press et al. 1992, section 6.2).
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

// sin and cos of the positions, alternating or as halves: see `sinusoidal_positions` of the package.
function sinusoid(position, width, halves) {
  const row = new Float32Array(width), sines = Math.ceil(width / 2);
  for (let i = 0; i < width; i++) {
    const pair = i >> 1, angle = position / 10000 ** (2 * pair / width);
    row[halves ? (i % 2 ? sines + pair : pair) : i] = i % 2 ? Math.cos(angle) : Math.sin(angle);
  }
  return row;
}

// Turns coordinates i and size / 2 + i of queries or keys by the angle of their position, in place: see `rotate` of the
// package.
function rotate(x, heads, size, first) {
  const half = size / 2;
  for (let start = 0; start < x.length; start += size) {
    const position = first + Math.floor(start / (heads * size));
    for (let i = 0; i < half; i++) {
      const angle = position / 10000 ** (2 * i / size), cosine = Math.cos(angle), sine = Math.sin(angle);
      const one = x[start + i], other = x[start + half + i];
      x[start + i] = one * cosine - other * sine;
      x[start + half + i] = other * cosine + one * sine;
    }
  }
}

// Each of T queries attends to the keys up to `visible(t)`. The context of a head that is off is zero.
function attend(query, keys, values, S, { heads, keySize, valueSize, scale }, visible, isOff) {
  const T = query.length / (heads * keySize), context = new Float32Array(T * heads * valueSize);
  const weights = new Float32Array(heads * T * S);
  for (let h = 0; h < heads; h++) {
    for (let t = 0; t < T; t++) {
      const row = weights.subarray((h * T + t) * S, (h * T + t + 1) * S), seen = visible(t);
      const q = (t * heads + h) * keySize;
      let most = -Infinity, total = 0;
      for (let s = 0; s < seen; s++) {
        const k = (s * heads + h) * keySize;
        let score = 0;
        for (let i = 0; i < keySize; i++) score += query[q + i] * keys[k + i];
        row[s] = score * scale;
        if (row[s] > most) most = row[s];
      }
      for (let s = 0; s < seen; s++) total += row[s] = Math.exp(row[s] - most);
      const c = (t * heads + h) * valueSize;
      for (let s = 0; s < seen; s++) {
        row[s] /= total;
        if (isOff(h)) continue;
        const v = (s * heads + h) * valueSize;
        for (let i = 0; i < valueSize; i++) context[c + i] += row[s] * values[v + i];
      }
    }
  }
  return { context, weights };
}
