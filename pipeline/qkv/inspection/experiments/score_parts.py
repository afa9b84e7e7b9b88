"""The scores of one row of a head, split into the parts that query and key take from the model below.

A product score is linear in query and key, which are projections of residual streams, and a stream is the sum of what
embedding, positions and sublayers have added to it. Only layer normalisation stands between them. Its mean and standard
deviation are held fixed at what they are for this sentence; then it is linear, too: the mean of a sum is the sum of the
means, so each part is centred by its own. After post-norm every part goes through all normalisations above it.

The model's own layers compute all of this, in a copy of it in float64.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops
from keras.ops import convert_to_numpy

from ...attention.mechanisms import Softmax
from ...attention.multi_head import AttentionLayer
from ...attention.relative_positions import Distances, rotation
from ...attention.scores import PRODUCTS
from ...attention.self_attention import SelfAttention
from ...config.names.model import ATTENTION_SITES
from ...errors import InputError, did_you_mean
from ...model.transformer import Transformer
from .inside import Pair, check_index, read_inside
from .intervention import changeable_layers

if TYPE_CHECKING:
    import pandas as pd


def in_float64(model: keras.Model) -> keras.Model:
    """Returns a copy of a model that computes in float64, but for the softmax of its attention."""
    copy = type(model).from_config({**model.get_config(), "dtype": "float64"})
    copy.build()
    copy_weights(model, copy)
    return copy


def copy_weights(model: keras.Model, copy: keras.Model) -> None:
    """Gives a copy of a model its weights, as they are saved: what LoRA adds to a matrix is part of it."""
    for layer, twin in zip(model._flatten_layers(), copy._flatten_layers(), strict=True):
        saved: dict[str, Any] = {}
        layer.save_own_variables(saved)
        twin.load_own_variables(saved)


def explained_sites(model: keras.Model) -> list[str]:
    """Returns the `config.names.model.ATTENTION_SITES` whose scores can be split."""
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


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """The scores of one row of one head, split into pairs of parts.

    Letters: Q and P parts of query and key, S keys.

    Attributes:
        layer: such as `decoder.0.cross`.
        head: its number.
        row: the query's position.
        query: the token that the row is computed from.
        predicted: the token that the row predicts; empty in the encoder.
        keys: the tokens that it may look at, S of them.
        query_parts: Q names: `token`, `position`, `encoder.0.self.head.1`, `encoder.0.self.bias` (of its output
            projection), `encoder.0.feed_forward`, `encoder.0.feed_forward.bias`, `decoder.0.cross.norm` (the bias of a
            normalisation), `queries.bias`.
        key_parts: P names; likewise, and `keys.bias`.
        pairs: `(Q, P, S)`, float64; the sum over both parts is the score.
        weights: `(S,)`, the softmax of the scores.
    """

    layer: str
    head: int
    row: int
    query: str
    predicted: str
    keys: list[str]
    query_parts: list[str]
    key_parts: list[str]
    pairs: np.ndarray
    weights: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """The scores before the softmax, `(S,)`."""
        return self.pairs.sum(axis=(0, 1))

    @property
    def differences(self) -> np.ndarray:
        """The pairs without their mean over the keys, `(Q, P, S)`: the softmax sees nothing else."""
        return self.pairs - self.pairs.mean(axis=-1, keepdims=True)

    def merged(self) -> "ScoreParts":
        """Returns the same with fewer parts: the heads of a layer are added up, and so are all biases."""
        query_parts, by_query = _merge(self.query_parts)
        key_parts, by_key = _merge(self.key_parts)
        pairs = np.einsum("aq,bp,qps->abs", by_query, by_key, self.pairs)
        return replace(self, query_parts=query_parts, key_parts=key_parts, pairs=pairs)

    def table(self) -> "pd.DataFrame":
        """Returns a row for each key and pair of parts: `position`, `key`, `query_part`, `key_part`, `score`, and
        `difference`, which is the score less its mean over the keys."""
        import pandas as pd

        names = [range(len(self.keys)), self.query_parts, self.key_parts]
        index = pd.MultiIndex.from_product(names, names=["position", "query_part", "key_part"])
        scores, differences = (np.moveaxis(x, -1, 0).ravel() for x in (self.pairs, self.differences))
        table = pd.DataFrame({"score": scores, "difference": differences}, index).reset_index()
        table.insert(1, "key", [self.keys[position] for position in table["position"]])
        return table

    def shares(self) -> "pd.DataFrame":
        """Returns how much of the differences between the row's scores each pair of parts accounts for: a row for each
        part of the query, a column for each part of the key, 1 in sum.

        A share is the covariance of a pair with the scores over the variance of the scores, both over the keys. It is
        negative where a pair holds against what the others want, and 0 for what is the same for all keys. It is
        not-a-number where all scores are equal.
        """
        import pandas as pd

        differences = self.differences
        of_scores = differences.sum(axis=(0, 1))
        variance = (of_scores**2).sum()
        shares = differences @ of_scores / variance if variance else np.full(self.pairs.shape[:2], np.nan)
        return pd.DataFrame(shares, self.query_parts, self.key_parts)


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
    attention = find_attention(model, pair, layer, head, row)
    side, _, kind = layer.split(".")
    source, target = pair
    queries = source if side == "encoder" else target
    keys = target if (side, kind) == ("decoder", "self") else source
    found, _ = read_inside(model, pair, ["*.head.*", "*.feed_forward.output", f"{layer}.weights"])
    visible = row + 1 if (side, kind) == ("decoder", "self") else len(keys)

    stream = read_stream(model, side, queries, found, layer)
    project_query, project_key = _projections(attention, model.source_positions.kind, len(queries))
    query_parts = _project(project_query, stream, "queries.bias")
    if kind == "cross":
        stream = read_stream(model, "encoder", keys, found, "")
    key_parts = _project(project_key, stream, "keys.bias")
    compared, against = (np.stack(list(parts.values())) for parts in (query_parts, key_parts))
    compared, against, *_ = attention.score.prepare(*map(ops.convert_to_tensor, (compared, against)))
    compared, against = (ops.convert_to_numpy(x)[:, head] for x in (compared, against))
    names = [str(key) for key in keys[:visible]], list(query_parts), list(key_parts)
    pairs = np.einsum("qk,psk->qps", compared[:, row], against[:, :visible])
    weights = found[f"{layer}.weights"][head, row, :visible]
    return ScoreParts(layer, head, row, str(queries[row]), "", *names, pairs, weights)


def find_attention(model: keras.Model, pair: Pair, layer: str, head: int, row: int) -> Any:
    """Returns the attention layer of that name; raises an `InputError` if its scores are no sum over parts, or it has
    no such head or row."""
    if not isinstance(model, Transformer):
        raise InputError(f"expected a Transformer with encoder and decoder, found {type(model).__name__}")
    found = {name: one for one, name in model.layer_names("decoder").items() if isinstance(one, AttentionLayer)}
    if layer not in found:
        raise InputError(f"{layer:.60}: expected one of {', '.join(found)}{did_you_mean(layer, list(found))}")
    attention = found[layer]
    if type(attention.score) not in PRODUCTS.values():
        found = attention.mechanism.score_name
        raise InputError(f"{layer}: expected a score that is a product ({', '.join(PRODUCTS)}), found {found}")
    if isinstance(attention, SelfAttention) and model.source_positions.kind == "alibi":
        raise InputError(f"{layer}: positions alibi add to scores what is part of neither query nor key")
    check_index("head", head, attention.num_heads)
    check_index("row", row, len(pair[not layer.startswith("encoder")]))
    return attention


Parts = dict[str, np.ndarray]
"""The summands of a residual stream by name, `(T, D)` each."""


def _project(project: Callable[[Any], Any], parts: Parts, bias: str) -> Parts:
    """Returns the projections of the parts, `(H, T, K)`, that are not zero, and of nothing, which is the bias."""
    given = np.stack([*parts.values(), np.zeros_like(parts["token"])])
    projected = convert_to_numpy(project(ops.convert_to_tensor(given)))
    of_parts = dict(zip(parts, projected[:-1] - projected[-1], strict=True)) | {bias: projected[-1]}
    return {name: x for name, x in of_parts.items() if x.any()}


def _projections(attention: Any, positions: str, length: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns the projections of queries and of keys, each key for its heads of queries; rotary positions turn both."""
    if isinstance(attention, SelfAttention):
        turn = rotation(np.arange(length), attention.key_dim) if positions == "rotary" else None

        def project(x):
            return attention.project(x, distances=Distances(turn))

        return lambda x: project(x)[0], lambda x: attention.repeat_heads(project(x)[1])
    return attention.project_query, lambda x: attention.repeat_heads(attention.project_memory(x, x)[0])


