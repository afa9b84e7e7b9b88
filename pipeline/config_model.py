"""The settings of a model: one schema for each architecture, chosen by the key `architecture`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

Probability = Annotated[float, Field(ge=0, lt=1)]
Score = Literal["scaled_dot", "dot", "general", "cosine", "additive", "concat"]
RecurrentAttention = Literal["additive", "concat", "dot", "scaled_dot", "general", "cosine", "uniform", "last", "none"]
Architecture = Literal["transformer", "recurrent", "decoder_only"]
ARCHITECTURES = (
    "transformer: encoder and decoder of Transformer blocks; recurrent: GRUs with attention between them; "
    "decoder_only: one causal Transformer over source and target."
)
MechanismName = Literal["softmax", "blockwise", "linformer", "lsh", "one_hot", "uniform", "last"]


class Settings(BaseModel):
    """Unknown keys are refused, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_from_a_switch(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and field.annotation is not bool:
            raise PydanticCustomError("switch", "true or false")  # pydantic would read true as the number 1
        return value


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


class ArchitectureSettings(Settings):
    """What every architecture has."""

    architecture: Architecture = Field(default="transformer", description=ARCHITECTURES)
    dropout: Probability = Field(
        default=0.1, description="Share of units dropped from embeddings and each sublayer's output."
    )
    tie_embeddings: Literal["all", "target", "none"] = Field(
        default="all",
        description="all: source, target and output share one table; target: target and output do; none: nothing does.",
    )
    max_positions: int = Field(
        default=512, ge=2, le=100_000, description="Longest sequence that the model can take, in tokens."
    )

    @property
    def taught_heads(self) -> tuple[int, int]:
        """Layers of cross-attention whose weights can be taught, and heads of each; none unless a subclass says."""
        return 0, 0

    def least_parameters(self, vocabulary_size: int) -> int:
        """Fewest numbers that the model can have: its embedding and its largest matrices, attention left aside."""
        raise NotImplementedError


class BlocksSettings(ArchitectureSettings):
    """What architectures made of Transformer blocks have."""

    d_model: int = Field(default=128, ge=1, description="Width of the embeddings and of every layer, in units.")
    num_heads: int = Field(default=4, ge=1, description="Heads of every attention layer.")
    d_ff: int = Field(default=256, ge=1, description="Inner width of the feed-forward layers, in units.")
    embedding_dropout: Probability | None = Field(
        default=None, description="Share of coordinates dropped from the embeddings; null: as dropout."
    )
    attention_dropout: Probability = Field(default=0.0, description="Share of attention weights dropped.")
    activation_dropout: Probability = Field(
        default=0.0, description="Share of units dropped inside the feed-forward layers."
    )
    norm: Literal["pre", "post"] = Field(
        default="pre", description="Layer normalisation before each sublayer, or after it."
    )
    positions: Literal["sinusoidal", "learned"] = Field(default="sinusoidal", description="How positions are embedded.")
    positions_on: Literal["input", "queries_and_keys"] = Field(
        default="input",
        description="Where positions are added: once to the embeddings, or to the queries and keys of every attention "
        "and never to values.",
    )
    activation: Literal["relu", "gelu", "silu"] = Field(
        default="relu", description="Activation of the feed-forward layers."
    )
    attention: Settings

    def _least_parameters(self, vocabulary_size: int, layers: int) -> int:
        return vocabulary_size * self.d_model + 2 * layers * self.d_model * self.d_ff

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        for site in type(self.attention).model_fields:
            settings: AttentionSettings = getattr(self.attention, site)
            if (settings.key_dim is None or settings.value_dim is None) and self.d_model % self.num_heads:
                raise ValueError(
                    f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads}), or every site of "
                    "attention must say its key_dim and value_dim"
                )
            settings.check_sizes(self.d_model, self.num_heads)
            if settings.mechanism == "blockwise" and self.attention_dropout:
                raise ValueError(
                    f"attention_dropout ({self.attention_dropout}) needs weights to drop, and "
                    f"attention.{site}.mechanism {settings.mechanism} never holds them all: set it to 0 (dropout acts "
                    "on what comes out), or take softmax"
                )
        return self


