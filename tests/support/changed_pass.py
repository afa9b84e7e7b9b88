"""The table of `changed_mechanism.measure_changes` in NumPy, from a model's weights and the papers' formulas alone.

It has the random numbers of `measure_changes`: a control is a formula and a stream of random numbers, which the
docstrings of `changed_mechanism` define. For the models of `numpy_transformer` whose projections are square.
"""

import functools

import numpy as np
import pandas as pd

from tests.support import oracles
from tests.support.numpy_transformer import Pass

PARTS = ("query", "key", "value", "output")
BELOW = {
    "one-hot": ["weights permuted"],
    "uniform": ["weights permuted"],
    "last word": ["weights permuted"],
    "raw vectors": ["random W_Q, W_K"],
    "keys := values": ["random W_K", "another sentence's keys"],
    "values := keys": ["random W_V", "another head's values", "another sentence's values"],
    "raw values": ["random W_V, W_O"],
    "without W_O": ["random W_O"],
}
RANDOM = {
    "random W_Q, W_K": ["query", "key"],
    "random W_K": ["key"],
    "random W_V": ["value"],
    "random W_V, W_O": ["value", "output"],
    "random W_O": ["output"],
}
IDENTITY = {"raw vectors": ["query", "key"], "raw values": ["value", "output"], "without W_O": ["output"]}


class ChangedPass(Pass):
    """A pass whose cross-attention is changed.

    Args:
        model, source, target: see `Pass`.
        matrices: kernels and biases of the cross-attention of each layer, by part.
        weigh: a function of a layer's number and its weights `(H, T, S)`.
        another: "keys" or "values", and the pass of another sentence that these are of.
        memo: the results of the encoder's sublayers, filled by the first pass of a sentence.
    """

    def __init__(self, model, source, target, matrices, weigh=None, another=None, memo=None):
        self.matrices, self.weigh = matrices, weigh or (lambda number, weights: weights)
        self.another, self.memo = another, {} if memo is None else memo
        self.keys, self.cross_values = {}, {}
        super().__init__(model, source, target)

    @functools.lru_cache  # noqa: B019 - of a few lengths
    def positions(self, length):
        return super().positions(length)

    def __hash__(self):
        return hash(self.width)

    def __eq__(self, other):
        return self.width == other.width

    def feed(self, name, block, x):
        return self.once(name, lambda: super(ChangedPass, self).feed(name, block, x))

    def once(self, name, compute):
        if not name.startswith("encoder"):
            return compute()
        if name not in self.memo:
            self.memo[name] = compute()
        return self.memo[name]

    def attend(self, name, layer, residual, x, memory=None, causal=False):
        if memory is None:
            return self.once(name, lambda: super(ChangedPass, self).attend(name, layer, residual, x, causal=causal))
        number, heads = int(name.split(".")[1]), layer.num_heads
        normed = oracles.layer_norm(x, *residual.normalization.get_weights())
        at_queries, at_keys = (0 if self.on_input else self.positions(len(rows)) for rows in (normed, memory))
        made = {"query": normed + at_queries, "key": memory + at_keys, "value": memory}
        query, keys, values = (
            np.array(np.split(rows @ self.matrices[number][part][0] + self.matrices[number][part][1], heads, axis=-1))
            for part, rows in made.items()
        )
        self.keys[number], self.cross_values[number] = keys, values
        if self.another:
            part, other = self.another
            there = other.keys[number] if part == "keys" else other.cross_values[number]
            places = [position % there.shape[1] for position in range(len(memory))]
            keys, values = (there[:, places], values) if part == "keys" else (keys, there[:, places])
        weights = oracles.softmax(query @ keys.swapaxes(1, 2) / np.sqrt(keys.shape[-1]))
        kernel, bias = self.matrices[number]["output"]
        return self.add(name, x, np.concatenate(list(self.weigh(number, weights) @ values), axis=-1) @ kernel + bias)


def gram_schmidt(columns):
    """An orthonormal basis of the columns, one after the other."""
    basis = []
    for column in columns.T:
        rest = column.copy()
        for _ in range(2):  # twice is enough for rounding
            for known in basis:
                rest = rest - (known @ rest) * known
        basis.append(rest / np.linalg.norm(rest))
    return np.array(basis).T


def same_spectrum(matrix, random):
    singular_values = np.sqrt(np.maximum(np.linalg.eigvalsh(matrix.T @ matrix)[::-1], 0))[: min(matrix.shape)]
    left, right = (gram_schmidt(random.normal(size=(size, min(matrix.shape)))) for size in matrix.shape)
    return left @ np.diag(singular_values) @ right.T


