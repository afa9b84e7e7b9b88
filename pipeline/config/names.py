"""Every closed list of names, once, with what each member can do.

Configs, help texts, checks, layers, the viewer and TensorBoard read these tables. This module imports nothing heavy, so
that `--help` stays fast. The tables from name to class or function (`SCORES` in `attention/scores`, `MECHANISMS` in
`attention/mechanisms`, ...) live beside the classes; tests/config/test_names.py holds them against these.

`pipeline.plugins` adds rows at run time, so look names up when they are needed and keep no copy of a table.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """How queries and keys are compared.

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


SCORES = {
    "scaled_dot": Score("q.k / sqrt(size)", projected=True, by_angle=True, is_product=True),
    "dot": Score("q.k", projected=True, by_angle=True, is_product=True),
    "general": Score("q.Wk"),
    "cosine": Score("cos(q, k) times a learnt scale", projected=True, by_angle=True),
    "additive": Score("v.tanh(q + k)", projected=True),
    "concat": Score("v.tanh(W[q; k])"),
}

ATTENTION_SITES = ("encoder_self", "decoder_self", "cross")
"""Where a Transformer attends; a decoder-only model has `decoder_self` alone."""


@dataclass(frozen=True)
class Mechanism:
    """What is done with the scores.

    Attributes:
        meaning: for help texts.
        refused: for each of `ATTENTION_SITES` where it cannot be used, the reason.
        compares: whether queries are compared with keys at all, so that it needs a score.
        holds_weights: whether it computes all weights on its way, so that dropout can act on them.
        settings: the config keys that only this mechanism reads.
    """

    meaning: str
    refused: tuple[tuple[str, str], ...] = ()
    compares: bool = True
    holds_weights: bool = True
    settings: tuple[str, ...] = ()


MECHANISMS = {
    "softmax": Mechanism("the definition"),
    "blockwise": Mechanism(
        "the same result without holding all weights in memory", holds_weights=False, settings=("block_size",)
    ),
    "linformer": Mechanism(
        "keys and values projected to a fixed number",
        refused=(
            ("decoder_self", "mixes all positions before it weighs them, so it cannot hide the future from a decoder"),
        ),
        settings=("projected_length",),
    ),
    "lsh": Mechanism(
        "attention within buckets of similar vectors",
        refused=(
            ("decoder_self", "has no step that adds one token to a cache, so it cannot translate token by token"),
            ("cross", "makes queries and keys by one projection, so it works for self-attention only"),
        ),
        settings=("buckets", "chunk_length", "rounds"),
    ),
    "one_hot": Mechanism("all weight on the highest score"),
    "uniform": Mechanism("equal weights", compares=False),
    "last": Mechanism("all weight on the last position", compares=False),
}


def mechanisms_at(site: str) -> list[str]:
    """The mechanisms that can be used at one of `ATTENTION_SITES`."""
    return [name for name, mechanism in MECHANISMS.items() if site not in dict(mechanism.refused)]


def fixed_weights() -> list[str]:
    """The mechanisms that compare nothing."""
    return [name for name, mechanism in MECHANISMS.items() if not mechanism.compares]


def recurrent_attentions() -> list[str]:
    """What a recurrent model's `cross_attention` can be: a score, fixed weights, or none."""
    return [*SCORES, *fixed_weights(), "none"]


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
POSITIONS = ("sinusoidal", "learned")
POSITION_PLACES = {
    "input": "once to the embeddings",
    "queries_and_keys": "to the queries and keys of every attention layer, never to values",
}
TIED_EMBEDDINGS = {
    "all": "source, target and output share one table",
    "target": "target and output share one",
    "none": "each has its own",
}
ACTIVATIONS = ("relu", "gelu", "silu")


@dataclass(frozen=True)
class Site:
    """Attention that is recorded and shown.

    Attributes:
        title: how plots name it.
        axes: which sentence the (query, key) axes run over.
        aligns: whether word alignments can be read off it.
        forced: whether one teacher-forced pass gives it; `gradients` take a backward pass for each target token.
        meaning: for help texts.
    """

    title: str
    axes: tuple[str, str]
    meaning: str
    aligns: bool = False
    forced: bool = True


