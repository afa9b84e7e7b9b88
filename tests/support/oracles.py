"""The definitions in float64, from the papers and not from the code under test.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size, N tokens.
"""

import math

import numpy as np


def softmax(scores, mask=None):
    """Softmax over the last axis among the keys where `mask` is True; all zeros where there are none."""
    scores = np.where(True if mask is None else mask, np.asarray(scores, "float64"), -np.inf)
    powers = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e300))
    return powers / np.maximum(powers.sum(-1, keepdims=True), 1)  # the highest score's power is 1


def log_softmax(logits):
    """The logarithms of the softmax over the last axis."""
    logits = np.asarray(logits, "float64")
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def dot(q, k):
    """Luong et al. 2015, section 3.1: `q . k`."""
    return q @ k


def scaled_dot(q, k):
    """Vaswani et al. 2017, equation 1: `q . k / sqrt(d_k)`."""
    return q @ k / math.sqrt(len(q))


def general(q, k, kernel):
    """Luong et al. 2015, section 3.1: `q^T W k`."""
    return q @ kernel @ k


def cosine(q, k, log_scale):
    """Graves et al. 2014, equations 5 and 6: `g q . k / (|q| |k|)`, here with `g = exp(log_scale)`."""
    return math.exp(np.squeeze(log_scale)) * (q @ k) / (np.linalg.norm(q) * np.linalg.norm(k))


def additive(q, k, v, bias=0):
    """Bahdanau et al. 2015, appendix A.1.2: `v . tanh(q + k)`, with the projections already done."""
    return v @ np.tanh(q + k + bias)


def concat(q, k, kernel, v):
    """Luong et al. 2015, section 3.1: `v . tanh(W [q; k])`."""
    return v @ np.tanh(np.concatenate([q, k]) @ kernel)


FORMULAS = {formula.__name__: formula for formula in (dot, scaled_dot, general, cosine, additive, concat)}


def scores(name, query, key, learnt=None):
    """`(B, H, T, K)` and `(B, H, S, K) -> (B, H, T, S)`, one pair at a time; `learnt` has an axis for heads first."""
    (B, H, T, _), S = query.shape, key.shape[2]
    found = np.zeros((B, H, T, S))
    for b, h, t, s in np.ndindex(found.shape):
        own = {parameter: array[h] for parameter, array in (learnt or {}).items()}
        found[b, h, t, s] = FORMULAS[name](query[b, h, t].astype("float64"), key[b, h, s].astype("float64"), **own)
    return found


def project(x, kernel, bias=None):
    return np.einsum("btd,df->btf", x.astype("float64"), kernel) + (0 if bias is None else bias)


def heads(x, number):
    """`(B, T, H * K) -> (B, H, T, K)`: the first head has the first K numbers."""
    size = x.shape[-1] // number
    return np.stack([x[..., h * size : (h + 1) * size] for h in range(number)], 1)


def multi_head_attention(query, key, value, number, *, score="scaled_dot", learnt=None, mask=None, projections=None):
    """Vaswani et al. 2017, section 3.2.2, on `(B, T, Dq)`, `(B, S, Dk)`, `(B, S, Dv)`.

    `projections` has a `(kernel, bias)` for each of query, key, value and output, or is None for no projections.
    """
    if projections:
        query, key, value = (
            project(x, *projections[side]) for side, x in (("query", query), ("key", key), ("value", value))
        )
    query, key, value = (heads(x, number) for x in (query, key, value))
    weights = softmax(scores(score, query, key, learnt), mask)
    joined = np.concatenate([weights[:, h] @ value[:, h] for h in range(number)], -1)
    return (project(joined, *projections["output"]) if projections else joined), weights


def cross_entropy(logits, targets, token_weights, label_smoothing):
    """Szegedy et al. 2016, section 7: the expected surprise under `(1 - e) one_hot + e / V`, summed over tokens."""
    logits = np.asarray(logits, "float64")
    expected = (1 - label_smoothing) * np.eye(logits.shape[1])[targets] + label_smoothing / logits.shape[1]
    surprise = np.log(np.exp(logits).sum(-1, keepdims=True)) - logits
    return token_weights @ (expected * surprise).sum(-1)


def layer_norm(x, gamma, beta, epsilon=1e-5):
    """Ba et al. 2016, equation 3, over the last axis."""
    return gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) + beta


def sinusoid(position, coordinate, width):
    """Vaswani et al. 2017, section 3.5: one coordinate of one position."""
    angle = position / 10000 ** ((coordinate - coordinate % 2) / width)
    return math.cos(angle) if coordinate % 2 else math.sin(angle)


