"""Names for models: architectures, their parts, positions, scores and mechanisms of attention."""

from dataclasses import dataclass
from typing import Literal

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
"""The positions that act inside self-attention by distance. They add nothing to embeddings."""
POSITION_PLACES = {
    "input": "once to the embeddings",
    "queries_and_keys": "to the queries and keys of every attention layer, never to values",
}
TIED_EMBEDDINGS = {
    "all": "source, target and output share one table",
    "target": "target and output share one table",
    "none": "source, target and output have separate tables",
}
MODEL_PARTS = {
    "embeddings": "the tables of tokens, or their one table with model.tie_embeddings, the bias of the output, and "
    "learned positions",
    "encoder": "all layers that read the source",
    "decoder": "all layers that write the target, cross-attention included; in decoder_only all layers",
    "self_attention": "the projections of every self-attention",
    "cross_attention": "the projections of every cross-attention; in recurrent the attention",
    "feed_forward": "the feed-forward network of every layer",
    "normalizations": "gains and offsets of every layer normalisation",
}
"""The parts of a model whose weights can be frozen. They overlap: the encoder's self-attention is in two of them."""
WHOLE_MODEL = ("embeddings", "encoder", "decoder")  # together, these parts have all weights of a model
PARTS_MISSING: dict[str, tuple[str, ...]] = {
    "recurrent": ("self_attention", "feed_forward", "normalizations"),
    "decoder_only": ("encoder", "cross_attention"),
}
"""The parts in `MODEL_PARTS` that an architecture does not have."""
TAKES_SEGMENTS: dict[str, bool] = {"transformer": True, "recurrent": False, "decoder_only": True}
"""True for an architecture whose `encode` and `decode` have the argument `segments`, for rows of several pairs."""
Norm = Literal["pre", "post"]
Positions = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "alibi"]
RelativePositions = Literal["rotary", "alibi"]
PositionPlace = Literal["input", "queries_and_keys"]
TiedEmbeddings = Literal["all", "target", "none"]
RecurrentDecoderName = Literal["bahdanau", "luong"]
"""The types of the constructors' arguments with the names in `NORMS`, `POSITIONS`, `RELATIVE_POSITIONS`,
`POSITION_PLACES`, `TIED_EMBEDDINGS` and `RECURRENT_DECODERS`. Plugins can extend other tables of this module."""
ACTIVATIONS = ("relu", "gelu", "silu")


@dataclass(frozen=True)
class ScoreInfo:
    """Properties of a score function, which compares queries and keys.

    Attributes:
        meaning: the formula, for help texts.
        projected: True if a recurrent model projects queries and keys before it calls the score; False if the score
            has its own matrices.
        by_angle: True if the score grows as the angle between query and key shrinks. `lsh` and `rotary` need this.
        is_product: True if the score is `q k^T` times a constant, so that the product `W_Q W_K^T` can be analysed.
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
"""The sites of attention in a Transformer. A decoder-only model has only `decoder_self`."""


@dataclass(frozen=True)
class MechanismInfo:
    """Properties of a mechanism of attention, which turns scores into weights.

    Attributes:
        meaning: a description for help texts.
        refused: a (site, reason) pair for each site in `ATTENTION_SITES` where it cannot be used. The reason completes
            a sentence that begins with the name of the mechanism.
        compares: True if it compares queries with keys, and so needs a score.
        holds_weights: True if it holds all weights in memory, so that dropout can act on them.
        settings: the config keys that only this mechanism reads.
        gives_shares: True if the weights of a query are at least 0 and add up to at most 1.
        distances: the names in `RELATIVE_POSITIONS` that it supports.
        guided: True if guided attention can train its weights with word links.
        has_sink: True if the weights of a query may add up to less than 1, the rest going to a sink.
        takes_segments: True if a key that is hidden from a query changes nothing for it, so that a row may hold several
            sentence pairs.
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
    takes_segments: bool = True


MECHANISM_INFO = {
    "softmax": MechanismInfo("softmax over the keys that the mask allows", distances=("rotary", "alibi"), guided=True),
    "sink": MechanismInfo(
        "softmax with a learnt sink, which takes weight away from the keys",
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
        gives_shares=False,  # a mixture may have weights of any sign
        takes_segments=False,  # it mixes all positions of a row
    ),
    "lsh": MechanismInfo(
        "attention within buckets of similar vectors",
        refused=(
            ("decoder_self", "has no step that adds one token to a cache, so it cannot translate token by token"),
            ("cross", "makes queries and keys by one projection, so it works for self-attention only"),
        ),
        settings=("buckets", "chunk_length", "rounds"),
        takes_segments=False,  # the chunks of a bucket hold the tokens of all pairs
    ),
    "one_hot": MechanismInfo("all weight on the key with the highest score", distances=("rotary", "alibi")),
    "uniform": MechanismInfo("equal weights", compares=False, distances=("rotary", "alibi")),
    "last": MechanismInfo("all weight on the last position", compares=False, distances=("rotary", "alibi")),
}


def mechanisms_at(site: str) -> list[str]:
    """Returns the names of the mechanisms that can be used at a site, one of `ATTENTION_SITES`."""
    return [name for name, mechanism in MECHANISM_INFO.items() if site not in dict(mechanism.refused)]


def fixed_weights() -> list[str]:
    """Returns the names of the mechanisms that do not compare queries with keys, such as `uniform`."""
    return [name for name, mechanism in MECHANISM_INFO.items() if not mechanism.compares]
