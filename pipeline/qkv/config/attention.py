"""The settings of a Transformer's attention at each site: sections below `model.attention`."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from .choices.model import MECHANISM_INFO, RELATIVE_POSITIONS, SCORE_INFO, fixed_weights, mechanisms_at
from .schema import MOST_UNITS, OneOf, Settings


class AttentionSettings(Settings):
    """The attention at one site."""

    site: ClassVar[str]
    """The site that these settings are for, one of `config.choices.model.ATTENTION_SITES`."""

    mechanism: Annotated[str, OneOf(MECHANISM_INFO, extensible=True)] = "softmax"
    """Turn scores into weights by this mechanism."""
    score: Annotated[str, OneOf(SCORE_INFO, extensible=True)] = "scaled_dot"
    """Compare a query q and a key k by this function."""
    key_dim: int | None = Field(default=None, ge=1, le=MOST_UNITS)
    """Give each head queries and keys of this size. null: d_model / num_heads."""
    value_dim: int | None = Field(default=None, ge=1, le=MOST_UNITS)
    """Give each head values of this size. null: d_model / num_heads."""
    key_value_heads: int | None = Field(default=None, ge=1, le=1024)
    """Share this many heads of keys and values, a divisor of num_heads, among all query heads. null: num_heads."""
    projection: bool = True
    """Project queries and keys by learnt matrices. false: compare the states themselves."""
    value_projection: bool = True
    """Project values and the context by learnt matrices."""
    block_size: int = Field(default=128, ge=1, le=100_000)
    """With blockwise: take this many positions in a block."""

    @field_validator("mechanism")
    @classmethod
    def _check_site(cls, mechanism: str) -> str:
        reason = dict(MECHANISM_INFO[mechanism].refused).get(cls.site)
        if reason is not None:
            raise ValueError(f"{mechanism} {reason}; expected {', '.join(mechanisms_at(cls.site))}")
        return mechanism

    @model_validator(mode="after")
    def _check_mechanism(self) -> Self:
        keys = ("key_dim", "projection", "score")
        useless = [key for key in keys if getattr(self, key) != type(self).model_fields[key].default]
        if self.mechanism in fixed_weights() and useless:
            names = " and ".join(useless)
            raise ValueError(f"mechanism {self.mechanism} compares nothing: leave out {names}, or use softmax")
        if self.mechanism == "lsh" and not SCORE_INFO[self.score].by_angle:
            by_angle = [name for name, score in SCORE_INFO.items() if score.by_angle]
            raise ValueError(
                f"mechanism lsh finds keys by their angle, which {self.score} does not depend on: expected one of "
                f"{', '.join(by_angle)}, or mechanism softmax or blockwise"
            )
        alone = [key for key in ("projection", "value_projection") if not getattr(self, key)]
        without = f"{alone[0]} false" if alone else f"mechanism {self.mechanism}"
        if self.key_value_heads is not None and (self.mechanism in (*fixed_weights(), "lsh") or alone):
            raise ValueError(f"key_value_heads needs projected keys and values; {without} has none: leave it out")
        if self.mechanism == "lsh" and not self.projection:
            raise ValueError("mechanism lsh hashes projected queries: leave projection out, or use softmax")
        return self

    def check_within(self, positions: str, d_model: int, num_heads: int) -> None:
        """Checks that these settings fit the sizes and the positions of the model.

        Args:
            positions: the setting `model.positions`, one of `config.choices.model.POSITIONS`.
            d_model: the width of the model.
            num_heads: the number of heads.

        Raises:
            ValueError: `key_value_heads` does not divide `num_heads`. Or `num_heads` times the size of unprojected
                keys or values is not `d_model`. Or the mechanism, the score or an odd `key_dim` does not work with the
                positions.
        """
        if self.key_value_heads is not None and num_heads % self.key_value_heads:
            raise ValueError(
                f"key_value_heads: expected a divisor of num_heads ({num_heads}), found {self.key_value_heads}"
            )
        for key, size, projected in (
            ("key_dim", self.key_dim, self.projection),
            ("value_dim", self.value_dim, self.value_projection),
        ):
            if not projected and size is not None and size * num_heads != d_model:
                raise ValueError(
                    f"{key} ({size}) times num_heads ({num_heads}) must be d_model ({d_model}), because nothing "
                    "projects it: leave it out"
                )
        if positions not in RELATIVE_POSITIONS or self.site == "cross":
            return
        if positions not in MECHANISM_INFO[self.mechanism].distances:
            names = [name for name in mechanisms_at(self.site) if positions in MECHANISM_INFO[name].distances]
            raise ValueError(
                f"mechanism {self.mechanism} does not work with positions {positions}: expected one of "
                f"{', '.join(names)}"
            )
        if positions != "rotary" or not MECHANISM_INFO[self.mechanism].compares:
            return
        if not SCORE_INFO[self.score].by_angle:
            expected = [name for name, score in SCORE_INFO.items() if score.by_angle]
            raise ValueError(
                f"positions rotary turn queries and keys, and score {self.score} does not depend on their angle: "
                f"expected one of {', '.join(expected)}"
            )
        size = self.key_dim or d_model // num_heads
        if size % 2:
            raise ValueError(f"positions rotary turn pairs of coordinates: expected an even key_dim, found {size}")


class FullAttentionSettings(AttentionSettings):
    """The attention at one site without a causal mask, so that a query can attend to all positions."""

    projected_length: int = Field(default=64, ge=1, le=100_000)
    """With linformer: mix keys and values down to this number."""


class EncoderSelfAttentionSettings(FullAttentionSettings):
    """The encoder's self-attention."""

    site: ClassVar[str] = "encoder_self"

    buckets: int = Field(default=4, ge=1, le=100_000)
    """With lsh: hash into this many buckets, 1 or an even number."""
    chunk_length: int = Field(default=16, ge=1, le=100_000)
    """With lsh: cut buckets into chunks of this many positions."""
    rounds: int = Field(default=4, ge=1, le=1000)
    """With lsh: use this many hash functions."""

    @field_validator("buckets")
    @classmethod
    def _check_buckets(cls, value: int) -> int:
        if value > 1 and value % 2:
            raise ValueError(f"expected 1 or an even number, found {value}")
        return value


class DecoderSelfAttentionSettings(AttentionSettings):
    """The decoder's self-attention."""

    site: ClassVar[str] = "decoder_self"


class CrossAttentionSettings(FullAttentionSettings):
    """Attention from target to source."""

    site: ClassVar[str] = "cross"


class TransformerAttention(Settings):
    """The attention at a Transformer's three sites."""

    encoder_self: EncoderSelfAttentionSettings = EncoderSelfAttentionSettings()
    """The encoder's self-attention."""
    decoder_self: DecoderSelfAttentionSettings = DecoderSelfAttentionSettings()
    """The decoder's self-attention."""
    cross: CrossAttentionSettings = CrossAttentionSettings()
    """The attention from target to source."""


class DecoderOnlyAttention(Settings):
    """The attention of a decoder-only model."""

    decoder_self: DecoderSelfAttentionSettings = DecoderSelfAttentionSettings()
    """The decoder's self-attention."""
