"""Attention that is recorded and shown, and word alignments read off it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Site:
    """Attention that is recorded and shown.

    Attributes:
        title: how plots name it.
        axes: which sentence the (query, key) axes run over.
        aligns: whether word alignments can be read off it.
        forced: whether one teacher-forced pass gives it; `gradients` take a backward pass for each target token.
        meaning: for help texts.
        weighed_at: the one of `ATTENTION_SITES` whose weights it shows; empty for what is no attention.
    """

    title: str
    axes: tuple[str, str]
    meaning: str
    aligns: bool = False
    forced: bool = True
    weighed_at: str = ""

    def pick(self, source: Any, target: Any) -> tuple[Any, Any]:
        """Returns what belongs to the sentences of the (query, key) axes, given what belongs to each sentence."""
        query, key = ({"source": source, "target": target}[axis] for axis in self.axes)
        return query, key


SITES = {
    "cross": Site("cross-attention", ("target", "source"), "cross-attention weights", aligns=True, weighed_at="cross"),
    "norms": Site(
        "cross-attention times value norms",
        ("target", "source"),
        "a Transformer's cross-attention, each weight times the length of the value vector it weighs",
        aligns=True,
        weighed_at="cross",
    ),
    "gradients": Site(
        "gradient times input",
        ("target", "source"),
        "gradient times input, which takes as long as everything else together",
        aligns=True,
        forced=False,
    ),
    "encoder": Site(
        "encoder self-attention", ("source", "source"), "the encoder's self-attention", weighed_at="encoder_self"
    ),
    "decoder": Site(
        "decoder self-attention", ("target", "target"), "the decoder's self-attention", weighed_at="decoder_self"
    ),
}


def site_name(name: str) -> str:
    """Returns the name of a site in an archive, or by its name in `model.attention`: `encoder` for `encoder_self`."""
    side, _, kind = name.partition("_")
    return side if kind == "self" else name


LABEL_SIDES = {"output": "output tokens (being predicted)", "input": "input tokens (just read)"}
"""Which target tokens name the rows: row t is computed from input token t to predict output token t."""


@dataclass(frozen=True)
class HeadType:
    """A place at which most of a head's weight may lie.

    Attributes:
        label: how pages name such a head.
        short: the same in few letters, below a small picture.
        meaning: the place, for help texts.
        sites: the attention in which it exists.
    """

    label: str
    short: str
    meaning: str
    sites: tuple[str, ...] = ("cross", "encoder", "decoder")


HEAD_TYPES = {
    "previous": HeadType("previous token", "before", "the key one position before the row's"),
    "same": HeadType("same position", "same", "the key at the row's position"),
    "next": HeadType("next token", "next", "the key one position after the row's", ("cross", "encoder")),
    "aligner": HeadType(
        "aligner", "aligner", "the source tokens that are linked to the word that the row predicts", ("cross",)
    ),
    "input_aligner": HeadType(
        "aligner of the last word", "last word", "the source tokens that are linked to the word just read", ("cross",)
    ),
    "eos": HeadType("EOS sink", "EOS", "the source's end-of-sentence token", ("cross", "encoder")),
    "bos": HeadType("BOS sink", "BOS", "the target's beginning-of-sentence token", ("decoder",)),
}
"""What heads are named after, where a permutation control allows it."""
SYMMETRISATIONS = ("grow-diag-final-and", "grow-diag", "intersection", "union")
EXTRACTIONS = {
    "target": "each target word with the source word that it attends to most",
    "source": "each source word with the target word that attends to it most",
    "mutual": "links that both target and source give",
    "grow-diag": "the mutual links, and neighbouring links from target or source",
    "grow-diag-over-0.02": "the same, without links of a weight of 0.02 or less",
    "over-0.1": "each target word with every source word that gets more than this share of its weight",
    "over-0.2": "the same for 0.2",
    "over-0.3": "the same for 0.3",
    "over-0.4": "the same for 0.4",
}
MEAN_WEIGHTS = "mean-weights"  # the way of combining two directions by the mean of their attention
PROBABLE = "probable"
"""The way of linking by calibrated probability, above a threshold that is chosen on pairs with gold links."""
RECORD_MODES = ("greedy", "beam", "sampling", "forced")
"""Where the target of a record comes from: a search, or a given text."""
SOURCE_SCORERS = {
    "gold": "the source tokens of the words that gold links name",
    "weights": "cross-attention weights of a head, or their mean over the heads of a layer or of all layers",
    "norms": "the site norms, its mean over all heads",
    "gradients": "the site gradients",
    "logits": "the parts of a Transformer's logit that cross-attention reads from each source token",
    "diagonal": "the source tokens nearest to the same place of the sentence",
    "random": "an order that is drawn for each target token",
}
"""What orders the source tokens by how much they are said to matter to a target token."""
OUTPUT_ABLATIONS = {
    "mean": "its mean over all target tokens",
    "resampled": "its output at a target token of another sentence",
}
"""What stands for a head's output, to see what the output is worth."""
EXPERIMENT_HELP = {
    "perturb": "change each head in turn on the first N sentences, and write how the loss rises to perturbation.csv; "
    "takes six passes a head",
    "faithfulness": "remove from the first N sentences the tokens that attention points to, or all others, and write "
    "the cost to faithfulness.csv; 200 take minutes",
}
"""The experiments on a run's attention, by their options; the functions are in `qkv.evaluation.experiments`."""
