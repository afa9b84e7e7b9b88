"""The logit of one token of a translation, split into the parts that each head reads from each source word, that
self-attention and the feed-forward networks add, and that are there from the beginning.

The logits are linear in the residual stream once the mean and standard deviation of each layer normalisation are held
fixed at what they are for this sentence, as in `score_parts`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras.ops import convert_to_numpy

from ...errors import InputError
from ...model.transformer import Transformer
from .inside import Pair, check_index, head_parts, read_inside
from .score_parts import Parts, read_stream

if TYPE_CHECKING:
    import pandas as pd


def split_logit(model: keras.Model, pair: Pair, row: int, token: int) -> "pd.DataFrame":
    """Splits the logit of a token.

    Args:
        model: a Transformer in float64, see `score_parts.in_float64`, whose cross-attention computes contexts from
            weights.
        pair: ids of the source, up to EOS, and of the target, from BOS on; no padding.
        row: the position of the decoder that predicts the token.
        token: its id.

    Returns:
        A row for each part: `part`, such as `decoder.0.cross`, `decoder.0.feed_forward`, `token` (the token just read)
        or `bias`; `layer`, `head` and `source`, the position of a source token, of parts of cross-attention, otherwise
        -1; `logit`, float64, which sums to the token's logit; and `difference`, the logit less the part's mean over the
        vocabulary: the softmax sees nothing else.

    Raises:
        InputError: another architecture, or there is no such row.
    """
    check_index("row", row, len(pair[1]))
    stream = _read_output(model, pair)
    table = convert_to_numpy(model.output_embedding.table)
    against = np.stack([table[token], table[token] - table.mean(axis=0)], axis=1)
    rows = [(*_place(name), *(vectors[row] @ against)) for name, vectors in stream.items()]
    if model.output_embedding.has_bias:
        bias = convert_to_numpy(model.output_embedding.bias)
        rows.append(("bias", -1, -1, -1, bias[token], bias[token] - bias.mean()))
    import pandas as pd

    keys = ["part", "layer", "head", "source"]
    return pd.DataFrame(rows, columns=[*keys, "logit", "difference"]).groupby(keys, sort=False, as_index=False).sum()


def source_logits(model: keras.Model, pair: Pair, predicted: Sequence[int]) -> np.ndarray:
    """Computes what cross-attention reads from each source token for the logit of each target token, less its mean over
    the vocabulary: the sum over layers and heads of the parts of `split_logit`.

    Args:
        model, pair: see `split_logit`.
        predicted: the ids that are predicted, T of them.

    Returns:
        float64 `(T, S)`.
    """
    table = convert_to_numpy(model.output_embedding.table)
    against = table[np.asarray(predicted)] - table.mean(axis=0)
    logits = np.zeros((len(predicted), len(pair[0])))
    for name, vectors in _read_output(model, pair).items():
        *_, source = _place(name)
        if source >= 0:
            logits[:, source] += (vectors * against).sum(axis=-1)
    return logits


def _read_output(model: keras.Model, pair: Pair) -> Parts:
    """Returns the parts of the decoder's output, with a part of cross-attention for each source token."""
    if not isinstance(model, Transformer):
        raise InputError(f"expected a Transformer with encoder and decoder, found {type(model).__name__}")
    found, _ = read_inside(model, pair, ["*.head.*", "*.feed_forward.output", "*.cross.weights", "*.cross.values"])
    for number, block in enumerate(model.decoder_blocks):
        name = f"decoder.{number}.cross"
        values = block.cross_attention.repeat_heads(found[f"{name}.values"][None])
        weights = found[f"{name}.weights"]  # (H, T, S)
        of_values = convert_to_numpy(head_parts(block.cross_attention, values))[0]  # (H, S, D)
        for head, of_head in enumerate(of_values):
            del found[f"{name}.head.{head}"]
            found |= {
                f"{name}.head.{head}.source.{place}": weights[head, :, place, None] * vector
                for place, vector in enumerate(of_head)
            }
    return read_stream(model, "decoder", pair[1], found, "")


def _place(name: str) -> tuple[str, int, int, int]:
    """Returns part, layer, head and source position of a part of the stream; all biases are one part."""
    if name.endswith((".bias", ".norm")):
        return "bias", -1, -1, -1
    part, _, rest = name.partition(".head.")
    head, _, place = rest.partition(".source.")
    return (part, int(part.split(".")[1]), int(head), int(place)) if place else (part, -1, -1, -1)
