"""The settings of batches."""

from typing import Annotated, Literal

from pydantic import Field

from .schema import Settings


class BatchSettings(Settings):
    """The grouping of sentences into batches."""

    batch_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | Literal["auto"] = Field(
        default=4096,
        description="Maximum number of target tokens in a batch, including padding. auto: as many as fit into the "
        "memory of the GPU, found by trying when the run begins and kept in it; 4096 on a processor.",
    )
    accumulated: int = Field(
        default=1,
        ge=1,
        le=100_000,
        description="Number of batches whose gradients are accumulated into one update, as if they were one batch, for "
        "updates that do not fit into memory. 1: no accumulation.",
    )
    length_multiple: int = Field(
        default=4, ge=1, le=1024, description="Pad sentences to a multiple of this number of tokens."
    )
