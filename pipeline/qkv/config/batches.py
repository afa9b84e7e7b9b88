"""The settings of batches."""

from typing import Annotated, Literal

from pydantic import Field

from .schema import MOST_COUNTED, Settings


class BatchSettings(Settings):
    """How sentences are grouped into batches."""

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
    start_tokens: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="Batch size of the first epochs, in tokens, if batches are to grow; null: no growth.",
    )
    doubling_epochs: int = Field(
        default=4,
        ge=1,
        le=MOST_COUNTED,
        description="With start_tokens: number of epochs between doublings of the batch size, up to batch_tokens.",
    )
    length_multiple: int = Field(
        default=4, ge=1, le=1024, description="Pad sentences to a multiple of this number of tokens."
    )
