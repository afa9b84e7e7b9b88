"use strict";
// Which head tells most. A head tells something if its rows look at different places, each at few: a head that always
// looks at the full stop is sharp and says nothing, and so is one that looks everywhere. Both are measured by the
// generalised Jensen-Shannon divergence of its rows (Lin 1991), the entropy of their mean less the mean of their
// entropies: 0 where all rows are alike, log S where each looks at one of S places of its own.

const MEASURED_SENTENCES = 50, MEASURED_WEIGHTS = 5e6; // of a site; large models are measured on fewer sentences

function entropy(shares) {
  let sum = 0;
  for (const share of shares) if (share > 0) sum -= share * Math.log(share);
  return sum;
}

// Rows are made to sum to one; a row of zeros has no place.
function divergenceOfRows(matrix) {
  const rows = matrix.map((row) => [row, row.reduce((sum, weight) => sum + weight, 0)]).filter(([, total]) => total > 0);
  if (!rows.length) return 0;
  const mean = new Float64Array(matrix[0].length);
  let within = 0;
  for (const [row, total] of rows) {
    const shares = row.map((weight) => weight / total);
    shares.forEach((share, s) => { mean[s] += share / rows.length; });
    within += entropy(shares) / rows.length;
  }
  return entropy(mean) - within;
}

// {layer, head} of the head of a site whose rows diverge most, over the first sentences of a run, each as often as it
// has rows; null without sentences.
function mostTellingHead(store, index, site) {
  const run = store.runs[index], [layers, heads] = run?.sites[site] ?? [0, 0];
  let best = null, most = -1, weights = 0;
  const sentences = (run?.sentences ?? []).slice(0, MEASURED_SENTENCES).filter(({ source, target }, i) => {
    weights += layers * heads * source.length * target.length;
    return i === 0 || weights < MEASURED_WEIGHTS;
  });
  for (let layer = 0; layer < layers && sentences.length; layer++) {
    for (let head = 0; head < heads; head++) {
      let total = 0;
      for (const { id } of sentences) {
        const matrix = store.matrix(index, id, site, layer, head);
        total += divergenceOfRows(matrix) * matrix.length;
      }
      if (total > most) [best, most] = [{ layer, head }, total];
    }
  }
  return best;
}