BIASES = "biases"


def _merge(names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Returns fewer names, and a matrix of 0 and 1 whose rows say of which old ones each is the sum."""
    coarse = [BIASES if name.endswith((".bias", ".norm")) else name.split(".head.")[0] for name in names]
    kept = sorted(dict.fromkeys(coarse), key=BIASES.__eq__)  # the biases last
    return kept, np.array([[float(name == one) for name in coarse] for one in kept])


SIDES = {"encoder": "source", "decoder": "target"}
SUBLAYERS = {"encoder": ("self", "feed_forward"), "decoder": ("self", "cross", "feed_forward")}


def read_stream(model: Any, side: str, ids: Any, found: Mapping[str, np.ndarray], layer: str) -> Parts:
    """Returns the input of the queries of a layer and, in self-attention, of its keys; for "" the output of the side:
    the encoder's is the input of the keys of cross-attention, and the decoder's is what the logits are computed from.

    Args:
        model: the Transformer.
        side: `encoder` or `decoder`.
        ids: of that side's tokens.
        found: of `read_inside`: what networks and heads add; a head's parts may stand for it, by longer names.
        layer: the layer that the stream enters, or "".
    """
    embedding, positions = (getattr(model, f"{SIDES[side]}_{part}") for part in ("embedding", "positions"))
    tokens = embedding(np.array([ids], "int32"))
    parts = {"token": convert_to_numpy(tokens)[0], "position": convert_to_numpy(positions(ops.zeros_like(tokens)))[0]}
    for number, block in enumerate(getattr(model, f"{side}_blocks")):
        for kind in SUBLAYERS[side]:
            name = f"{side}.{number}.{kind}"
            part = kind if kind == "feed_forward" else f"{kind}_attention"
            sublayer, residual = getattr(block, part), getattr(block, f"{part}_residual")
            if name == layer:
                parts = _normalize(parts, residual.normalization, name) if residual.norm == "pre" else parts
                return _add_positions(parts, positions)
            parts |= _read_output(name, sublayer, found)
            parts = _normalize(parts, residual.normalization, name) if residual.norm == "post" else parts
    if model.final_norms:
        parts = _normalize(parts, model.final_norms[[*SIDES].index(side)], side)
    return _add_positions(parts, positions) if side == "encoder" else parts


def _read_output(name: str, sublayer: Any, found: Mapping[str, np.ndarray]) -> Parts:
    """Returns what a sublayer has added to the stream: its heads or its network, and the bias of its last matrix."""
    is_network = name.endswith("feed_forward")
    last = sublayer.outer if is_network else sublayer.output_projection
    if is_network:
        parts = {name: found[f"{name}.output"] - convert_to_numpy(last.bias)}
    else:
        parts = {part: output for part, output in found.items() if part.startswith(f"{name}.head.")}
    if last is not None and last.use_bias:
        like = next(iter(parts.values()))
        parts[f"{name}.bias"] = np.broadcast_to(convert_to_numpy(last.bias), like.shape)
    return parts


def _normalize(parts: Parts, norm: Any, name: str) -> Parts:
    """Returns the parts of the normalised stream, the last of them the normalisation's bias."""
    whole = np.sum(list(parts.values()), axis=0)
    deviation = np.sqrt(whole.var(axis=-1, keepdims=True) + norm.epsilon)
    scale = convert_to_numpy(norm.gamma) / deviation
    normal = {part: (x - x.mean(axis=-1, keepdims=True)) * scale for part, x in parts.items()}
    return {**normal, f"{name}.norm": np.broadcast_to(convert_to_numpy(norm.beta), scale.shape)}


def _add_positions(parts: Parts, positions: Any) -> Parts:
    """Adds the positions that attention layers add to queries and keys."""
    added = positions.on_queries_and_keys(len(parts["position"]))
    return parts if added is None else {**parts, "position": parts["position"] + convert_to_numpy(added)}
