"""One row of one head as numbers: from the state that asks to the word that comes of it, each step a line of NumPy.

The lines compute all values here, from the weights of a model in float64 and the states that enter the layer; copied
into an interpreter together with these arrays, they compute them again.

Letters: D width of the model, K key size of the head, V its value size, S keys, F hidden units, N vocabulary.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
from keras.ops import convert_to_numpy

from ...attention.mechanisms import Softmax
from ...attention.scores import Dot, ScaledDot
from ...attention.self_attention import SelfAttention
from ...errors import InputError
from .inside import Pair, read_inside
from .score_parts import find_attention


class Step(NamedTuple):
    """A step of the computation.

    - name: the variable that holds the result.
    - code: a Python expression of `math`, NumPy as `np`, the arrays and earlier steps.
    - meaning: the result, in a few words.
    """

    name: str
    code: str
    meaning: str

    @property
    def line(self) -> str:
        """The assignment."""
        return f"{self.name} = {self.code}"


FUNCTIONS = (
    Step(
        "normalize",
        "lambda x, gain, bias: "
        "(x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gain + bias",
        "layer normalisation (Ba et al. 2016, equation 4)",
    ),
    Step("softmax", "lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum()", "positive numbers that sum to one"),
)
"""The functions that the steps call; their lines come first."""
_ACTIVATIONS = {
    "relu": "np.maximum(inner, 0)",
    "gelu": "inner * (1 + np.vectorize(math.erf)(inner / np.sqrt(2))) / 2",
    "silu": "inner / (1 + np.exp(-inner))",
}


@dataclass(frozen=True, eq=False)
class RowSteps:
    """The computation of one row of one head.

    Attributes:
        arrays: the weights and states that the steps start from, by name, float64.
        steps: the steps, in order.
        values: the result of each step, by its name.
    """

    arrays: Mapping[str, np.ndarray]
    steps: tuple[Step, ...]
    values: Mapping[str, np.ndarray]


def row_steps(model: keras.Model, pair: Pair, layer: str, head: int, row: int, token: int) -> RowSteps:
    """Computes one row of one head step by step, and what the model makes of it: the sum with the other heads, the
    residual stream, the feed-forward network and, above the last layer, the probability of a token.

    Args:
        model: a Transformer in float64, see `score_parts.in_float64`, whose attention there has the mechanism `softmax`
            and the score `scaled_dot` or `dot`.
        pair: ids of the source, up to EOS, and of the target, from BOS on; no padding.
        layer: such as `encoder.0.self`, `decoder.0.self` or `decoder.0.cross`.
        head: its number.
        row: the query's position.
        token: the id that the row of a decoder predicts.

    Raises:
        InputError: another architecture, mechanism, score or kind of positions; or there is no such layer, head or row.
    """
    attention = find_attention(model, pair, layer, head, row)
    _check_steps(model, attention, layer)
    side, number, kind = layer.split(".")
    ids = pair[0] if side == "encoder" else pair[1]
    found, _ = read_inside(model, pair, [f"{side}.*"])
    block = getattr(model, f"{side}_blocks")[int(number)]
    stream = found[_stream_before(side, int(number), kind)]
    positions = getattr(model, "source_positions" if side == "encoder" else "target_positions")
    placed = positions.on_queries_and_keys(len(ids))
    arrays = {"before": stream[row]}
    others = [found[f"{layer}.head.{other}"][row] for other in range(attention.num_heads) if other != head]
    arrays["other_heads"] = np.sum(others, axis=0) if others else np.zeros_like(stream[row])
    residual = getattr(block, f"{kind}_attention_residual")
    if kind == "cross":
        arrays["memory"] = convert_to_numpy(model.encode(np.array([pair[0]], "int32")).states)[0]
        key_places = model.source_positions.on_queries_and_keys(len(pair[0]))
    else:
        # A word of a decoder sees itself and the words before it.
        visible = slice(0, row + 1 if side == "decoder" else len(ids))
        arrays["stream"] = stream[visible]
        key_places = None if placed is None else placed[visible]
    entered = _normalized("before" if kind == "cross" else "stream", residual, "pre", "attention", arrays)
    steps = [Step("x", entered, "the state of this position, as the layer reads it")]
    if kind == "self":
        steps = [Step("memory", entered, "the states of all tokens, as the layer reads them")]
        steps.append(Step("x", f"memory[{row}]", "the state of this position"))
    asking, found_by = "x", "memory"
    if placed is not None:
        arrays |= {"position": convert_to_numpy(placed)[row], "positions": convert_to_numpy(key_places)}
        asking, found_by = "(x + position)", "(memory + positions)"
    scale = " / np.sqrt(q.size)" if isinstance(attention.score, ScaledDot) else ""
    steps += [
        Step("q", _projected(asking, attention, "query", head, arrays), "its query"),
        Step("k", _projected(found_by, attention, "key", head, arrays), "a key for each token"),
        Step("products", "k @ q", "each key times the query"),
        Step("scores", f"products{scale}", "divided by the root of the key size" if scale else "not divided"),
        Step("weights", "softmax(scores)", "the row of the attention matrix"),
        Step("v", _projected("memory", attention, "value", head, arrays), "a value for each token"),
        Step("context", "weights @ v", "the sum of the values, each times its weight"),
    ]
    output, bias = attention.output_projection, ""
    kernel = np.eye(attention.output_dim) if output is None else convert_to_numpy(output.kernel)
    arrays["W_o"] = np.split(kernel, attention.num_heads)[head]
    if output is not None and output.use_bias:
        arrays["b_o"], bias = convert_to_numpy(output.bias), " + b_o"
    joined = _normalized(f"before + added + other_heads{bias}", residual, "post", "attention", arrays)
    steps += [
        Step("added", "context @ W_o", "the contribution of this head to the state"),
        Step("after", joined, "the state after all heads"),
    ]
    if kind == "cross" or side == "encoder":
        steps += _feed_forward(block, arrays)
        if side == "decoder" and block is model.decoder_blocks[-1]:
            steps += _prediction(model, token, arrays)
    namespace: dict[str, Any] = {"math": math, "np": np, **arrays}
    for step in (*FUNCTIONS, *steps):
        exec(step.line, namespace)  # our own lines: what is printed is what is computed
    return RowSteps(arrays, tuple(steps), {step.name: namespace[step.name] for step in steps})


def _check_steps(model: Any, attention: Any, layer: str) -> None:
    if type(attention.mechanism) is not Softmax or type(attention.score) not in (Dot, ScaledDot):
        found = " and ".join(type(part).__name__ for part in (attention.mechanism, attention.score))
        raise InputError(f"{layer}: expected the mechanism softmax and the score scaled_dot or dot, found {found}")
    if isinstance(attention, SelfAttention) and model.source_positions.kind == "rotary":
        raise InputError(f"{layer}: rotary positions turn queries and keys; expected --site cross")


def _stream_before(side: str, number: int, kind: str) -> str:
    """Returns the name of the residual stream that a layer reads."""
    if kind == "cross":
        return f"{side}.{number}.self.residual"
    return f"{side}.{number - 1}.feed_forward.residual" if number else f"{side}.embedding"


def _normalized(code: str, residual: Any, norm: str, name: str, arrays: dict[str, np.ndarray]) -> str:
    """Returns code with the layer normalisation around it, if the residual has it there."""
    if residual.norm != norm:
        return code
    return _normalization(code, residual.normalization, name, arrays)


def _normalization(code: str, norm: Any, name: str, arrays: dict[str, np.ndarray]) -> str:
    arrays |= {f"gain_{name}": convert_to_numpy(norm.gamma), f"bias_{name}": convert_to_numpy(norm.beta)}
    return f"normalize({code}, gain_{name}, bias_{name})"


def _projected(code: str, attention: Any, part: str, head: int, arrays: dict[str, np.ndarray]) -> str:
    """Returns code with the head's projection to queries, keys or values applied."""
    each = attention.num_heads // attention.key_value_heads
    chosen = head if part == "query" else head // each
    size = attention.value_dim if part == "value" else attention.key_dim
    letter = part[0]
    if not (attention.spec.value_projection if part == "value" else attention.spec.projection):
        start = chosen * size
        return f"{code}[..., {start} : {start + size}]"
    if isinstance(attention, SelfAttention):
        dense, names = attention.qkv_projection, list(attention.widths)
        start = sum(attention.widths[name] for name in names[: names.index(part)])
    else:
        dense, start = getattr(attention, f"{part}_projection"), 0
    columns = slice(start + chosen * size, start + (chosen + 1) * size)
    arrays[f"W_{letter}"] = convert_to_numpy(dense.kernel)[:, columns]
    if not dense.use_bias:
        return f"{code} @ W_{letter}"
    arrays[f"b_{letter}"] = convert_to_numpy(dense.bias)[columns]
    return f"{code} @ W_{letter} + b_{letter}"


