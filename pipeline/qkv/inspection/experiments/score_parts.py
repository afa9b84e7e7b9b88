"""Decomposition of attention scores: each score as a sum over pairs of a part of the query and a part of the key.

A product score is linear in query and key, which are projections of residual streams. A residual stream is the sum of
the outputs of the embedding, the positions and the sublayers below. Only layer normalisation is not linear. It becomes
linear if its standard deviation is held fixed at the value for this sentence. Each part is then centred by its own
mean, since the mean of a sum is the sum of the means. With post-norm, every part passes all normalisations above it.

The parts are computed by the layers of a float64 copy of the model.

Letters: N summands, H heads, T positions, D model width, K key size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops
from keras.ops import convert_to_numpy

from ...attention.cross_attention import CrossAttention
from ...attention.mechanisms import Softmax
from ...attention.multi_head import AttentionLayer
from ...attention.relative_positions import Distances, rotation
from ...attention.scores import PRODUCTS
from ...attention.self_attention import SelfAttention
from ...config.choices.model import ATTENTION_SITES
from ...decoding.translator import Translator
from ...errors import InputError, did_you_mean
from ...layers.keras_layers import LayerNormalization
from ...model.embedding import PositionalEmbedding
from ...model.transformer import DecoderBlock, EncoderBlock, FeedForward, Residual, Transformer
from ...runtime.graphs import GraphCache
from .activations import Pair, check_index, read_activations, read_ids
from .intervention import changeable_layers

if TYPE_CHECKING:
    import pandas as pd


def in_float64(model: keras.Model) -> keras.Model:
    """Returns a new model with the same weights that computes in float64, except for the softmax of its attention."""
    copy = type(model).from_config({**model.get_config(), "dtype": "float64"})
    copy.build()
    copy_weights(model, copy)
    return copy


def shared_float64(model: keras.Model, graphs: GraphCache) -> keras.Model:
    """Returns the copy by `in_float64` from a cache, and sets its weights to the model's present weights."""
    copy = graphs.get((model, "float64"), lambda: in_float64(model))
    copy_weights(model, copy)
    return copy


def copy_weights(model: keras.Model, copy: keras.Model) -> None:
    """Copies the weights of a model to a copy of it, in the form in which they are saved: LoRA matrices are merged."""
    for layer, twin in zip(model._flatten_layers(), copy._flatten_layers(), strict=True):
        saved: dict[str, Any] = {}
        layer.save_own_variables(saved)
        twin.load_own_variables(saved)


def explained_sites(model: keras.Model) -> list[str]:
    """Returns the sites whose scores `split_score` can split, of `config.choices.model.ATTENTION_SITES`.

    The list is empty unless the model is a Transformer with the mechanism `softmax` at all sites and no parts of a
    subclass (see `check_parts`). Sites are left out if their score is not a product, and self-attention if its
    positions are ALiBi.
    """
    layers = changeable_layers(model) if has_known_parts(model) else {}
    all_layers = [layer for layers_of_site in layers.values() for layer in layers_of_site]
    if len(layers) < len(ATTENTION_SITES) or any(type(layer.mechanism) is not Softmax for layer in all_layers):
        return []
    unbiased = ["cross"] if model.source_positions.kind == "alibi" else ATTENTION_SITES
    return [site for site in unbiased if all(type(layer.score) in PRODUCTS.values() for layer in layers[site])]


PARTS = (
    EncoderBlock,
    DecoderBlock,
    SelfAttention,
    CrossAttention,
    FeedForward,
    Residual,
    LayerNormalization,
    PositionalEmbedding,
)
"""The classes whose computation the decompositions of scores and logits know."""