def linformer_attention(query, key, value, key_mixing, value_mixing, mask=None):
    """Wang et al. 2020, equation 7, on `(B, H, T, K)`, `(B, H, S, K)`, `(B, H, S, V)` and `(H, P, S)` matrices.

    `softmax(q (E k)^T / sqrt(d_k)) (F v)`, with keys and values zero where `mask`, `(B, H, S)`, is False.
    """
    mask = np.ones(key.shape[:3], bool) if mask is None else np.broadcast_to(mask, key.shape[:3])
    key, value = (np.where(mask[..., None], x, 0) for x in (key, value))
    shares = softmax(scores("scaled_dot", query, key_mixing @ key)) * mask.any(-1)[..., None, None]
    return shares @ (value_mixing @ value), shares @ value_mixing * mask[:, :, None]


def lsh_weights(query, rotations, buckets, chunk_length, mask=None):
    """Kitaev et al. 2020, equation 3 over the union of equation 6: `(B, H, S, K)` and `(R, H, K, ..) -> (B, H, S, S)`.

    The softmax of `q_t . k_s / sqrt(d_k)`, keys of unit length, over each s that shares t's bucket in some round and
    stands in its chunk there or in the one before, when each bucket's positions are cut into chunks in their order;
    over t itself only where there is no other. A round's bucket is `argmax([x R; -x R])`.
    """
    B, H, S, _ = query.shape
    mask = np.broadcast_to(True if mask is None else mask, (B, H, S, S))
    weights = np.zeros((B, H, S, S))
    for b, h in np.ndindex(B, H):
        keys = query[b, h] / np.linalg.norm(query[b, h].astype("float64"), axis=-1, keepdims=True)
        found = [set() for _ in range(S)]
        for rotation in rotations[:, h]:
            sides = np.concatenate([keys @ rotation, -keys @ rotation], -1)
            bucket = [0] * S if buckets == 1 else sides.argmax(-1)
            rank = [sum(bucket[s] == bucket[t] for s in range(t)) for t in range(S)]
            for t, s in np.ndindex(S, S):
                if bucket[t] == bucket[s] and rank[t] // chunk_length - rank[s] // chunk_length in (0, 1):
                    found[t].add(s)
        for t in range(S):
            allowed = [s for s in found[t] if mask[b, h, t, s]]
            if len(allowed) > 1:
                allowed = [s for s in allowed if s != t]
            if allowed:
                weights[b, h, t, allowed] = softmax([scaled_dot(query[b, h, t], keys[s]) for s in allowed])
    return weights


def measures_by_loops(weights, eos, others):
    """The definitions, one cell at a time, for one head."""
    T, S = weights.shape
    totals = dict.fromkeys(["entropy", "relative_entropy", "confidence", "diagonality", "agreement", "eos_share"], 0.0)
    for t in range(T):
        entropy = -sum(float(w) * math.log(float(w)) for w in weights[t] if w > 0)
        totals["entropy"] += entropy / T
        totals["relative_entropy"] += (entropy / math.log(S) if S > 1 else 0.0) / T
        totals["confidence"] += float(max(weights[t])) / T
        totals["eos_share"] += float(weights[t, eos]) / T if eos is not None else math.nan
        for s in range(S):
            here, there = (t / (T - 1) if T > 1 else 0.5), (s / (S - 1) if S > 1 else 0.5)
            totals["diagonality"] += float(weights[t, s]) * (1 - abs(here - there)) / T
            for other in others:
                totals["agreement"] += min(float(weights[t, s]), float(other[t, s])) / T / len(others)
    return totals


def word_matrix_by_loops(weights, source_words, row_words, n_source, n_target):
    matrix = np.zeros((n_target, n_source))
    for j, i in np.ndindex(n_target, n_source):
        rows, columns = np.equal(row_words, j), np.equal(source_words, i)
        matrix[j, i] = weights[rows][:, columns].sum() / max(rows.sum(), 1)
    return matrix


def one_hot(columns, width):
    return np.eye(width, dtype=np.float32)[list(columns)]


def walk(sources, targets):
    """The first pair that can be reached from each pair by stepping between pairs with a sentence in common."""
    first = {}
    for start in range(len(sources)):
        if start in first:
            continue
        waiting = [start]
        while waiting:
            here = waiting.pop()
            if here not in first:
                first[here] = start
                waiting += [
                    i for i in range(len(sources)) if sources[i] == sources[here] or targets[i] == targets[here]
                ]
    return [first[i] for i in range(len(sources))]
