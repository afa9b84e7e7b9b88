"""The settings of attention, site by site."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from .base import MOST_UNITS, OneOf, Settings
from .names import MECHANISMS, SCORES, describe, fixed_weights, mechanisms_at


class AttentionSettings(Settings):
    """How the attention of one site works."""

    site: ClassVar[str] = "encoder_self"
    """The site, one of `names.ATTENTION_SITES`, to which these settings apply."""

    mechanism: Annotated[str, OneOf(MECHANISMS, extensible=True)] = Field(
        default="softmax", description=f"What is done with the scores. {describe(MECHANISMS)}."
    )
    score: Annotated[str, OneOf(SCORES, extensible=True)] = Field(
        default="scaled_dot", description=f"How a query q and a key k are compared. {describe(SCORES)}."
    )
    key_dim: int | None = Field(
        default=None, ge=1, le=MOST_UNITS, description="Size of one head's queries and keys; null: d_model / num_heads."
    )
    value_dim: int | None = Field(
        default=None, ge=1, le=MOST_UNITS, description="Size of one head's values; null: d_model / num_heads."
    )
    projection: bool = Field(
        default=True,
        description="Whether queries and keys are projected by learnt matrices; false: the states are compared.",
    )
    value_projection: bool = Field(
        default=True, description="Whether values and the context are projected by learnt matrices."
    )
    block_size: int = Field(
        default=128, ge=1, le=100_000, description="With blockwise: number of positions in a block."
    )
    projected_length: int = Field(
        default=64, ge=1, le=100_000, description="With linformer: number of projected keys and values."
    )
    buckets: int = Field(
        default=4, ge=1, le=100_000, description="With lsh: number of hash buckets, 1 or an even number."
    )
    chunk_length: int = Field(
        default=16, ge=1, le=100_000, description="With lsh: number of positions in a chunk of a bucket."
    )
    rounds: int = Field(default=4, ge=1, le=1000, description="With lsh: number of hash functions.")

    @field_validator("mechanism")
    @classmethod
    def _check_site(cls, mechanism: str) -> str:
        reason = dict(MECHANISMS[mechanism].refused).get(cls.site)
        if reason is not None:
            raise ValueError(f"{mechanism} {reason}; expected {', '.join(mechanisms_at(cls.site))}")
        return mechanism

    @model_validator(mode="after")
    def _check_mechanism(self) -> Self:
        keys = ("key_dim", "projection", "score")
        useless = [key for key in keys if getattr(self, key) != type(self).model_fields[key].default]
        if self.mechanism in fixed_weights() and useless:
            raise ValueError(
                f"mechanism {self.mechanism} compares nothing: leave out {' and '.join(useless)}, or use softmax"
            )
        if self.mechanism == "lsh" and not SCORES[self.score].by_angle:
            by_angle = [name for name, score in SCORES.items() if score.by_angle]
            raise ValueError(
                f"mechanism lsh finds keys by their angle, which {self.score} does not depend on: expected one of "
                f"{', '.join(by_angle)}, or mechanism softmax or blockwise"
            )
        if self.buckets > 1 and self.buckets % 2:
            raise ValueError(f"buckets: expected 1 or an even number, found {self.buckets}")
        if self.mechanism == "lsh" and not self.projection:
            raise ValueError("mechanism lsh hashes projected queries: leave projection out, or use softmax")
        return self

    def check_sizes(self, d_model: int, num_heads: int) -> None:
        """Checks the sizes of what is not projected: it is cut into heads as it is.

        Raises:
            ValueError: the heads do not add up to `d_model`.
        """
        for key, size, projected in (
            ("key_dim", self.key_dim, self.projection),
            ("value_dim", self.value_dim, self.value_projection),
        ):
            if not projected and size is not None and size * num_heads != d_model:
                raise ValueError(
                    f"{key} ({size}) times num_heads ({num_heads}) must be d_model ({d_model}), because nothing "
                    "projects it: leave it out"
                )


class DecoderSelfAttentionSettings(AttentionSettings):
    """How the decoder's self-attention works."""

    site: ClassVar[str] = "decoder_self"


class CrossAttentionSettings(AttentionSettings):
    """How attention from target to source works."""

    site: ClassVar[str] = "cross"


class TransformerAttention(Settings):
    """The attention at a Transformer's three sites."""

    encoder_self: AttentionSettings = Field(default=AttentionSettings(), description="The encoder's self-attention.")
    decoder_self: DecoderSelfAttentionSettings = Field(
        default=DecoderSelfAttentionSettings(), description="The decoder's self-attention."
    )
    cross: CrossAttentionSettings = Field(
        default=CrossAttentionSettings(), description="The attention from target to source."
    )


class DecoderOnlyAttention(Settings):
    """The attention of a decoder-only model."""

    decoder_self: DecoderSelfAttentionSettings = Field(
        default=DecoderSelfAttentionSettings(), description="The decoder's self-attention."
    )
