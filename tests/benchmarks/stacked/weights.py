"""The weights of a model before training, and their names in `qkv.model.transformer`."""

import numpy as np

DENSE = {
    "qkv": "self_attention/qkv",
    "output": "self_attention/output",
    "inner": "feed_forward/inner",
    "outer": "feed_forward/outer",
}
CROSS = {f"cross_{side}": f"cross_attention/{side}" for side in ("query", "key", "value", "output")}
NORMS = {"norm": "self_attention_residual/norm", "feed_forward_norm": "feed_forward_residual/norm"}
CROSS_NORM = {"cross_norm": "cross_attention_residual/norm"}
NEUTRAL = ("gamma", 1.0), ("beta", 0.0)


def _places(dense, norms):
    kinds = (dense, ("kernel", "bias")), (norms, ("gamma", "beta"))
    return {
        f"{name}_{part}": f"{place}/{part}" for names, parts in kinds for name, place in names.items() for part in parts
    }


PLACES = {"encoder": _places(DENSE, NORMS), "decoder": _places(DENSE | CROSS, NORMS | CROSS_NORM)}
TABLE = "target_embedding/table"


def initial_weights(seed, width, hidden, layers, vocabulary):
    """Draws weights as Keras does (Glorot and Bengio 2010); embeddings have a deviation of `D^-0.5`."""
    generator = np.random.default_rng(seed)

    def dense(name, columns, rows=width):
        limit = (6 / (rows + columns)) ** 0.5
        kernel = generator.uniform(-limit, limit, (layers, rows, columns)).astype("float32")
        return {f"{name}_kernel": kernel, f"{name}_bias": np.zeros((layers, columns), "float32")}

    def norm(name):
        return {f"{name}_{part}": np.full((layers, width), value, "float32") for part, value in NEUTRAL}

    def side():
        shared = dense("qkv", 3 * width) | dense("output", width)
        shared |= dense("inner", hidden) | dense("outer", width, hidden)
        return shared | norm("norm") | norm("feed_forward_norm")

    embeddings = (generator.standard_normal((vocabulary, width)) * width**-0.5).astype("float32")
    decoder = side() | norm("cross_norm")
    for name in CROSS:
        decoder |= dense(name, width)
    return {"embeddings": embeddings, "encoder": side(), "decoder": decoder}


def keras_paths(layers):
    """Yields `(side, name, layer, path)` for every array of a layer: `weights[side][name][layer]` is the variable."""
    for side, places in PLACES.items():
        for name, place in places.items():
            for layer in range(layers):
                yield side, name, layer, f"{side}_{layer}/{place}"


def to_keras(weights):
    """Returns the variables of the Keras model by path within it."""
    layers = len(weights["encoder"]["qkv_kernel"])
    variables = {path: weights[side][name][layer] for side, name, layer, path in keras_paths(layers)}
    return {TABLE: weights["embeddings"], **variables}


def from_keras(variables, layers):
    """Returns the weights of a Keras model whose variables are given by path within it."""
    weights = {"embeddings": np.array(variables[TABLE]), "encoder": {}, "decoder": {}}
    for side, name, _, path in keras_paths(layers):
        weights[side].setdefault(name, []).append(variables[path])
    return weights | {side: {name: np.stack(rows) for name, rows in weights[side].items()} for side in PLACES}
