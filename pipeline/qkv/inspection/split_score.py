"""Why a head looks where it looks: the scores of one row, split into what query and key take from the model below.

A product score is linear in query and key, which are projections of residual streams, and a stream is the sum of what
embedding, positions and sublayers have added to it. Only layer normalisation stands between them. Its mean and standard
deviation are held fixed at what they are for this sentence; then it is linear, too: the mean of a sum is the sum of the
means, so each part is centred by its own. After post-norm every part goes through all normalisations above it.

The model's own layers compute all of this, in a copy of it in float64.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from ..attention.mechanisms import Softmax
from ..attention.relative_positions import rotation
from ..attention.scores import PRODUCTS
from ..attention.self_attention import SelfAttention
from ..config.names.model import ATTENTION_SITES
from ..errors import InputError, did_you_mean
from .changed_model import changeable_layers
from .inside import Pair, read_inside
from .score_parts import ScoreParts
from .stream_parts import SIDES, SUBLAYERS, Parts, read_stream


def in_float64(model: keras.Model) -> keras.Model:
    """Returns a copy of a model that computes in float64, but for the softmax of its attention."""
    copy = type(model).from_config({**model.get_config(), "dtype": "float64"})
    copy.build((None, None), (None, None))
    copy.set_weights(model.get_weights())
    return copy


def explained_sites(model: keras.Model) -> list[str]:
    """Returns those of `config.names.model.ATTENTION_SITES` whose scores can be split."""
    layers = changeable_layers(model)
    every = [layer for found in layers.values() for layer in found]
    if len(layers) < len(ATTENTION_SITES) or any(type(layer.mechanism) is not Softmax for layer in every):
        return []
    unbiased = ["cross"] if model.source_positions.kind == "alibi" else ATTENTION_SITES
    return [site for site in unbiased if all(type(one.score) in PRODUCTS.values() for one in layers[site])]


def layer_name(site: str, layer: int) -> str:
    """Returns the name of a layer of one of `config.names.model.ATTENTION_SITES`, such as `decoder.0.cross`."""
    side, kind = ("decoder", "cross") if site == "cross" else site.split("_")
    return f"{side}.{layer}.{kind}"


def split_score(model: keras.Model, pair: Pair, layer: str, head: int, row: int) -> ScoreParts:
    """Splits the scores of one row of one head.

    Args:
        model: a Transformer in float64, see `in_float64`, whose attention layers have the mechanism `softmax`.
        pair: ids of the source, up to EOS, and of the target, from BOS on; no padding.
        layer: such as `encoder.0.self`, `decoder.0.self` or `decoder.0.cross`.
        head: its number.
        row: the query's position.

    Returns:
        The parts. Query and keys are named by their ids, `predicted` is empty; keys that the causal mask hides are
        left out.

    Raises:
        InputError: another architecture, mechanism or score; or there is no such layer, head or row.
    """
    attention = _find_attention(model, layer)
    side, _, kind = layer.split(".")
    source, target = pair
    queries, keys = {"encoder": (source, source), "decoder": (target, target if kind == "self" else source)}[side]
    for name, given, size in (("head", head, attention.num_heads), ("row", row, len(queries))):
        if not 0 <= given < size:
            raise InputError(f"{name}: expected a number from 0 to {size - 1}, found {given}")
    found, _ = read_inside(model, pair, ["*.head.*", "*.feed_forward.output", f"{layer}.weights"])
    visible = row + 1 if (side, kind) == ("decoder", "self") else len(keys)

    stream = read_stream(model, side, queries, found, layer)
    project_query, project_key = _projections(attention, getattr(model, f"{SIDES[side]}_positions").kind, len(queries))
    query_parts = _project(project_query, stream, "queries.bias")
    if kind == "cross":
        stream = read_stream(model, "encoder", keys, found, "")
    key_parts = _project(project_key, stream, "keys.bias")
    compared, against = (np.stack(list(parts.values())) for parts in (query_parts, key_parts))
    compared, against, *_ = attention.score.prepare(*map(ops.convert_to_tensor, (compared, against)))
    compared, against = (ops.convert_to_numpy(x)[:, head] for x in (compared, against))
    return ScoreParts(
        layer,
        head,
        row,
        str(queries[row]),
        "",
        [str(key) for key in keys[:visible]],
        list(query_parts),
        list(key_parts),
        np.einsum("qk,psk->qps", compared[:, row], against[:, :visible]),
        found[f"{layer}.weights"][head, row, :visible],
    )


def _find_attention(model: keras.Model, layer: str) -> Any:
    sides = {side: list(getattr(model, f"{side}_blocks", ())) for side in SUBLAYERS}
    if not all(sides.values()):
        raise InputError(f"expected a Transformer with encoder and decoder, found {type(model).__name__}")
    found = {
        f"{side}.{number}.{kind}": getattr(block, f"{kind}_attention")
        for side, blocks in sides.items()
        for number, block in enumerate(blocks)
        for kind in SUBLAYERS[side][:-1]
    }
    if layer not in found:
        raise InputError(f"{layer}: expected one of {', '.join(found)}{did_you_mean(layer, list(found))}")
    attention = found[layer]
    if type(attention.score) not in PRODUCTS.values():
        raise InputError(
            f"{layer}: expected a score that is a product of query and key ({', '.join(PRODUCTS)}), found "
            f"{attention.mechanism.score_name}, which is no sum over parts of them"
        )
    if isinstance(attention, SelfAttention) and model.source_positions.kind == "alibi":
        raise InputError(f"{layer}: positions alibi add to scores what is part of neither query nor key")
    return attention


def _project(project: Callable[[Any], Any], parts: Parts, bias: str) -> Parts:
    """Returns the projections of the parts, `(H, T, K)` each, and of nothing at all, which is the bias; without those
    that are zero."""
    given = np.stack([*parts.values(), np.zeros_like(parts["token"])])
    projected = _numpy(project(ops.convert_to_tensor(given)))
    of_parts = dict(zip(parts, projected[:-1] - projected[-1], strict=True)) | {bias: projected[-1]}
    return {name: x for name, x in of_parts.items() if x.any()}


def _projections(attention: Any, positions: str, length: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns the projections of queries and of keys, each key for its heads of queries; rotary positions turn both."""
    if isinstance(attention, SelfAttention):
        turn = rotation(np.arange(length), attention.key_dim) if positions == "rotary" else None

        def project(x):
            return attention.project(x, rotation=turn)

        return lambda x: project(x)[0], lambda x: attention.repeat_heads(project(x)[1])
    return attention.project_query, lambda x: attention.repeat_heads(attention.project_memory(x, x)[0])


def _numpy(x: Any) -> np.ndarray:
    return ops.convert_to_numpy(x)
