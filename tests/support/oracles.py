"""The definitions, written as loops over single numbers in float64, from the papers and not from the code under test.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size, V value size, N tokens.
"""

import math

import numpy as np


def softmax(scores, mask=None):
    """Softmax over the last axis among the keys where `mask` is True; all zeros where there are none."""
    scores = np.asarray(scores, "float64")
    mask = np.broadcast_to(True if mask is None else mask, scores.shape)
    weights = np.zeros(scores.shape)
    for row in np.ndindex(scores.shape[:-1]):
        allowed = [s for s in range(scores.shape[-1]) if mask[row][s]]
        highest = max((scores[row][s] for s in allowed), default=0.0)
        total = sum(math.exp(scores[row][s] - highest) for s in allowed)
        for s in allowed:
            weights[row][s] = math.exp(scores[row][s] - highest) / total
    return weights


def dot(q, k):
    """Luong et al. 2015, section 3.1: `q . k`."""
    return sum(a * b for a, b in zip(q, k, strict=True))


def scaled_dot(q, k):
    """Vaswani et al. 2017, equation 1: `q . k / sqrt(d_k)`."""
    return dot(q, k) / math.sqrt(len(q))


def general(q, k, kernel):
    """Luong et al. 2015, section 3.1: `q^T W k`."""
    return sum(q[i] * kernel[i][j] * k[j] for i in range(len(q)) for j in range(len(k)))


def cosine(q, k, log_scale):
    """Graves et al. 2014, equations 5 and 6: `g q . k / (|q| |k|)`, here with `g = exp(log_scale)`."""
    return math.exp(np.squeeze(log_scale)) * dot(q, k) / (math.sqrt(dot(q, q)) * math.sqrt(dot(k, k)))


def additive(q, k, v, bias=None):
    """Bahdanau et al. 2015, appendix A.1.2: `v . tanh(q + k)`, with the projections already done."""
    bias = np.zeros(len(v)) if bias is None else bias
    return sum(v[i] * math.tanh(q[i] + k[i] + bias[i]) for i in range(len(v)))


def concat(q, k, kernel, v):
    """Luong et al. 2015, section 3.1: `v . tanh(W [q; k])`."""
    joined = [*q, *k]
    return sum(v[j] * math.tanh(sum(x * row[j] for x, row in zip(joined, kernel, strict=True))) for j in range(len(v)))


FORMULAS = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "cosine": cosine,
    "additive": additive,
    "concat": concat,
}


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
    contexts = np.zeros((*query.shape[:3], value.shape[-1]))
    for b, h, t, s in np.ndindex(weights.shape):
        contexts[b, h, t] += weights[b, h, t, s] * value[b, h, s]
    joined = np.concatenate([contexts[:, h] for h in range(number)], -1)
    return (project(joined, *projections["output"]) if projections else joined), weights


def additive_attention(query, key, value, query_kernel, key_kernel, v, bias=None, mask=None):
    """Bahdanau et al. 2015, appendix A.1.2: `e_ts = v . tanh(W q_t + U k_s)`, `c_t = sum_s a_ts v_s`."""
    found = np.zeros((len(query), 1, query.shape[1], key.shape[1]))
    for b, _, t, s in np.ndindex(found.shape):
        q, k = (x.astype("float64") @ kernel for x, kernel in ((query[b, t], query_kernel), (key[b, s], key_kernel)))
        found[b, 0, t, s] = additive(q, k, v, bias)
    weights = softmax(found, mask)
    return np.einsum("bts,bsv->btv", weights[:, 0], value), weights


def cross_entropy(logits, targets, token_weights, label_smoothing):
    """Szegedy et al. 2016, section 7: the expected surprise under `(1 - e) one_hot + e / V`, summed over tokens."""
    total = 0.0
    for row, target, weight in zip(np.asarray(logits, "float64"), targets, token_weights, strict=True):
        log_total = row.max() + math.log(sum(math.exp(x - row.max()) for x in row))
        for token, logit in enumerate(row):
            expected = (1 - label_smoothing) * (token == target) + label_smoothing / len(row)
            total -= weight * expected * (logit - log_total)
    return total


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
    (B, H, T, K), S, V, P = query.shape, key.shape[2], value.shape[3], key_mixing.shape[1]
    mask = np.ones((B, H, S), bool) if mask is None else np.broadcast_to(mask, (B, H, S))
    context, weights = np.zeros((B, H, T, V)), np.zeros((B, H, T, S))
    for b, h in np.ndindex(B, H):
        seen = [s for s in range(S) if mask[b, h, s]]
        mixed_keys = [sum((key_mixing[h, p, s] * key[b, h, s] for s in seen), np.zeros(K)) for p in range(P)]
        mixed_values = [sum((value_mixing[h, p, s] * value[b, h, s] for s in seen), np.zeros(V)) for p in range(P)]
        for t in range(T if seen else 0):
            shares = softmax([scaled_dot(query[b, h, t], k) for k in mixed_keys])
            context[b, h, t] = sum(share * v for share, v in zip(shares, mixed_values, strict=True))
            for s in seen:
                weights[b, h, t, s] = sum(shares[p] * value_mixing[h, p, s] for p in range(P))
    return context, weights


def lsh_buckets(vectors, rotation):
    """Kitaev et al. 2020, section 2: `h(x) = argmax([x R; -x R])` of each of `(S, K)`, with `(K, buckets / 2)`."""
    rotated = [[dot(x, column) for column in np.transpose(rotation)] for x in vectors]
    return [int(np.argmax(row + [-number for number in row])) for row in rotated]


def lsh_weights(query, rotations, buckets, chunk_length, mask=None):
    """Kitaev et al. 2020, equation 3 over the union of equation 6: `(B, H, S, K)` and `(R, H, K, ..) -> (B, H, S, S)`.

    The softmax of `q_t . k_s / sqrt(d_k)`, keys of unit length, over each s that shares t's bucket in some round and
    stands in its chunk there or in the one before, when each bucket's positions are cut into chunks in their order;
    over t itself only where there is no other.
    """
    B, H, S, _ = query.shape
    mask = np.broadcast_to(True if mask is None else mask, (B, H, S, S))
    query = query.astype("float64")
    weights = np.zeros((B, H, S, S))
    for b, h in np.ndindex(B, H):
        keys = [q / math.sqrt(dot(q, q)) for q in query[b, h]]
        found = [set() for _ in range(S)]
        for rotation in rotations[:, h]:
            bucket = [0] * S if buckets == 1 else lsh_buckets(keys, rotation)
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
    for j in range(n_target):
        rows = [t for t, word in enumerate(row_words) if word == j]
        for i in range(n_source):
            for t in rows:
                for s, word in enumerate(source_words):
                    if word == i:
                        matrix[j, i] += weights[t, s] / len(rows)
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
