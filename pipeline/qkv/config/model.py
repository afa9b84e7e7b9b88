"""The settings of a model: one schema for each architecture, chosen by the key `architecture`."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from .attention import AttentionSettings, DecoderOnlyAttention, TransformerAttention
from .data import DataSettings
from .names import describe
from .names.model import (
    ACTIVATIONS,
    ARCHITECTURES,
    MECHANISMS,
    NORMS,
    POSITION_PLACES,
    POSITIONS,
    RECURRENT_DECODERS,
    TIED_EMBEDDINGS,
    fixed_weights,
    recurrent_attentions,
)
from .schema import MOST_UNITS, OneOf, Probability, Settings

Architecture = Annotated[str, OneOf(ARCHITECTURES)]
ARCHITECTURE_HELP = f"Kind of model. {describe(ARCHITECTURES)}."


class ArchitectureSettings(Settings):
    """Settings of every architecture."""

    architecture: Architecture = Field(default="transformer", description=ARCHITECTURE_HELP)
    dropout: Probability = Field(
        default=0.1, description="Dropout rate of the embeddings and of the output of each sublayer."
    )
    tie_embeddings: Annotated[str, OneOf(TIED_EMBEDDINGS)] = Field(
        default="all", description=f"Which embeddings share one table. {describe(TIED_EMBEDDINGS)}."
    )
    max_positions: int = Field(
        default=512,
        ge=2,
        le=100_000,
        description="Longest source or target that the model accepts, in tokens, with BOS or EOS.",
    )

    @property
    def guided_heads(self) -> tuple[int, int]:
        """Number of cross-attention layers whose weights can be guided, and heads of each; (0, 0) for none."""
        return 0, 0

    def check_with(self, data: DataSettings) -> None:
        """Checks that the longest sentences fit the positions.

        Raises:
            ValueError: they do not.
        """
        for key in ("max_source_tokens", "max_target_tokens"):
            tokens = getattr(data, key)
            tag = bool(data.tags) and key == "max_source_tokens"
            if tokens + 1 + tag > self.max_positions:
                raise ValueError(
                    f"model.max_positions ({self.max_positions}) must exceed data.{key} ({tokens}): "
                    "BOS or EOS takes a position too" + f", and so does a tag: expected at least {tokens + 2}" * tag
                )

    def least_parameters(self, vocabulary_size: int) -> int:
        """Returns a lower bound of the number of parameters: the embedding and the largest matrices, without
        attention."""
        raise NotImplementedError


class BlocksSettings(ArchitectureSettings):
    """Settings of architectures made of Transformer blocks."""

    d_model: int = Field(
        default=128, ge=1, le=MOST_UNITS, description="Width of the embeddings and of every layer, in units."
    )
    num_heads: int = Field(default=4, ge=1, le=1024, description="Number of heads of every attention layer.")
    d_ff: int = Field(default=256, ge=1, le=MOST_UNITS, description="Inner width of the feed-forward layers, in units.")
    attention_dropout: Probability = Field(default=0.0, description="Dropout rate of the attention weights.")
    activation_dropout: Probability = Field(default=0.0, description="Dropout rate inside the feed-forward layers.")
    norm: Annotated[str, OneOf(NORMS)] = Field(
        default="pre", description=f"Where layer normalisation is applied. {describe(NORMS)}."
    )
    positions: Annotated[str, OneOf(POSITIONS)] = Field(
        default="sinusoidal", description=f"Kind of position embeddings. {describe(POSITIONS)}."
    )
    positions_on: Annotated[str, OneOf(POSITION_PLACES)] = Field(
        default="input", description=f"Where vectors of positions are added. {describe(POSITION_PLACES)}."
    )
    activation: Annotated[str, OneOf(ACTIVATIONS)] = Field(
        default="relu", description="Activation of the feed-forward layers."
    )
    attention: Settings

    def _block_parameters(self, vocabulary_size: int, layers: int) -> int:
        return vocabulary_size * self.d_model + 2 * layers * self.d_model * self.d_ff

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        for site in type(self.attention).model_fields:
            settings: AttentionSettings = getattr(self.attention, site)
            if (settings.key_dim is None or settings.value_dim is None) and self.d_model % self.num_heads:
                raise ValueError(
                    f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads}), or every site of "
                    "attention must say its key_dim and value_dim"
                )
            settings.check_sizes(self.d_model, self.num_heads)
            settings.check_distances(self.positions, self.d_model, self.num_heads)
            if not MECHANISMS[settings.mechanism].holds_weights and self.attention_dropout:
                raise ValueError(
                    f"attention_dropout ({self.attention_dropout}) needs weights to drop, and "
                    f"attention.{site}.mechanism {settings.mechanism} never holds them all: set it to 0 (dropout acts "
                    "on the output), or use softmax"
                )
        return self


class TransformerSettings(BlocksSettings):
    """Encoder and decoder of Transformer blocks (Vaswani et al. 2017)."""

    encoder_layers: int = Field(default=4, ge=1, le=1000, description="Number of encoder layers.")
    decoder_layers: int = Field(default=4, ge=1, le=1000, description="Number of decoder layers.")
    scale_embeddings: bool = Field(default=True, description="Multiply embeddings by the square root of d_model.")
    output_bias: bool = Field(default=False, description="Whether each token's logit has a bias, which is learnt.")
    attention: TransformerAttention = Field(default=TransformerAttention(), description="The attention at each site.")

    def least_parameters(self, vocabulary_size: int) -> int:
        """See `ArchitectureSettings`."""
        return self._block_parameters(vocabulary_size, self.encoder_layers + self.decoder_layers)

    @property
    def guided_heads(self) -> tuple[int, int]:
        """See `ArchitectureSettings`."""
        return (self.decoder_layers, self.num_heads) if MECHANISMS[self.attention.cross.mechanism].guided else (0, 0)


class DecoderOnlySettings(BlocksSettings):
    """One causal stack of Transformer blocks that reads the source and continues with the target."""

    architecture: Architecture = Field(default="decoder_only", description=ARCHITECTURE_HELP)
    layers: int = Field(default=6, ge=1, le=1000, description="Number of layers.")
    source_loss: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="Weight of the loss on source tokens, relative to that on target tokens; 0: none.",
    )
    attention: DecoderOnlyAttention = Field(
        default=DecoderOnlyAttention(), description="The attention of the one stack of layers."
    )

    def least_parameters(self, vocabulary_size: int) -> int:
        """See `ArchitectureSettings`."""
        return self._block_parameters(vocabulary_size, self.layers)


class RecurrentSettings(ArchitectureSettings):
    """GRU encoder and decoder with attention between them (Bahdanau et al. 2015, Luong et al. 2015)."""

    architecture: Architecture = Field(default="recurrent", description=ARCHITECTURE_HELP)
    embedding_dim: int = Field(default=256, ge=1, le=MOST_UNITS, description="Width of the embeddings, in units.")
    hidden_dim: int = Field(default=256, ge=1, le=MOST_UNITS, description="Width of each GRU's state, in units.")
    cross_attention: Annotated[str, OneOf(recurrent_attentions, extensible=True)] = Field(
        default="additive",
        description="How the decoder's states are compared with the encoder's: a score function, or fixed weights "
        "(uniform, last). none: no attention, the decoder sees only the final state of the encoder.",
    )
    attention_dim: int = Field(
        default=256,
        ge=1,
        le=MOST_UNITS,
        description="Width of the projected states that additive, dot, scaled_dot and cosine compare, and hidden width "
        "of concat, in units.",
    )
    decoder: Annotated[str, OneOf(RECURRENT_DECODERS)] = Field(
        default="bahdanau", description=f"When the decoder attends. {describe(RECURRENT_DECODERS)}."
    )
    input_feeding: bool = Field(
        default=False,
        description="With decoder luong: whether each step also reads the attentional vector of the previous step.",
    )

    def least_parameters(self, vocabulary_size: int) -> int:
        """See `ArchitectureSettings`."""
        return vocabulary_size * self.embedding_dim + 3 * self.hidden_dim * (self.hidden_dim + self.embedding_dim)

    @property
    def guided_heads(self) -> tuple[int, int]:
        """See `ArchitectureSettings`."""
        return (0, 0) if self.cross_attention in (*fixed_weights(), "none") else (1, 1)

    @model_validator(mode="after")
    def _check_input_feeding(self) -> Self:
        if self.input_feeding and self.decoder != "luong":
            raise ValueError("input_feeding needs decoder luong; with bahdanau every step reads the context anyway")
        return self


def architecture_of(model: Any) -> Any:
    """Returns the architecture that a model's settings name; the Transformer if they name none."""
    if isinstance(model, Mapping):
        return model.get("architecture", "transformer")
    return getattr(model, "architecture", None)


ModelSettings = Annotated[
    Annotated[TransformerSettings, Tag("transformer")]
    | Annotated[RecurrentSettings, Tag("recurrent")]
    | Annotated[DecoderOnlySettings, Tag("decoder_only")],
    Discriminator(architecture_of),
]
