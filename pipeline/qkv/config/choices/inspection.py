"""Names for inspection: sites of attention, types of heads, methods for word links, experiments."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Site:
    """A kind of attention that can be recorded and shown, such as cross-attention.

    Attributes:
        title: its name in plots.
        axes: the sentences of the query axis and of the key axis, each `source` or `target`.
        meaning: a description for help texts.
        aligns: True if word alignments can be computed from it.
        forced: True if one teacher-forced pass computes it. `gradients` needs a backward pass for each target token.
        weighed_at: the name in `config.choices.model.ATTENTION_SITES` of the layers whose weights it shows; empty for
            `gradients`, which shows no attention weights.
    """

    title: str
    axes: tuple[str, str]
    meaning: str
    aligns: bool = False
    forced: bool = True
    weighed_at: str = ""

    def pick(self, source: Any, target: Any) -> tuple[Any, Any]:
        """Returns the value for the query axis and the value for the key axis.

        Args:
            source: a value for the source sentence, such as its tokens.
            target: the same for the target sentence.
        """
        values = {"source": source, "target": target}
        query_axis, key_axis = self.axes
        return values[query_axis], values[key_axis]


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
    """Converts the name of a site in `model.attention` to its name in `SITES`.

    `encoder_self` becomes `encoder`, and `decoder_self` becomes `decoder`. Any other name is returned unchanged.
    """
    side, _, kind = name.partition("_")
    return side if kind == "self" else name


LABEL_SIDES = {"output": "output tokens (being predicted)", "input": "input tokens (just read)"}
"""The target tokens that can label the rows of attention. Input token t is read in row t to predict output token t."""

PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
"""The ends of the names of files with a picture of attention."""


HEAD_TYPES = {
    "previous": ("cross", "encoder", "decoder"),  # the key one position before the row's
    "same": ("cross", "encoder", "decoder"),  # the key at the row's position
    "next": ("cross", "encoder"),  # the key one position after the row's
    "aligner": ("cross",),  # the source tokens that are linked to the word that the row predicts
    "input_aligner": ("cross",),  # the source tokens that are linked to the word just read
    "eos": ("cross", "encoder"),  # the source's end-of-sentence token
    "bos": ("decoder",),  # the target's beginning-of-sentence token
}
"""The types of heads, with the names, in `SITES`, of the sites where heads can be of this type.

A head gets a type only if it passes the permutation test, see `inspection.head_types`. The words for a type, such as
"previous token", are in `inspection/viewer/words.csv`.
"""
SYMMETRISATIONS = ("grow-diag-final-and", "grow-diag", "intersection", "union")
"""The heuristics that combine the word links of the two directions."""
EXTRACTIONS = {
    "target": "each target word with the source word that it attends to most",
    "source": "each source word with the target word that attends to it most",
    "mutual": "links that both target and source give",
    "grow-diag": "the mutual links, and neighbouring links from target or source",
    "grow-diag-over-0.02": "as grow-diag, without links of a weight of 0.02 or less",
    "over-0.1": "each target word with every source word that gets more than 0.1 of its weight",
    "over-0.2": "as over-0.1, for 0.2",
    "over-0.3": "as over-0.1, for 0.3",
    "over-0.4": "as over-0.1, for 0.4",
}
"""The methods that compute word links from attention weights."""
MEAN_WEIGHTS = "mean-weights"
"""The symmetrisation that averages the attention weights of all runs and directions before links are computed."""
PROBABLE = "probable"
"""The symmetrisation that links words above a threshold of probability, which is chosen on pairs with gold links."""
RECORD_MODES = ("greedy", "beam", "sampling", "forced")
"""The origins of the target of a record: the three searches, or a given text (`forced`)."""
SOURCE_SCORERS = {
    "gold": "the source tokens of the words that gold links name",
    "weights": "cross-attention weights of a head, or their mean over the heads of a layer or of all layers",
    "norms": "the site norms, its mean over all heads",
    "gradients": "the site gradients",
    "logits": "the parts of a Transformer's logit that cross-attention reads from each source token",
    "diagonal": "the source tokens nearest to the same relative position in the sentence",
    "random": "a random order for each target token",
}
"""Methods that rank the source tokens by their importance to a target token."""
OUTPUT_ABLATIONS = {
    "mean": "its mean over all target tokens",
    "resampled": "its output at a target token of another sentence",
}
"""The replacements for the output of a head in ablations."""
EXPERIMENTS = ("perturb", "faithfulness")
"""The experiments on the attention of a run, by their options. Their functions are in `evaluation.experiments`."""