def check_parts(model: keras.Model) -> None:
    """Checks that a model is a Transformer whose scores and logits can be split.

    Raises:
        InputError: the model is not a Transformer, or a subclass has replaced a block, a sublayer or a normalisation.
    """
    if not isinstance(model, Transformer):
        raise InputError(f"expected a Transformer with encoder and decoder, found {type(model).__name__}")
    parts: list[keras.Layer] = [model.source_positions, model.target_positions, *model.final_norms]
    for block in (*model.encoder_blocks, *model.decoder_blocks):
        sublayers = list(block.layer_names(""))
        parts += [block, *sublayers, *(part.normalization for part in sublayers if isinstance(part, Residual))]
    for part in parts:
        if type(part) not in PARTS:
            raise InputError(
                f"expected a Transformer of qkv's own blocks, found {type(part).__name__}: how it adds to the states "
                "is not known, so they cannot be split"
            )


def has_known_parts(model: keras.Model) -> bool:
    """Returns whether `check_parts` accepts the model."""
    try:
        check_parts(model)
    except InputError:
        return False
    return True


def layer_name(site: str, layer: int) -> str:
    """Returns the name of an attention layer, such as `decoder.0.cross`.

    Args:
        site: one of `config.choices.model.ATTENTION_SITES`.
        layer: the index of the layer.
    """
    side, kind = ("decoder", "cross") if site == "cross" else site.split("_")
    return f"{side}.{layer}.{kind}"


