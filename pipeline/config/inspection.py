"""The settings of inspection."""

from typing import Literal

from pydantic import Field

from .base import Settings
from .data import CorpusSettings


class Probe(Settings):
    """A sentence to watch while the model learns."""

    source: str = Field(min_length=1, description="The sentence to translate, spelt as in the data.")
    reference: str | None = Field(default=None, description="A right translation, for comparison.")


class InspectionSettings(Settings):
    """What is shown of the attention."""

    probes: tuple[Probe, ...] = Field(
        default=(), description="Sentences shown in TensorBoard and as heat maps: a list of {source, reference}."
    )
    attention: tuple[Literal["cross", "norms", "gradients", "encoder", "decoder"], ...] = Field(
        default=("cross",),
        description="Which attention evaluate.py writes: a list of cross, encoder, decoder; norms, a Transformer's "
        "cross-attention with each weight times the length of the vector that it brings in; and gradients, gradient "
        "times input, which takes as long as all the rest.",
    )
    heatmap_sentences: int | None = Field(
        default=None,
        ge=0,
        description="First sentences of a set drawn as heat maps, besides probes; null: one where there are no probes.",
    )
    viewer_sentences: int = Field(
        default=1000, ge=0, description="First sentences of a set in viewer.html, the page that shows them all."
    )
    choose_head_on: CorpusSettings | None = Field(
        default=None,
        description="Pairs with gold alignments on which evaluate.py chooses the layer, head and label side that it "
        "reports; null: data.validation, where that has alignments.",
    )
    profile_updates: int = Field(
        default=0,
        ge=0,
        description="Updates that TensorFlow's profiler watches, once the first ten are over; 0: none. TensorBoard "
        "shows them with tensorboard-plugin-profile installed.",
    )
    sentences_per_shard: int = Field(default=256, ge=1, description="Sentences per file of the attention archive.")

    @property
    def drawn_sentences(self) -> int:
        """How many first sentences of a set are drawn as heat maps."""
        return int(not self.probes) if self.heatmap_sentences is None else self.heatmap_sentences