def change_matrices(name, matrices, random, heads):
    """The matrices of one layer under a change or control."""
    changed = dict(matrices)
    if name == "keys := values":
        changed["key"] = matrices["value"]
    if name == "values := keys":
        changed["value"] = matrices["key"]
    for part in IDENTITY.get(name, ()):
        changed[part] = np.eye(len(matrices[part][0])), 0
    for part in RANDOM.get(name, ()):
        axis = 0 if part == "output" else 1
        drawn = [same_spectrum(x, random) for x in np.split(matrices[part][0], heads, axis=axis)]
        changed[part] = np.concatenate(drawn, axis=axis), matrices[part][1]
    if name == "another head's values":
        order = random.permutation(heads)
        while any(order == range(heads)):
            order = random.permutation(heads)
        kernel, bias = (np.split(x, heads, axis=-1) for x in matrices["value"])
        changed["value"] = np.concatenate([kernel[i] for i in order], -1), np.concatenate([bias[i] for i in order], -1)
    return changed


def change_weights(name, weights, noise):
    """The weights `(H, T, S)` of one layer under a change or control."""
    changed = np.zeros_like(weights)
    for head, query in np.ndindex(weights.shape[:2]):
        row, new = weights[head, query], changed[head, query]
        if name == "one-hot":
            new[row.argmax()] = 1
        elif name == "uniform":
            new[:] = 1 / len(row)
        elif name == "last word":
            new[-1] = 1
        elif name == "weights permuted":
            new[:] = row[np.argsort(noise[head, query])]
        elif name != "nothing read":
            new[:] = row
    return changed


def other_sentences(lengths, random):
    """The index of another sentence for each: the next of its length in a random order, or a neighbour."""
    order = sorted(random.permutation(len(lengths)).tolist(), key=lambda sentence: lengths[sentence])
    others = {}
    for place, sentence in enumerate(order):
        equal = [other for other in order if lengths[other] == lengths[sentence]]
        others[sentence] = equal[(equal.index(sentence) + 1) % len(equal)]
        if len(equal) == 1:
            others[sentence] = order[place - 1 if place else 1]
    return others


def count_right(model, name, pairs, seed, memos):
    """The number of right predictions of each sentence."""
    layers = [block.cross_attention for block in model.decoder_blocks]
    heads = layers[0].num_heads
    random = np.random.default_rng(seed)
    given = [
        {part: [np.array(x, "float64") for x in getattr(layer, f"{part}_projection").get_weights()] for part in PARTS}
        for layer in layers
    ]
    matrices = [change_matrices(name, one, random, heads) for one in given]
    others = other_sentences([len(source) for source, _, _ in pairs], random)
    right = []
    for sentence, (source, target, output) in enumerate(pairs):
        noise = np.random.default_rng([seed, sentence]).random((len(layers), heads, len(target), len(source)))
        another = None
        if name.startswith("another sentence"):
            other = pairs[others[sentence]]
            another = name.split()[-1], ChangedPass(model, *other[:2], given, memo=memos[others[sentence]])

        def weigh(number, weights, noise=noise):
            return change_weights(name, weights, noise[number])

        found = ChangedPass(model, source, target, matrices, weigh, another, memos[sentence])
        right.append(sum(found.logits.argmax(axis=-1) == output))
    return np.array(right, float)


def changed_table(model, batches, draws):
    """The table of `measure_changes`, without meanings, with the index of `change` and `control`."""
    pairs = [
        tuple(row[row != 0] for row in rows) for batch in batches for rows in zip(*map(np.asarray, batch), strict=True)
    ]
    memos = [{} for _ in pairs]
    tokens = np.array([len(output) for _, _, output in pairs], float)
    counts = np.random.default_rng(0).multinomial(len(pairs), [1 / len(pairs)] * len(pairs), size=1000)
    resampled_tokens = counts @ tokens

    @functools.cache
    def measure(name, seeds):
        right = [count_right(model, name, pairs, seed, memos) for seed in range(seeds)]
        shares = [row.sum() / tokens.sum() for row in right]
        samples = np.mean([counts @ row / resampled_tokens for row in right], axis=0)
        if seeds > 1:
            noise = np.random.default_rng(0).standard_t(seeds - 1, size=1000)
            samples = samples + noise * np.std(shares, ddof=1) / np.sqrt(seeds)
        return np.mean(shares), samples

    rows = []
    for name in ("as it is", *BELOW, "nothing read"):
        share, samples = measure(name, 1)
        rows.append((name, "", tokens.sum(), share, *np.quantile(samples, [0.025, 0.975]), *[np.nan] * 3))
        for control in BELOW.get(name, ()):
            other, other_samples = measure(control, draws)
            ends = np.quantile(samples - other_samples, [0.025, 0.975])
            rows.append(
                (name, control, tokens.sum(), other, *np.quantile(other_samples, [0.025, 0.975]), share - other, *ends)
            )
    columns = ["change", "control", "tokens", "right", "low", "high"]
    table = pd.DataFrame(rows, columns=[*columns, "difference", "difference_low", "difference_high"])
    return table.set_index(["change", "control"])
