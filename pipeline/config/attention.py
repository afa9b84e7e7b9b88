"""The settings of attention, site by site."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from .base import Settings

Score = Literal["scaled_dot", "dot", "general", "cosine", "additive", "concat"]


MechanismName = Literal["softmax", "blockwise", "linformer", "lsh", "one_hot", "uniform", "last"]


class AttentionSettings(Settings):
    """How one kind of attention works."""

    mechanism: MechanismName = Field(
        default="softmax",
        description="What is done with the scores. softmax: the definition; blockwise: the same without ever holding "
        "all weights; linformer: keys and values projected to a fixed number; lsh: only within buckets of similar "
        "vectors; one_hot: all weight on the highest score; uniform: equal weights; last: all weight on the last "
        "position.",
    )
    score: Score = Field(
        default="scaled_dot",
        description="How a query q and a key k are scored. dot: q.k; scaled_dot: q.k over the root of their size; "
        "general: q.Wk; cosine: of the angle between them; additive: v.tanh(q + k); concat: v.tanh(W[q; k]).",
    )
    key_dim: int | None = Field(
        default=None, ge=1, description="Size of one head's queries and keys; null: d_model / num_heads."
    )
    value_dim: int | None = Field(
        default=None, ge=1, description="Size of one head's values; null: d_model / num_heads."
    )
    projection: bool = Field(
        default=True, description="Whether queries and keys pass through learnt matrices, or are the states themselves."
    )
    value_projection: bool = Field(
        default=True, description="Whether values and what comes out pass through learnt matrices."
    )
    block_size: int = Field(default=128, ge=1, description="blockwise: positions of a block.")
    projected_length: int = Field(default=64, ge=1, description="linformer: number of projected keys and values.")
    buckets: int = Field(default=4, ge=1, description="lsh: number of buckets; 1 or even.")
    chunk_length: int = Field(default=16, ge=1, description="lsh: positions of a chunk of a bucket.")
    rounds: int = Field(default=4, ge=1, description="lsh: times that positions are hashed.")

    @model_validator(mode="after")
    def _keys_suit_the_mechanism(self) -> Self:
        keys = ("key_dim", "projection", "score")
        useless = [key for key in keys if getattr(self, key) != type(self).model_fields[key].default]
        if self.mechanism in ("uniform", "last") and useless:
            raise ValueError(
                f"mechanism {self.mechanism} compares nothing: leave out {' and '.join(useless)}, or take softmax"
            )
        if self.mechanism == "lsh" and self.score not in ("scaled_dot", "dot", "cosine"):
            raise ValueError(
                f"mechanism lsh finds keys by their angle, which {self.score} does not go by: expected scaled_dot, dot "
                "or cosine, or mechanism softmax or blockwise"
            )
        if self.buckets > 1 and self.buckets % 2:
            raise ValueError(f"buckets: expected 1 or an even number, found {self.buckets}")
        if self.mechanism == "lsh" and not self.projection:
            raise ValueError("mechanism lsh hashes projected queries: leave projection out, or take softmax")
        return self

    def check_sizes(self, d_model: int, num_heads: int) -> None:
        """What is not projected is cut into heads as it is."""
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
    """How attention to what is translated so far works."""

    @field_validator("mechanism")
    @classmethod
    def _one_token_at_a_time(cls, value: str) -> str:
        if value == "linformer":
            raise ValueError(
                "linformer mixes all positions before it weighs them, so it cannot hide the future from a decoder; "
                "expected softmax, blockwise, one_hot, uniform or last"
            )
        if value == "lsh":
            raise ValueError(
                "lsh has no step that adds one token to a cache, so it cannot translate token by token; "
                "expected softmax, blockwise, one_hot, uniform or last"
            )
        return value


class CrossAttentionSettings(AttentionSettings):
    """How attention from target to source works."""

    @field_validator("mechanism")
    @classmethod
    def _queries_are_not_keys(cls, value: str) -> str:
        if value == "lsh":
            raise ValueError(
                "lsh makes queries and keys by one projection, so it is for self-attention only; "
                "expected softmax, blockwise, linformer, one_hot, uniform or last"
            )
        return value


class TransformerAttention(Settings):
    """The three kinds of attention."""

    encoder_self: AttentionSettings = Field(default=AttentionSettings(), description="The encoder's self-attention.")
    decoder_self: DecoderSelfAttentionSettings = Field(
        default=DecoderSelfAttentionSettings(), description="The decoder's self-attention."
    )
    cross: CrossAttentionSettings = Field(
        default=CrossAttentionSettings(), description="The attention from target to source."
    )


class DecoderOnlyAttention(Settings):
    """The one kind of attention."""

    decoder_self: DecoderSelfAttentionSettings = Field(
        default=DecoderSelfAttentionSettings(), description="The decoder's self-attention."
    )
