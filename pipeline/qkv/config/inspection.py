"""The settings of inspection."""

from typing import Annotated

from pydantic import Field, field_validator

from .corpus import LinkedTextSettings
from .model import ArchitectureSettings, RecurrentSettings, TransformerSettings
from .names import describe
from .names.inspection import SITES
from .schema import MOST_COUNTED, OneOf, Settings, composed


class Probe(Settings):
    """A sentence whose translation and attention are shown during training."""

    source: str = Field(min_length=1, description="The sentence to translate, tokenised as in the data.")
    reference: str | None = Field(default=None, description="A correct translation, for comparison; null: none.")

    _composed = field_validator("source", "reference")(composed)


class InspectionSettings(Settings):
    """The attention that is written and shown."""

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
    choose_head_on: LinkedTextSettings | None = Field(
        default=None,
        description="Pairs with gold alignments on which evaluate.py chooses the layer, head and label side to report. "
        "null: data.validation, if it has alignments.",
    )

    def check_with(self, model: ArchitectureSettings) -> None:
        """Checks that the architecture has the attention that is to be written.

        Raises:
            ValueError: it has not.
        """
        sites = self.attention
        if "cross" not in sites:
            raise ValueError(
                f"inspection.attention ({', '.join(sites)}): expected cross among them, of which tables and pages are "
                "made"
            )
        if isinstance(model, RecurrentSettings) and not set(sites) <= {"cross", "gradients"}:
            raise ValueError(
                f"inspection.attention ({', '.join(sites)}): a recurrent model has no self-attention and no projected "
                "values; expected [cross] or [cross, gradients]"
            )
        if "norms" in sites and not isinstance(model, TransformerSettings):
            raise ValueError("inspection.attention: norms are those of a Transformer's cross-attention; leave them out")
