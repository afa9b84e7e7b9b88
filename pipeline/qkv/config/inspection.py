"""The settings of inspection."""

from typing import Annotated

from pydantic import Field, field_validator

from .corpus import LinkedTextSettings
from .names import describe
from .names.inspection import SITES
from .schema import MOST_COUNTED, OneOf, Settings, composed


class Probe(Settings):
    """A sentence whose translation and attention are shown during training."""

    source: str = Field(min_length=1, description="The sentence to translate, tokenised as in the data.")
    reference: str | None = Field(default=None, description="A correct translation, for comparison; null: none.")

    _composed = field_validator("source", "reference")(composed)


class InspectionSettings(Settings):
    """Which attention is written and shown."""

    probes: tuple[Probe, ...] | None = Field(
        default=None,
        description="Sentences whose translations are shown while training, and whose attention is shown in "
        "TensorBoard and as heat maps: a list of {source, reference}. null: three validation pairs of middle length, "
        "while training only; []: none.",
    )
    probe_updates: tuple[Annotated[int, Field(ge=0, le=MOST_COUNTED)], ...] = Field(
        default=(),
        description="Numbers of updates after which the attention over the probes is archived, besides validations; "
        "0: before the first.",
    )
    attention: tuple[Annotated[str, OneOf(SITES)], ...] = Field(
        default=("cross",),
        description=f"Which attention evaluate.py writes. {describe(SITES)}.",
    )
    heatmap_sentences: int | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="Draw the first N sentences of a set as heat maps, besides the probes; null: 1 if there are no "
        "probes, otherwise 0.",
    )
    viewer_sentences: int = Field(
        default=1000, ge=0, le=1_000_000, description="Show the first N sentences of a set in viewer.html."
    )
    choose_head_on: LinkedTextSettings | None = Field(
        default=None,
        description="Pairs with gold alignments on which evaluate.py chooses the layer, head and label side to report. "
        "null: data.validation, if it has alignments.",
    )
    profile_updates: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Number of updates to profile after the first ten; 0: none. TensorBoard shows the profile if "
        "tensorboard-plugin-profile is installed.",
    )
    sentences_per_shard: int = Field(
        default=256, ge=1, le=100_000, description="Number of sentences in each file of the attention archive."
    )

    @property
    def drawn_sentences(self) -> int:
        """Number of sentences, from the first of a set on, to draw as heat maps."""
        return int(not self.probes) if self.heatmap_sentences is None else self.heatmap_sentences