@dataclass(frozen=True, eq=False, repr=False)
class ScoreParts:
    """The scores of one row of one head, split into pairs of a query part and a key part.

    Letters: Q query parts, P key parts, S keys.

    Attributes:
        layer: the name of the attention layer, such as `decoder.0.cross`.
        head: the index of the head.
        row: the position of the query.
        query: the token from which the row is computed.
        predicted: the token that the row predicts; empty in the encoder.
        keys: the tokens that the row may attend to, S of them.
        query_parts: the names of the Q query parts, such as `token`, `position`, `encoder.0.self.head.1`,
            `encoder.0.self.bias` (of the output projection), `encoder.0.feed_forward`, `encoder.0.feed_forward.bias`,
            `decoder.0.cross.norm` (the bias of a normalisation) and `queries.bias` (of the query projection).
        key_parts: the names of the P key parts, of the same kinds, with `keys.bias` instead of `queries.bias`.
        pairs: the summands of the scores, float64 `(Q, P, S)`; their sum over both kinds of parts is the score.
        weights: the softmax of the scores, `(S,)`.
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

    def __repr__(self) -> str:
        """Returns one line: the row of attention, the numbers of parts and keys, and the key with the most weight."""
        query_parts, key_parts, keys = self.pairs.shape
        most = int(self.weights.argmax())
        return (
            f"<ScoreParts of {self.layer}, head {self.head}, row {self.row}, {self.query!r}: "
            f"{query_parts} x {key_parts} parts, {keys} keys; weight {self.weights[most]:.2f} on {self.keys[most]!r}>"
        )

    @property
    def scores(self) -> np.ndarray:
        """The scores before the softmax, `(S,)`."""
        return self.pairs.sum(axis=(0, 1))

    @property
    def differences(self) -> np.ndarray:
        """The pairs minus their mean over the keys, `(Q, P, S)`. The softmax depends on nothing else."""
        return self.pairs - self.pairs.mean(axis=-1, keepdims=True)

    def merged(self) -> "ScoreParts":
        """Returns the same scores with fewer parts: the heads of each layer are summed, and all biases are summed."""
        query_parts, by_query = _merge(self.query_parts)
        key_parts, by_key = _merge(self.key_parts)
        pairs = np.einsum("aq,bp,qps->abs", by_query, by_key, self.pairs)
        return replace(self, query_parts=query_parts, key_parts=key_parts, pairs=pairs)

    def table(self) -> "pd.DataFrame":
        """Returns a row for each key and pair of parts.

        The columns are `position` and `key` (the key's index and token), `query_part`, `key_part`, `score` (the
        pair's summand), and `difference` (the summand minus its mean over the keys).
        """
        import pandas as pd

        names = [range(len(self.keys)), self.query_parts, self.key_parts]
        index = pd.MultiIndex.from_product(names, names=["position", "query_part", "key_part"])
        scores = np.moveaxis(self.pairs, -1, 0).ravel()
        differences = np.moveaxis(self.differences, -1, 0).ravel()
        table = pd.DataFrame({"score": scores, "difference": differences}, index).reset_index()
        table.insert(1, "key", [self.keys[position] for position in table["position"]])
        return table

    def shares(self) -> "pd.DataFrame":
        """Returns each pair's share of the variance of the row's scores over the keys.

        A share is the covariance of the pair with the scores, divided by the variance of the scores, both over the
        keys. It is negative if the pair counteracts the other pairs, and 0 if it is the same for all keys. All shares
        are NaN if all scores are equal.

        Returns:
            A row for each query part and a column for each key part; all shares sum to 1.
        """
        import pandas as pd

        differences = self.differences
        score_differences = differences.sum(axis=(0, 1))
        variance = (score_differences**2).sum()
        shares = differences @ score_differences / variance if variance else np.full(self.pairs.shape[:2], np.nan)
        return pd.DataFrame(shares, self.query_parts, self.key_parts)


def split_score(model: keras.Model, pair: Pair, layer: str, head: int, row: int) -> ScoreParts:
    """Splits the scores of one row of one head.

    Args:
        model: a Transformer in float64, see `in_float64`. The layer must have the mechanism `softmax`, which is not
            checked.
        pair: the sentence pair.
        layer: the name of the attention layer, such as `encoder.0.self`, `decoder.0.self` or `decoder.0.cross`.
        head: the index of the head.
        row: the position of the query.

    Returns:
        The parts. `query` and `keys` are ids written as text, and `predicted` is empty. Keys that the causal mask hides
        are left out.

    Raises:
        InputError: the layer, head or row does not exist, or its scores cannot be split (see `find_attention`).
    """
    attention = find_attention(model, pair, layer, head, row)
    side, _, kind = layer.split(".")
    source, target = pair
    queries = source if side == "encoder" else target
    keys = target if (side, kind) == ("decoder", "self") else source
    visible = row + 1 if (side, kind) == ("decoder", "self") else len(keys)
    activations, _ = read_activations(model, pair, ["*.head.*", "*.feed_forward.output", f"{layer}.weights"])

    stream = read_stream(model, side, queries, activations, layer)
    project_query, project_key = _projections(attention, model.source_positions.kind, len(queries))
    query_parts = _project(project_query, stream, "queries.bias")
    if kind == "cross":
        stream = read_stream(model, "encoder", keys, activations, "")
    key_parts = _project(project_key, stream, "keys.bias")
    prepared_queries, prepared_keys, *_ = attention.score.prepare(
        ops.convert_to_tensor(np.stack(list(query_parts.values()))),
        ops.convert_to_tensor(np.stack(list(key_parts.values()))),
    )
    head_queries = ops.convert_to_numpy(prepared_queries)[:, head]
    head_keys = ops.convert_to_numpy(prepared_keys)[:, head]
    return ScoreParts(
        layer,
        head,
        row,
        query=str(queries[row]),
        predicted="",
        keys=[str(key) for key in keys[:visible]],
        query_parts=list(query_parts),
        key_parts=list(key_parts),
        pairs=np.einsum("qk,psk->qps", head_queries[:, row], head_keys[:, :visible]),
        weights=activations[f"{layer}.weights"][head, row, :visible],
    )


def explain_score(translator: Translator, sentence: Any, layer: Any, *, head: int, row: int) -> ScoreParts:
    """Splits the scores of one row of one head for a sentence that is given as text.

    Args:
        translator: the translator of the model, which must be a Transformer.
        sentence: a `SentenceOrPair`, see `inspection.experiments.activations`.
        layer: the name of the attention layer, such as `decoder.0.cross`. It must have the mechanism `softmax`, which
            is not checked.
        head: the index of the head.
        row: the position of the query. In the decoder, row t predicts output token t.

    Returns:
        The parts, with the spelling of the tokens.

    Raises:
        InputError: `layer` is not text, the sentence is not valid (see `inspection.experiments.activations.read_ids`),
            or the scores cannot be split (see `find_attention`).
    """
    if not isinstance(layer, str):
        raise InputError(f"layer: expected text such as 'decoder.0.cross', found {layer!r:.60}")
    pair, predicted = read_ids(translator, sentence)
    parts = split_score(shared_float64(translator.model, translator.graphs), pair, layer, head, row)
    pieces = translator.tokenizer.pieces
    return replace(
        parts,
        query=pieces([int(parts.query)])[0],
        predicted=pieces([predicted[row]])[0] if layer.startswith("decoder") else "",
        keys=pieces([int(key) for key in parts.keys]),
    )


def find_attention(model: keras.Model, pair: Pair, layer: str, head: int, row: int) -> Any:
    """Returns the attention layer of a name, after checking that its scores can be split.

    Args:
        model: the model.
        pair: the sentence pair, whose length limits `row`.
        layer: the name of the layer, such as `decoder.0.cross`.
        head: the index of the head, for the check.
        row: the position of the query, for the check.

    Raises:
        InputError: the model cannot be split (see `check_parts`), it has no such layer, head or row, the layer's score
            is not a product, or the layer is self-attention with ALiBi positions.
    """
    check_parts(model)
    names = model.layer_names("decoder").items()  # of the encoder's layers as well
    layers = {name: candidate for candidate, name in names if isinstance(candidate, AttentionLayer)}
    if layer not in layers:
        raise InputError(f"{layer:.60}: expected one of {', '.join(layers)}{did_you_mean(layer, list(layers))}")
    attention = layers[layer]
    if type(attention.score) not in PRODUCTS.values():
        name = attention.mechanism.score_name
        raise InputError(f"{layer}: expected a score that is a product ({', '.join(PRODUCTS)}), found {name}")
    if isinstance(attention, SelfAttention) and model.source_positions.kind == "alibi":
        raise InputError(f"{layer}: positions alibi add to scores a term that is part of neither query nor key")
    check_index("head", head, attention.num_heads)
    check_index("row", row, len(pair[not layer.startswith("encoder")]))
    return attention


Parts = dict[str, np.ndarray]
"""The summands of a residual stream by name, float64 `(T, D)` each."""


def _project(project: Callable[[Any], Any], parts: Parts, bias: str) -> Parts:
    """Projects the summands of a stream to queries or keys.

    Args:
        project: the projection, `(N, T, D) -> (N, H, T, K)`.
        parts: the summands.
        bias: the name of the summand that the projection's bias becomes.

    Returns:
        The summands of the queries or keys by name, `(H, T, K)` each. Summands that are all zero are left out.
    """
    inputs = np.stack([*parts.values(), np.zeros_like(parts["token"])])
    outputs = convert_to_numpy(project(ops.convert_to_tensor(inputs)))
    bias_output = outputs[-1]  # the projection of zeros
    projected = dict(zip(parts, outputs[:-1] - bias_output, strict=True)) | {bias: bias_output}
    return {name: summand for name, summand in projected.items() if summand.any()}


def _projections(attention: Any, positions: str, length: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns two functions, the projections to queries and to keys, both `(N, T, D) -> (N, H, T, K)`.

    Args:
        attention: the attention layer. Keys that several heads share are repeated for each of these heads.
        positions: the kind of the model's positions. If it is `rotary`, the queries and keys of self-attention are
            rotated.
        length: T.
    """
    if isinstance(attention, SelfAttention):
        angles = rotation(np.arange(length), attention.key_dim) if positions == "rotary" else None

        def project(x):
            return attention.project(x, distances=Distances(angles))

        return lambda x: project(x)[0], lambda x: attention.repeat_heads(project(x)[1])
    return attention.project_query, lambda x: attention.repeat_heads(attention.project_memory(x, x)[0])


BIASES = "biases"
"""The name of the sum of all biases."""


def _merge(names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Merges the heads of each layer, and all biases.

    Returns:
        `(merged, sums)`: the M names after merging, the biases last; and a matrix `(M, len(names))`, 1 in the columns
        of the names that are merged into the row's name, and 0 elsewhere.
    """
    merged_names = [BIASES if name.endswith((".bias", ".norm")) else name.split(".head.")[0] for name in names]
    merged = sorted(dict.fromkeys(merged_names), key=BIASES.__eq__)  # the biases last
    return merged, np.array([[float(merged_name == row) for merged_name in merged_names] for row in merged])


LANGUAGE_OF_SIDE = {"encoder": "source", "decoder": "target"}
SUBLAYERS = {"encoder": ("self", "feed_forward"), "decoder": ("self", "cross", "feed_forward")}


def read_stream(model: Any, side: str, ids: Any, activations: Mapping[str, np.ndarray], layer: str) -> Parts:
    """Returns the summands of a layer's input, or of the output of a whole side.

    The input of an attention layer is the input of its queries and, in self-attention, of its keys. The output of the
    encoder is the input of the keys of cross-attention. The logits are computed from the output of the decoder.

    Args:
        model: the Transformer.
        side: `encoder` or `decoder`.
        ids: the ids of the tokens that this side reads.
        activations: the results of `read_activations` that match `*.head.*` and `*.feed_forward.output`. A head may be
            replaced by its parts, whose names begin with the head's name.
        layer: the name of the layer whose input is returned; "" for the output of the side.
    """
    embedding = getattr(model, f"{LANGUAGE_OF_SIDE[side]}_embedding")
    positions = getattr(model, f"{LANGUAGE_OF_SIDE[side]}_positions")
    tokens = embedding(np.array([ids], "int32"))
    parts = {"token": convert_to_numpy(tokens)[0], "position": convert_to_numpy(positions(ops.zeros_like(tokens)))[0]}
    for number, block in enumerate(getattr(model, f"{side}_blocks")):
        for kind in SUBLAYERS[side]:
            name = f"{side}.{number}.{kind}"
            attribute = kind if kind == "feed_forward" else f"{kind}_attention"
            sublayer = getattr(block, attribute)
            residual = getattr(block, f"{attribute}_residual")
            if name == layer:
                parts = _normalize(parts, residual.normalization, name) if residual.norm == "pre" else parts
                return _add_positions(parts, positions)
            parts |= _output_summands(name, sublayer, activations)
            parts = _normalize(parts, residual.normalization, name) if residual.norm == "post" else parts
    if model.final_norms:
        parts = _normalize(parts, getattr(model.final_norms, side), side)
    return _add_positions(parts, positions) if side == "encoder" else parts


def _output_summands(name: str, sublayer: Any, activations: Mapping[str, np.ndarray]) -> Parts:
    """Returns the summands of a sublayer's output: its heads or its network, and the bias of its last projection.

    Args:
        name: the name of the sublayer, such as `decoder.0.cross` or `decoder.0.feed_forward`.
        sublayer: the attention layer or the feed-forward network.
        activations: see `read_stream`.
    """
    is_network = name.endswith("feed_forward")
    last = sublayer.outer if is_network else sublayer.output_projection
    if is_network:
        parts = {name: activations[f"{name}.output"] - convert_to_numpy(last.bias)}
    else:
        parts = {part: output for part, output in activations.items() if part.startswith(f"{name}.head.")}
    if last is not None and last.use_bias:
        shape = next(iter(parts.values())).shape
        parts[f"{name}.bias"] = np.broadcast_to(convert_to_numpy(last.bias), shape)
    return parts


def _normalize(parts: Parts, norm: Any, name: str) -> Parts:
    """Returns the summands of the normalised stream; the last one, `NAME.norm`, is the bias of the normalisation."""
    stream = np.sum(list(parts.values()), axis=0)
    deviation = np.sqrt(stream.var(axis=-1, keepdims=True) + norm.epsilon)
    scale = convert_to_numpy(norm.gamma) / deviation
    normalized = {part: (x - x.mean(axis=-1, keepdims=True)) * scale for part, x in parts.items()}
    return {**normalized, f"{name}.norm": np.broadcast_to(convert_to_numpy(norm.beta), scale.shape)}


def _add_positions(parts: Parts, positions: Any) -> Parts:
    """Returns the summands; encodings that the model adds to queries and keys are added to the summand `position`."""
    encodings = positions.on_queries_and_keys(len(parts["position"]))
    return parts if encodings is None else {**parts, "position": parts["position"] + convert_to_numpy(encodings)}