class TransformerSettings(BlocksSettings):
    """Encoder and decoder of Transformer blocks (Vaswani et al. 2017)."""

    encoder_layers: int = Field(default=4, ge=1, description="Number of encoder layers.")
    decoder_layers: int = Field(default=4, ge=1, description="Number of decoder layers.")
    attention: TransformerAttention = Field(default=TransformerAttention(), description="The three kinds of attention.")

    def least_parameters(self, vocabulary_size: int) -> int:
        """See `ArchitectureSettings`."""
        return self._least_parameters(vocabulary_size, self.encoder_layers + self.decoder_layers)

    @property
    def taught_heads(self) -> tuple[int, int]:
        """Layers of cross-attention whose weights can be taught, and heads of each."""
        return (self.decoder_layers, self.num_heads) if self.attention.cross.mechanism == "softmax" else (0, 0)


class DecoderOnlySettings(BlocksSettings):
    """One causal stack of Transformer blocks that reads the source and goes on with the target."""

    architecture: Architecture = Field(default="decoder_only", description=ARCHITECTURES)
    layers: int = Field(default=6, ge=1, description="Number of layers.")
    source_loss: float = Field(
        default=0.0, ge=0, description="Weight of the loss on source tokens; those of the target have 1."
    )
    attention: DecoderOnlyAttention = Field(default=DecoderOnlyAttention(), description="The one kind of attention.")

    def least_parameters(self, vocabulary_size: int) -> int:
        """See `ArchitectureSettings`."""
        return self._least_parameters(vocabulary_size, self.layers)


class RecurrentSettings(ArchitectureSettings):
    """GRU encoder and decoder with attention between them (Bahdanau et al. 2015, Luong et al. 2015)."""

    architecture: Architecture = Field(default="recurrent", description=ARCHITECTURES)
    embedding_dim: int = Field(default=256, ge=1, description="Width of the embeddings, in units.")
    hidden_dim: int = Field(default=256, ge=1, description="Width of each GRU's state, in units.")
    bidirectional: bool = Field(default=True, description="Whether a second GRU reads the source from its end.")
    cross_attention: RecurrentAttention = Field(
        default="additive",
        description="How states of decoder and encoder are scored; uniform and last: fixed weights; none: the final "
        "state of the encoder alone.",
    )
    attention_dim: int = Field(
        default=256, ge=1, description="Width in which additive, concat, dot, scaled_dot and cosine compare, in units."
    )
    decoder: Literal["bahdanau", "luong"] = Field(
        default="bahdanau",
        description="bahdanau: the state before the step asks, and the answer goes into the step; luong: the state "
        "after the step asks, and the answer goes into the output.",
    )
    input_feeding: bool = Field(
        default=False, description="luong: whether each step also reads the attentional vector of the one before."
    )

    def least_parameters(self, vocabulary_size: int) -> int:
        """See `ArchitectureSettings`."""
        return vocabulary_size * self.embedding_dim + 3 * self.hidden_dim * (self.hidden_dim + self.embedding_dim)

    @property
    def taught_heads(self) -> tuple[int, int]:
        """Layers of cross-attention whose weights can be taught, and heads of each."""
        return (0, 0) if self.cross_attention in ("uniform", "last", "none") else (1, 1)

    @model_validator(mode="after")
    def _feeding_is_luongs(self) -> Self:
        if self.input_feeding and self.decoder != "luong":
            raise ValueError("input_feeding goes with decoder luong; with bahdanau every step reads the context anyway")
        return self


def architecture_of(model: Any) -> Any:
    """The architecture that a model's settings name; the Transformer if they name none."""
    if isinstance(model, Mapping):
        return model.get("architecture", "transformer")
    return getattr(model, "architecture", None)


ModelSettings = Annotated[
    Annotated[TransformerSettings, Tag("transformer")]
    | Annotated[RecurrentSettings, Tag("recurrent")]
    | Annotated[DecoderOnlySettings, Tag("decoder_only")],
    Discriminator(architecture_of),
]
