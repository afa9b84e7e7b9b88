"""Architectures, their parts, scores and attention mechanisms."""

from dataclasses import dataclass

ARCHITECTURES = {
    "transformer": "encoder and decoder of Transformer blocks",
    "recurrent": "GRU encoder and decoder with attention between them",
    "decoder_only": "one causal Transformer over source and target",
}
RECURRENT_DECODERS = {
    "bahdanau": "the state before the step is the query, and the context enters the step",
    "luong": "the state after the step is the query, and the context enters the output",
}
NORMS = {"pre": "normalise before each sublayer", "post": "normalise after it"}
POSITIONS = {
    "sinusoidal": "sines and cosines in turn",
    "sinusoidal_halves": "all sines, then all cosines, as in Marian",
    "learned": "a vector that is learnt for each position",
    "rotary": "queries and keys of self-attention are turned by their position, whatever positions_on says",
    "alibi": "scores of self-attention fall with distance, whatever positions_on says",
}
RELATIVE_POSITIONS = ("rotary", "alibi")
"""Those that act inside self-attention by distance, and add nothing to embeddings."""
POSITION_PLACES = {
    "input": "once to the embeddings",
    "queries_and_keys": "to the queries and keys of every attention layer, never to values",
}
TIED_EMBEDDINGS = {
    "all": "source, target and output share one table",
    "target": "target and output share one",
    "none": "each has its own",
}
MODEL_PARTS = {
    "embeddings": "the tables of tokens, one where model.tie_embeddings ties them, with the bias of the output, and of "
    "learned positions",
    "encoder": "all layers that read the source",
    "decoder": "all layers that write the target, cross-attention included; in decoder_only all layers",
    "self_attention": "the projections of every self-attention",
    "cross_attention": "the projections of every cross-attention; in recurrent the attention",
    "feed_forward": "the feed-forward network of every layer",
    "normalizations": "gains and offsets of every layer normalisation",
}
"""Parts whose weights can be kept as they are. They overlap: a self-attention is also a part of its encoder."""
WHOLE_MODEL = ("embeddings", "encoder", "decoder")  # the parts that have all weights between them
PARTS_MISSING = {
    "recurrent": ("self_attention", "feed_forward", "normalizations"),
    "decoder_only": ("encoder", "cross_attention"),
}
"""The parts that an architecture does not have."""
ACTIVATIONS = ("relu", "gelu", "silu")


@dataclass(frozen=True)
class ScoreInfo:
    """A way to compare queries and keys.

    Attributes:
        meaning: the formula, for help texts.
        projected: whether a recurrent model projects both sides first; the other scores have matrices of their own.
        by_angle: whether scores grow as the angle between query and key shrinks, which `lsh` relies on.
        is_product: whether the score is `q k^T` up to a factor, so that `W_Q W_K^T` has a meaning.
    """

    meaning: str
    projected: bool = False
    by_angle: bool = False
    is_product: bool = False


SCORE_INFO = {
    "scaled_dot": ScoreInfo("q.k / sqrt(size)", projected=True, by_angle=True, is_product=True),
    "dot": ScoreInfo("q.k", projected=True, by_angle=True, is_product=True),
    "general": ScoreInfo("q.Wk"),
    "cosine": ScoreInfo("cos(q, k) times a learnt scale", projected=True, by_angle=True),
    "additive": ScoreInfo("v.tanh(q + k)", projected=True),
    "concat": ScoreInfo("v.tanh(W[q; k])"),
}
ATTENTION_SITES = ("encoder_self", "decoder_self", "cross")
"""Where a Transformer attends; a decoder-only model has `decoder_self` alone."""


@dataclass(frozen=True)
class MechanismInfo:
    """A way from scores to weights.

    Attributes:
        meaning: for help texts.
        refused: for each of `ATTENTION_SITES` where it cannot be used, the reason.
        compares: whether queries are compared with keys at all, so that it needs a score.
        holds_weights: whether it computes all weights on its way, so that dropout can act on them.
        settings: the config keys that only this mechanism reads.
        gives_shares: whether its weights are shares of a row, at least 0 and together at most 1.
        distances: which of `RELATIVE_POSITIONS` it can see.
        guided: whether its weights can be taught word links.
        has_sink: whether weight may go to no key at all.
    """

    meaning: str
    refused: tuple[tuple[str, str], ...] = ()
    compares: bool = True
    holds_weights: bool = True
    settings: tuple[str, ...] = ()
    gives_shares: bool = True
    distances: tuple[str, ...] = ()
    guided: bool = False
    has_sink: bool = False


MECHANISM_INFO = {
    "softmax": MechanismInfo("the definition", distances=("rotary", "alibi"), guided=True),
    "sink": MechanismInfo(
        "softmax with a learnt sink, to which weight goes that no key deserves",
        distances=("rotary", "alibi"),
        guided=True,
        has_sink=True,
    ),
    "blockwise": MechanismInfo(
        "the same result as softmax without holding all weights in memory",
        holds_weights=False,
        settings=("block_size",),
        distances=("rotary",),
    ),
    "linformer": MechanismInfo(
        "keys and values mixed down to a fixed number",
        refused=(
            ("decoder_self", "mixes all positions before it weighs them, so it cannot hide the future from a decoder"),
        ),
        settings=("projected_length",),
        gives_shares=False,  # it mixes with weights of any sign
    ),
    "lsh": MechanismInfo(
        "attention within buckets of similar vectors",
        refused=(
            ("decoder_self", "has no step that adds one token to a cache, so it cannot translate token by token"),
            ("cross", "makes queries and keys by one projection, so it works for self-attention only"),
        ),
        settings=("buckets", "chunk_length", "rounds"),
    ),
    "one_hot": MechanismInfo("all weight on the key with the highest score", distances=("rotary", "alibi")),
    "uniform": MechanismInfo("equal weights", compares=False, distances=("rotary", "alibi")),
    "last": MechanismInfo("all weight on the last position", compares=False, distances=("rotary", "alibi")),
}


def mechanisms_at(site: str) -> list[str]:
    """Returns the mechanisms that can be used at one of `ATTENTION_SITES`."""
    return [name for name, mechanism in MECHANISM_INFO.items() if site not in dict(mechanism.refused)]


def fixed_weights() -> list[str]:
    """Returns the mechanisms that do not compare queries with keys."""
    return [name for name, mechanism in MECHANISM_INFO.items() if not mechanism.compares]
