"""The settings of inspection: section `inspection`."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from .choices.inspection import SITES, site_name
from .corpus import LinkedTextSettings
from .model import ArchitectureSettings, RecurrentSettings, TransformerSettings
from .schema import MOST_COUNTED, OneOf, Settings, Text


class Probe(Settings):
    """A sentence whose translation and attention are shown during training."""

    source: Text = Field(min_length=1)
    """Translate this sentence, tokenised as in the data."""
    reference: Text | None = None
    """Compare the translation with this correct one. null: none."""


class InspectionSettings(Settings):
    """The kinds of attention that are written and shown, and the sentences that are shown during training."""

    probes: tuple[Probe, ...] | None = None
    """Show the translations and the attention of these sentences while training: a list of {source, reference}.
    null: three validation pairs of middle length; []: none."""
    probe_updates: tuple[Annotated[int, Field(ge=0, le=MOST_COUNTED)], ...] = ()
    """Archive the attention over the probes after these updates too, not only at validations. 0: before the first."""
    attention: tuple[Annotated[str, BeforeValidator(site_name), OneOf(SITES)], ...] = ("cross",)
    """Write this attention in evaluations."""
    choose_head_on: LinkedTextSettings | None = None
    """The pairs with gold alignments on which the layer, head and label side to report are chosen;
    null: data.validation, if it has alignments."""

    def check_with(self, model: ArchitectureSettings) -> None:
        """Raises a `ValueError` if `attention` lacks `cross`, or has a site that the architecture does not have."""
        sites = self.attention
        if "cross" not in sites:
            raise ValueError(
                f"inspection.attention ({', '.join(sites)}): expected cross as well: the tables are computed from "
                "cross-attention"
            )
        if isinstance(model, RecurrentSettings) and not set(sites) <= {"cross", "gradients"}:
            raise ValueError(
                f"inspection.attention ({', '.join(sites)}): a recurrent model has no self-attention and no projected "
                "values; expected [cross] or [cross, gradients]"
            )
        if "norms" in sites and not isinstance(model, TransformerSettings):
            raise ValueError("inspection.attention: only a Transformer has norms; leave them out")