SITES = {
    "cross": Site("cross-attention", ("target", "source"), "cross-attention weights", aligns=True),
    "norms": Site(
        "cross-attention times value norms",
        ("target", "source"),
        "a Transformer's cross-attention, each weight times the length of the vector that it brings in",
        aligns=True,
    ),
    "gradients": Site(
        "gradient times input",
        ("target", "source"),
        "gradient times input, which takes as long as everything else together",
        aligns=True,
        forced=False,
    ),
    "encoder": Site("encoder self-attention", ("source", "source"), "the encoder's self-attention"),
    "decoder": Site("decoder self-attention", ("target", "target"), "the decoder's self-attention"),
}

LABEL_SIDES = {
    "output": "row t stands for the token that it predicts",
    "input": "row t stands for the token that it has just read",
}
SYMMETRISATIONS = ("grow-diag-final-and", "grow-diag", "intersection", "union")
EXTRACTIONS = {
    "target": "each target word with the source word that it attends to most",
    "source": "each source word with the target word that attends to it most",
    "mutual": "where both agree",
    "grow-diag": "these, grown by neighbours that either has",
    "grow-diag-over-0.02": "the same without links of hardly any weight",
    "over-0.1": "wherever a target word puts more than this share of its weight",
    "over-0.2": "likewise",
    "over-0.3": "likewise",
    "over-0.4": "likewise",
}

SEARCHES = {
    "beam": "the best of several hypotheses (greedy search with beam_size 1)",
    "sampling": "tokens drawn at random",
}
RECORD_MODES = ("greedy", "beam", "sampling", "forced")
"""Where the target of a record comes from: a search, or a given text."""


@dataclass(frozen=True)
class Schedule:
    """How the learning rate goes on after warm-up.

    Attributes:
        meaning: for help texts.
        ends_at_zero: whether it falls to zero at `max_updates`, which it then needs.
    """

    meaning: str
    ends_at_zero: bool = False


SCHEDULES = {
    "inverse_sqrt": Schedule("falls with the square root of the update"),
    "linear": Schedule("falls evenly to zero at max_updates", ends_at_zero=True),
    "cosine": Schedule("falls along half a wave to zero at max_updates", ends_at_zero=True),
    "constant": Schedule("stays at the peak"),
}

OPTIMIZERS = {
    "adam": "Kingma and Ba 2015",
    "muon": "orthogonal updates for matrices (Jordan et al. 2024), Adam for embeddings and vectors",
}


@dataclass(frozen=True)
class Metric:
    """A measure of translations on the validation set.

    Attributes:
        title: how progress lines and tables name it.
        digits: decimals that are printed.
        lower_is_better: its direction.
        chooses: whether checkpoints can be chosen by it.
    """

    title: str
    digits: int = 2
    lower_is_better: bool = False
    chooses: bool = True


METRICS = {
    "loss": Metric("loss", digits=3, lower_is_better=True),
    "perplexity": Metric("perplexity", lower_is_better=True, chooses=False),
    "token_accuracy": Metric("accuracy", digits=3),
    "bleu": Metric("BLEU"),
}


def choosing_metrics() -> list[str]:
    """The metrics by which the best checkpoint can be chosen."""
    return [name for name, metric in METRICS.items() if metric.chooses]


def is_better(metric: str, value: float, than: float) -> bool:
    """Whether a value of a validation metric is better than another."""
    return value < than if METRICS[metric].lower_is_better else value > than


TOKENIZERS = {"bpe": "merges of frequent pairs", "unigram": "a unigram language model"}
CORPUS_PROBLEMS = {
    "empty_side": "one side is empty",
    "over_long": "a side has more than its maximum of tokens",
    "length_ratio": "one side is much longer than the other",
    "duplicate": "the pair has been seen before",
}
CORPUS_ACTIONS = ("drop", "keep", "error")
DATA_SETS = ("train", "validation", "test")


def describe(table: dict) -> str:
    """`name: meaning; name: meaning`, for help texts."""
    return "; ".join(f"{name}: {getattr(row, 'meaning', row)}" for name, row in table.items())
