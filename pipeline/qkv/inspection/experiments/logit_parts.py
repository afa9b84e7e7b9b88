"""Decomposition of logits: the logit of one token as a sum over the parts of the decoder's residual stream.

The parts are the token just read, its position, self-attention and feed-forward networks, biases, and for each head of
cross-attention each source token. The logits are linear in the residual stream if the standard deviations of layer
normalisation are held fixed at the values for this sentence, as in `inspection.experiments.score_parts`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras.ops import convert_to_numpy

from .activations import Pair, check_index, head_summands, read_activations
from .score_parts import Parts, check_parts, read_stream

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["source_logits", "split_logit"]


def split_logit(model: keras.Model, pair: Pair, row: int, token: int) -> "pd.DataFrame":
    """Splits the logit of a token.

    Args:
        model: a Transformer in float64, see `inspection.experiments.score_parts.in_float64`. Its cross-attention must
            compute contexts from weights.
        pair: the sentence pair.
        row: the target position that predicts the token.
        token: the id of the token.

    Returns:
        One row for each part, with these columns:

        - part: the name of the part, such as `decoder.0.cross`, `decoder.0.self`, `decoder.0.feed_forward`, `token`
          (the token just read), `position` or `bias`.
        - layer, head, source: for parts of cross-attention the indices of the layer, the head and the source token;
          otherwise -1.
        - logit: the summand, float64; the summands of all parts sum to the logit of the token.
        - difference: the summand minus its mean over the vocabulary. The softmax depends on nothing else.

    Raises:
        InputError: the model cannot be split (see `score_parts.check_parts`), or `row` is not a target position.
    """
    check_index("row", row, len(pair[1]))
    stream = _read_decoder_output(model, pair)
    table = convert_to_numpy(model.output_embedding.table)
    directions = np.stack([table[token], table[token] - table.mean(axis=0)], axis=1)
    rows = [(*_split_name(name), *(vectors[row] @ directions)) for name, vectors in stream.items()]
    if model.output_embedding.has_bias:
        bias = convert_to_numpy(model.output_embedding.bias)
        rows.append(("bias", -1, -1, -1, bias[token], bias[token] - bias.mean()))
    import pandas as pd

    keys = ["part", "layer", "head", "source"]
    return pd.DataFrame(rows, columns=[*keys, "logit", "difference"]).groupby(keys, sort=False, as_index=False).sum()


def source_logits(model: keras.Model, pair: Pair, predicted: Sequence[int]) -> np.ndarray:
    """Sums the logits that cross-attention reads from each source token over all layers and heads.

    The logits are the column `difference` of `split_logit`.

    Args:
        model: as in `split_logit`.
        pair: the sentence pair.
        predicted: the ids of the predicted tokens, one for each target position, T of them.

    Returns:
        float64 `(T, S)`.

    Raises:
        InputError: the model cannot be split, see `score_parts.check_parts`.
    """
    table = convert_to_numpy(model.output_embedding.table)
    directions = table[np.asarray(predicted)] - table.mean(axis=0)
    logits = np.zeros((len(predicted), len(pair[0])))
    for name, vectors in _read_decoder_output(model, pair).items():
        *_, source = _split_name(name)
        if source >= 0:
            logits[:, source] += (vectors * directions).sum(axis=-1)
    return logits


def _read_decoder_output(model: keras.Model, pair: Pair) -> Parts:
    """Returns the summands of the decoder's output; each head of cross-attention has one for each source token."""
    check_parts(model)
    names = ["*.head.*", "*.feed_forward.output", "*.cross.weights", "*.cross.values"]
    activations, _ = read_activations(model, pair, names)
    for number, block in enumerate(model.decoder_blocks):
        name = f"decoder.{number}.cross"
        values = block.cross_attention.repeat_heads(activations[f"{name}.values"][None])
        weights = activations[f"{name}.weights"]  # (H, T, S)
        projected_values = convert_to_numpy(head_summands(block.cross_attention, values))[0]  # (H, S, D)
        for head, vectors in enumerate(projected_values):
            del activations[f"{name}.head.{head}"]
            for source, vector in enumerate(vectors):
                activations[f"{name}.head.{head}.source.{source}"] = weights[head, :, source, None] * vector
    return read_stream(model, "decoder", pair[1], activations, "")


def _split_name(name: str) -> tuple[str, int, int, int]:
    """Splits the name of a summand into part, layer, head and source position; all biases belong to the part `bias`."""
    if name.endswith((".bias", ".norm")):
        return "bias", -1, -1, -1
    part, _, rest = name.partition(".head.")
    head, _, source = rest.partition(".source.")
    return (part, int(part.split(".")[1]), int(head), int(source)) if source else (part, -1, -1, -1)