def _feed_forward(block: Any, arrays: dict[str, np.ndarray]) -> list[Step]:
    network, residual = block.feed_forward, block.feed_forward_residual
    for number, dense in (("1", network.inner), ("2", network.outer)):
        arrays |= {f"W_{number}": convert_to_numpy(dense.kernel), f"b_{number}": convert_to_numpy(dense.bias)}
    entered = _normalized("after", residual, "pre", "network", arrays)
    left = _normalized("after + hidden @ W_2 + b_2", residual, "post", "network", arrays)
    return [
        Step("inner", f"{entered} @ W_1 + b_1", "the hidden units of the feed-forward network"),
        Step("hidden", _ACTIVATIONS[keras.activations.serialize(network.inner.activation)], "after their activation"),
        Step("end", left, "the state after the feed-forward network"),
    ]


def _prediction(model: Any, token: int, arrays: dict[str, np.ndarray]) -> list[Step]:
    embedding = model.output_embedding
    arrays["table"] = convert_to_numpy(embedding.table)
    bias = ""
    if embedding.has_bias:
        arrays["bias_logits"], bias = convert_to_numpy(embedding.bias), " + bias_logits"
    alone, end = "v @ W_o", "end"
    if model.final_norms:
        alone, end = (_normalization(code, model.final_norms[1], "end", arrays) for code in (alone, end))
    return [
        Step("alone", f"{alone} @ table.T", "the logits that each value alone would give"),
        Step("logits", f"{end} @ table.T{bias}", "the logits"),
        Step("probability", f"softmax(logits)[{token}]", "the probability of the token"),
    ]
