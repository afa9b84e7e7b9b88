"""The settings of batches."""

from pydantic import Field

from .base import Settings


class BatchSettings(Settings):
    """How sentences are batched for an update."""

    batch_tokens: int = Field(
        default=4096, ge=1, description="Largest number of target tokens in a batch, including padding."
    )
    accumulated: int = Field(
        default=1,
        ge=1,
        description="Number of batches whose gradients are accumulated into one update, as if they were one batch; for "
        "updates that do not fit into memory.",
    )
    start_tokens: int | None = Field(
        default=None, ge=1, description="Batch growth: batch_tokens of the first epochs; null: no growth."
    )
    doubling_epochs: int = Field(
        default=4,
        ge=1,
        description="With start_tokens: number of epochs after which the batch size doubles, up to batch_tokens.",
    )
    length_multiple: int = Field(default=4, ge=1, description="Padded lengths are multiples of this number of tokens.")
