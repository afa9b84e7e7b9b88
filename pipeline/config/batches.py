"""The settings of batches."""

from pydantic import Field

from .base import Settings


class BatchSettings(Settings):
    """How sentences are put together for an update."""

    batch_tokens: int = Field(default=4096, ge=1, description="Target tokens of an update, padding included, at most.")
    accumulated: int = Field(
        default=1,
        ge=1,
        description="Batches whose gradients make one update, as if they were one batch: for updates that memory has "
        "no room for.",
    )
    start_tokens: int | None = Field(
        default=None, ge=1, description="Batch growth: batch_tokens of the first epochs; null: no growth."
    )
    doubling_epochs: int = Field(
        default=4, ge=1, description="With start_tokens: epochs after which it doubles, up to batch_tokens."
    )
    length_multiple: int = Field(default=4, ge=1, description="Padded lengths are multiples of this many tokens.")
