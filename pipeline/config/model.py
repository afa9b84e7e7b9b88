"""The settings of a model: one schema for each architecture, chosen by the key `architecture`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from .attention import AttentionSettings, DecoderOnlyAttention, TransformerAttention
from .base import Probability, Settings

RecurrentAttention = Literal["additive", "concat", "dot", "scaled_dot", "general", "cosine", "uniform", "last", "none"]
Architecture = Literal["transformer", "recurrent", "decoder_only"]
ARCHITECTURES = (
    "transformer: encoder and decoder of Transformer blocks; recurrent: GRUs with attention between them; "
    "decoder_only: one causal Transformer over source and target."
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
    def guided_heads(self) -> tuple[int, int]:
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
    def guided_heads(self) -> tuple[int, int]:
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
    def guided_heads(self) -> tuple[int, int]:
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
