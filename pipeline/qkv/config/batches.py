"""The settings of batches: section `batches`."""

from typing import Annotated, Literal

from pydantic import Field

from .model import ArchitectureSettings
from .schema import Settings


class BatchSettings(Settings):
    """The grouping of sentences into batches."""

    batch_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | Literal["auto"] = 4096
    """Fill a batch up to this many positions of its longer side, padding included. auto: as many as fit into the GPU's
    memory, measured when the run begins; 4096 on a processor."""
    accumulated: int = Field(default=1, ge=1, le=100_000)
    """Accumulate the gradients of this many batches into one update, as if they were one batch. 1: none."""
    length_multiple: int = Field(default=4, ge=1, le=1024)
    """Pad sentences to a multiple of this number of tokens, unless batches are packed."""
    packed: bool | Literal["auto"] = "auto"
    """Put several sentence pairs into each row, all rows of one length, so that all batches have the same shape and
    little padding. auto: if XLA compiles the update."""

    def is_packed(self, xla: bool) -> bool:
        """Returns True if batches are packed. `xla` is True if XLA compiles the update."""
        return xla if self.packed == "auto" else self.packed

    def check_with(self, model: ArchitectureSettings, xla: bool) -> None:
        """Checks that the model can be trained on packed batches if these settings or XLA demand them.

        Args:
            model: the settings of the model.
            xla: True if the settings demand that XLA compiles the update.

        Raises:
            ValueError: the model cannot; or XLA is demanded, but `packed` is False.
        """
        if xla and self.packed is False:
            raise ValueError(
                "training.xla: XLA compiles updates for packed batches only; expected batches.packed auto, or "
                "training.xla false"
            )
        if self.is_packed(xla) and model.packing_obstacle is not None:
            key, needs = ("batches.packed", "") if self.packed is True else ("training.xla", ", which XLA needs")
            raise ValueError(
                f"{key}: {model.packing_obstacle} cannot be trained on rows of several sentence pairs{needs}; expected "
                "false, or another model"
            )
