"""Recomputes one row of one head in NumPy, line by line, from the query's state to the probability of the token.

The values come from running the printed lines, on the weights of a float64 model and the states that enter the layer.
A user who runs the lines on the same arrays gets the same values.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
from keras.ops import convert_to_numpy

from ...attention.mechanisms import Softmax
from ...attention.scores import Dot, ScaledDot
from ...attention.self_attention import SelfAttention
from ...errors import InputError
from .activations import Pair, read_activations
from .intervention import changeable_layers
from .score_parts import explained_sites, find_attention


class Step(NamedTuple):
    """A step of the computation.

    - name: the variable that holds the result.
    - code: a Python expression of `math`, `np` (NumPy), `FUNCTIONS`, the arrays and the results of earlier steps.
    - meaning: a description of the result in a few words.
    """

    name: str
    code: str
    meaning: str

    @property
    def line(self) -> str:
        """The step as a Python assignment."""
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
"""The functions that the steps call; their lines precede the steps."""

_ACTIVATIONS = {
    "relu": "np.maximum(inner, 0)",
    "gelu": "inner * (1 + np.vectorize(math.erf)(inner / np.sqrt(2))) / 2",
    "silu": "inner / (1 + np.exp(-inner))",
}
"""The code of the activation functions, applied to the variable `inner`."""


@dataclass(frozen=True, eq=False)
class RowSteps:
    """The computation of one row of one head.

    Attributes:
        arrays: the weights and states from which the steps start, float64, by the variable's name.
        steps: the steps in order, without `FUNCTIONS`.
        values: the results of the steps, by the variable's name.
    """

    arrays: Mapping[str, np.ndarray]
    steps: tuple[Step, ...]
    values: Mapping[str, np.ndarray]


def row_steps(model: keras.Model, pair: Pair, layer: str, head: int, row: int, token: int) -> RowSteps:
    """Computes one row of one head step by step, and the states above it.

    The steps lead to the residual stream after all heads. Unless the layer is self-attention of the decoder, the
    feed-forward network follows. In the last layer of the decoder, the probability of `token` follows.

    Args:
        model: a Transformer in float64, see `inspection.experiments.score_parts.in_float64`.
        pair: the sentence pair.
        layer: the name of the attention layer, such as `encoder.0.self`, `decoder.0.self` or `decoder.0.cross`. It must
            have the mechanism `softmax` and the score `scaled_dot` or `dot`.
        head: the index of the head.
        row: the position of the query.
        token: the id whose probability is computed in the last layer of the decoder; ignored elsewhere.

    Raises:
        InputError: the layer, head or row does not exist (see `inspection.experiments.score_parts.find_attention`), or
            the layer has another mechanism or score, or is self-attention with rotary positions.
    """
    attention = find_attention(model, pair, layer, head, row)
    _check_steps(model, attention, layer)
    side, number, kind = layer.split(".")
    ids = pair[0] if side == "encoder" else pair[1]
    activations, _ = read_activations(model, pair, [f"{side}.*"])
    block = getattr(model, f"{side}_blocks")[int(number)]
    stream = activations[_stream_before(side, int(number), kind)]
    positions = getattr(model, "source_positions" if side == "encoder" else "target_positions")
    encodings = positions.on_queries_and_keys(len(ids))
    arrays = {"before": stream[row]}
    other_heads = [activations[f"{layer}.head.{other}"][row] for other in range(attention.num_heads) if other != head]
    arrays["other_heads"] = np.sum(other_heads, axis=0) if other_heads else np.zeros_like(stream[row])
    residual = getattr(block, f"{kind}_attention_residual")
    if kind == "cross":
        arrays["memory"] = convert_to_numpy(model.encode(np.array([pair[0]], "int32")).states)[0]
        key_encodings = model.source_positions.on_queries_and_keys(len(pair[0]))
    else:
        # A token of the decoder attends to itself and the tokens before it.
        visible = slice(0, row + 1 if side == "decoder" else len(ids))
        arrays["stream"] = stream[visible]
        key_encodings = None if encodings is None else encodings[visible]
    layer_input = _normalized("before" if kind == "cross" else "stream", residual, "pre", "attention", arrays)
    if kind == "cross":
        steps = [Step("x", layer_input, "the state of this position, as the layer reads it")]
    else:
        steps = [Step("memory", layer_input, "the states of all tokens, as the layer reads them")]
        steps.append(Step("x", f"memory[{row}]", "the state of this position"))
    query_input = "x"
    key_input = "memory"
    if encodings is not None:
        arrays |= {"position": convert_to_numpy(encodings)[row], "positions": convert_to_numpy(key_encodings)}
        query_input = "(x + position)"
        key_input = "(memory + positions)"
    scale = " / np.sqrt(q.size)" if isinstance(attention.score, ScaledDot) else ""
    steps += [
        Step("q", _projected(query_input, attention, "query", head, arrays), "its query"),
        Step("k", _projected(key_input, attention, "key", head, arrays), "a key for each token"),
        Step("products", "k @ q", "each key times the query"),
        Step("scores", f"products{scale}", "divided by the root of the key size" if scale else "not divided"),
        Step("weights", "softmax(scores)", "the row of the attention matrix"),
        Step("v", _projected("memory", attention, "value", head, arrays), "a value for each token"),
        Step("context", "weights @ v", "the sum of the values, each times its weight"),
    ]
    output = attention.output_projection
    kernel = np.eye(attention.output_dim) if output is None else convert_to_numpy(output.kernel)
    arrays["W_o"] = np.split(kernel, attention.num_heads)[head]
    bias = ""
    if output is not None and output.use_bias:
        arrays["b_o"] = convert_to_numpy(output.bias)
        bias = " + b_o"
    layer_output = _normalized(f"before + added + other_heads{bias}", residual, "post", "attention", arrays)
    steps += [
        Step("added", "context @ W_o", "the contribution of this head to the state"),
        Step("after", layer_output, "the state after all heads"),
    ]
    if kind == "cross" or side == "encoder":
        steps += _feed_forward(block, arrays)
        if side == "decoder" and block is model.decoder_blocks[-1]:
            steps += _prediction(model, token, arrays)
    namespace: dict[str, Any] = {"math": math, "np": np, **arrays}
    for step in (*FUNCTIONS, *steps):
        exec(step.line, namespace)  # so the values are those of the printed lines
    return RowSteps(arrays, tuple(steps), {step.name: namespace[step.name] for step in steps})


def stepped_sites(model: keras.Model) -> list[str]:
    """Returns the sites whose rows `row_steps` can compute, of `config.choices.model.ATTENTION_SITES`."""
    sites = []
    for site in explained_sites(model):
        layer = changeable_layers(model)[site][0]
        with suppress(InputError):
            _check_steps(model, layer, site)
            sites.append(site)
    return sites


def predict_alone(model: Any, added: np.ndarray) -> np.ndarray:
    """Returns the token that the output table reads from each vector alone, without the bias of the logits.

    For the last layer of the decoder, these are the largest logits of the step `alone`.

    Args:
        model: a Transformer in float64.
        added: vectors of the decoder's residual stream, such as values after the output projection, `(N, D)`.

    Returns:
        The ids, `(N,)`.
    """
    states = convert_to_numpy(model.final_norms.decoder(added)) if model.final_norms else added
    return np.argmax(states @ convert_to_numpy(model.output_embedding.table).T, axis=-1)


def _check_steps(model: Any, attention: Any, layer: str) -> None:
    """Raises an `InputError` if the steps do not describe the attention layer, whose name is `layer`."""
    if type(attention.mechanism) is not Softmax or type(attention.score) not in (Dot, ScaledDot):
        classes = " and ".join(type(part).__name__ for part in (attention.mechanism, attention.score))
        raise InputError(f"{layer}: expected the mechanism softmax and the score scaled_dot or dot, found {classes}")
    if isinstance(attention, SelfAttention) and model.source_positions.kind == "rotary":
        raise InputError(f"{layer}: rotary positions turn queries and keys; expected --site cross")


def _stream_before(side: str, number: int, kind: str) -> str:
    """Returns the name of the activation that enters an attention layer, before pre-norm."""
    if kind == "cross":
        return f"{side}.{number}.self.residual"
    return f"{side}.{number - 1}.feed_forward.residual" if number else f"{side}.embedding"


def _normalized(code: str, residual: Any, norm: str, name: str, arrays: dict[str, np.ndarray]) -> str:
    """Returns code that normalises the value of `code`, or `code` itself if `residual` has no normalisation there.

    Args:
        code: a Python expression.
        residual: the `Residual` of the sublayer.
        norm: the position of the normalisation, `pre` (before the sublayer) or `post` (after it).
        name: the suffix of the new variables `gain_NAME` and `bias_NAME`.
        arrays: the arrays by the variable's name; the gain and bias are added.
    """
    if residual.norm != norm:
        return code
    return _normalization(code, residual.normalization, name, arrays)


def _normalization(code: str, norm: Any, name: str, arrays: dict[str, np.ndarray]) -> str:
    """Returns code that applies a layer normalisation to the value of `code`; adds its weights to `arrays`."""
    arrays |= {f"gain_{name}": convert_to_numpy(norm.gamma), f"bias_{name}": convert_to_numpy(norm.beta)}
    return f"normalize({code}, gain_{name}, bias_{name})"


def _projected(code: str, attention: Any, part: str, head: int, arrays: dict[str, np.ndarray]) -> str:
    """Returns code that projects the value of `code` to the head's queries, keys or values.

    Args:
        code: a Python expression.
        attention: the attention layer.
        part: `query`, `key` or `value`.
        head: the index of the head.
        arrays: the arrays by the variable's name; the head's matrix and bias are added.
    """
    heads_per_key = attention.num_heads // attention.key_value_heads
    index = head if part == "query" else head // heads_per_key
    size = attention.value_dim if part == "value" else attention.key_dim
    letter = part[0]
    if not (attention.spec.value_projection if part == "value" else attention.spec.projection):
        start = index * size
        return f"{code}[..., {start} : {start + size}]"
    if isinstance(attention, SelfAttention):
        dense = attention.qkv_projection
        names = list(attention.widths)
        start = sum(attention.widths[name] for name in names[: names.index(part)])
    else:
        dense = getattr(attention, f"{part}_projection")
        start = 0
    columns = slice(start + index * size, start + (index + 1) * size)
    arrays[f"W_{letter}"] = convert_to_numpy(dense.kernel)[:, columns]
    if not dense.use_bias:
        return f"{code} @ W_{letter}"
    arrays[f"b_{letter}"] = convert_to_numpy(dense.bias)[columns]
    return f"{code} @ W_{letter} + b_{letter}"


def _feed_forward(block: Any, arrays: dict[str, np.ndarray]) -> list[Step]:
    """Returns the steps of a block's feed-forward network; adds its weights to `arrays`."""
    network = block.feed_forward
    residual = block.feed_forward_residual
    for number, dense in (("1", network.inner), ("2", network.outer)):
        arrays |= {f"W_{number}": convert_to_numpy(dense.kernel), f"b_{number}": convert_to_numpy(dense.bias)}
    network_input = _normalized("after", residual, "pre", "network", arrays)
    block_output = _normalized("after + hidden @ W_2 + b_2", residual, "post", "network", arrays)
    return [
        Step("inner", f"{network_input} @ W_1 + b_1", "the hidden units of the feed-forward network"),
        Step("hidden", _ACTIVATIONS[keras.activations.serialize(network.inner.activation)], "after their activation"),
        Step("end", block_output, "the state after the feed-forward network"),
    ]


def _prediction(model: Any, token: int, arrays: dict[str, np.ndarray]) -> list[Step]:
    """Returns the steps from the decoder's last state to the probability of a token; adds weights to `arrays`."""
    embedding = model.output_embedding
    arrays["table"] = convert_to_numpy(embedding.table)
    bias = ""
    if embedding.has_bias:
        arrays["bias_logits"] = convert_to_numpy(embedding.bias)
        bias = " + bias_logits"
    alone = "v @ W_o"
    end = "end"
    if model.final_norms:
        alone = _normalization(alone, model.final_norms.decoder, "end", arrays)
        end = _normalization(end, model.final_norms.decoder, "end", arrays)
    return [
        Step("alone", f"{alone} @ table.T", "the logits that each value alone would give"),
        Step("logits", f"{end} @ table.T{bias}", "the logits"),
        Step("probability", f"softmax(logits)[{token}]", "the probability of the token"),
    ]
