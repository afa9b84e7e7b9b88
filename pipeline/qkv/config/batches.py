"""The settings of batches: section `batches`."""

from typing import Annotated, Literal

from pydantic import Field

from .schema import Settings


class BatchSettings(Settings):
    """The grouping of sentences into batches."""

    batch_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | Literal["auto"] = 4096
    """Fill a batch up to this many positions of its longer side, padding included. auto: as many as fit into the GPU's
    memory, measured when the run begins; 4096 on a processor."""
    accumulated: int = Field(default=1, ge=1, le=100_000)
    """Accumulate the gradients of this many batches into one update, as if they were one batch. 1: none."""
    length_multiple: int = Field(default=4, ge=1, le=1024)
    """Pad sentences to a multiple of this number of tokens."""
