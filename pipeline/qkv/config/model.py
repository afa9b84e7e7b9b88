"""The settings of the model: section `model`. Its key `architecture` chooses one of three classes of settings."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from .attention import DecoderOnlyAttention, TransformerAttention
from .choices.model import (
    ACTIVATIONS,
    ARCHITECTURES,
    MECHANISM_INFO,
    NORMS,
    POSITION_PLACES,
    POSITIONS,
    RECURRENT_DECODERS,
    SCORE_INFO,
    TAKES_SEGMENTS,
    TIED_EMBEDDINGS,
    fixed_weights,
)
from .data import DataSettings
from .schema import MOST_UNITS, OneOf, Probability, Settings

__all__ = ["DecoderOnlySettings", "RecurrentSettings", "TransformerSettings"]

Architecture = Annotated[str, OneOf(ARCHITECTURES)]
RecurrentAttention = Annotated[str, OneOf(lambda: [*SCORE_INFO, *fixed_weights(), "none"], extensible=True)]


class ArchitectureSettings(Settings):
    """Settings of every architecture."""

    architecture: Architecture = "transformer"
    """Build this kind of model."""
    dropout: Probability = 0.1
    """Drop this share of the embeddings and of the output of each sublayer."""
    tie_embeddings: Annotated[str, OneOf(TIED_EMBEDDINGS)] = "all"
    """Share one table among these embeddings."""
    max_positions: int = Field(default=512, ge=2, le=100_000)
    """Accept sources and targets of at most this many tokens, BOS or EOS included."""

    @property
    def guided_heads(self) -> tuple[int, int]:
        """The number of layers whose cross-attention guided attention can train, and the number of heads in each layer.

        (0, 0) if the model has no such layer.
        """
        return 0, 0

    @property
    def has_cross_attention(self) -> bool:
        """True if the decoder attends to the source by cross-attention."""
        return True

    @property
    def packing_obstacle(self) -> str | None:
        """The setting that rules out packed batches, whose rows hold several sentence pairs, with its value.

        An example is `model.attention.cross.mechanism linformer`. None if the model can be trained on packed batches.
        """
        return None if TAKES_SEGMENTS.get(self.architecture) else f"model.architecture {self.architecture}"

    def check_with(self, data: DataSettings) -> None:
        """Raises a `ValueError` if the longest sentences that `data` allows do not fit into `max_positions`.

        BOS or EOS, and the tag of a corpus, take a position too.
        """
        for key in ("max_source_tokens", "max_target_tokens"):
            tokens = getattr(data, key)
            tagged = bool(data.tags) and key == "max_source_tokens"
            if tokens + 1 + tagged > self.max_positions:
                tag = f", and so does a tag: expected at least {tokens + 2}" if tagged else ""
                raise ValueError(
                    f"model.max_positions ({self.max_positions}) must exceed data.{key} ({tokens}): "
                    f"BOS or EOS takes a position too{tag}"
                )

    def least_parameters(self, vocabulary_size: int) -> int:
        """Returns a lower bound of the number of parameters.

        It counts an embedding table for `vocabulary_size` tokens, and the largest matrices of the layers.
        """
        raise NotImplementedError


class BlocksSettings(ArchitectureSettings):
    """Settings of architectures that consist of Transformer blocks."""

    d_model: int = Field(default=128, ge=1, le=MOST_UNITS)
    """Make the embeddings and every layer this many units wide."""
    num_heads: int = Field(default=4, ge=1, le=1024)
    """Give every attention layer this many heads."""
    d_ff: int = Field(default=256, ge=1, le=MOST_UNITS)
    """Make the feed-forward layers this many units wide inside."""
    attention_dropout: Probability = 0.0
    """Drop this share of the attention weights."""
    activation_dropout: Probability = 0.0
    """Drop this share of the units inside the feed-forward layers."""
    norm: Annotated[str, OneOf(NORMS)] = "pre"
    """Apply layer normalisation at this place; the export for Hugging Face needs post."""
    positions: Annotated[str, OneOf(POSITIONS)] = "sinusoidal"
    """Represent positions in this way."""
    positions_on: Annotated[str, OneOf(POSITION_PLACES)] = "input"
    """Add vectors of positions at this place; the exports for CTranslate2 and Hugging Face need input."""
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "relu"
    """Use this activation in the feed-forward layers."""
    attention: Settings

    @property
    def packing_obstacle(self) -> str | None:
        mechanisms = {site: settings.mechanism for site, settings in self.attention}
        obstacles = [
            f"model.attention.{site}.mechanism {name}"
            for site, name in mechanisms.items()
            if not MECHANISM_INFO[name].takes_segments
        ]
        return super().packing_obstacle or next(iter(obstacles), None)

    def least_parameters(self, vocabulary_size: int) -> int:
        """Returns a lower bound of the number of parameters: those of one embedding table and feed-forward matrices."""
        layers = sum(getattr(self, name, 0) for name in ("layers", "encoder_layers", "decoder_layers"))
        return vocabulary_size * self.d_model + 2 * layers * self.d_model * self.d_ff

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        for site, settings in self.attention:
            if (settings.key_dim is None or settings.value_dim is None) and self.d_model % self.num_heads:
                raise ValueError(
                    f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads}), or every site of "
                    "attention must set key_dim and value_dim"
                )
            settings.check_within(self.positions, self.d_model, self.num_heads)
            if not MECHANISM_INFO[settings.mechanism].holds_weights and self.attention_dropout:
                raise ValueError(
                    f"attention_dropout ({self.attention_dropout}) needs all weights at once, but "
                    f"attention.{site}.mechanism {settings.mechanism} never holds them all: set it to 0 (dropout acts "
                    "on the output), or use softmax"
                )
        return self


class TransformerSettings(BlocksSettings):
    """Encoder and decoder of Transformer blocks (Vaswani et al. 2017)."""

    encoder_layers: int = Field(default=4, ge=1, le=1000)
    """Stack this many encoder layers."""
    decoder_layers: int = Field(default=4, ge=1, le=1000)
    """Stack this many decoder layers."""
    scale_embeddings: bool = True
    """Multiply embeddings by the square root of d_model."""
    output_bias: bool = False
    """Give each token's logit a learnt bias."""
    attention: TransformerAttention = TransformerAttention()
    """The attention at each site."""

    @property
    def guided_heads(self) -> tuple[int, int]:
        """The number of decoder layers, and of heads in each; (0, 0) if guided attention cannot train the mechanism."""
        can_be_guided = MECHANISM_INFO[self.attention.cross.mechanism].guided
        return (self.decoder_layers, self.num_heads) if can_be_guided else (0, 0)


class DecoderOnlySettings(BlocksSettings):
    """One stack of Transformer blocks with a causal mask. It reads the source and continues with the target."""

    architecture: Architecture = "decoder_only"
    """Build this kind of model."""
    layers: int = Field(default=6, ge=1, le=1000)
    """Stack this many layers."""
    source_loss: float = Field(default=0.0, ge=0, le=1000)
    """Weigh the loss on source tokens by this number, relative to target tokens. 0: none."""
    attention: DecoderOnlyAttention = DecoderOnlyAttention()
    """The attention of the one stack of layers."""


class RecurrentSettings(ArchitectureSettings):
    """GRU encoder and decoder with attention between them (Bahdanau et al. 2015, Luong et al. 2015)."""

    architecture: Architecture = "recurrent"
    """Build this kind of model."""
    embedding_dim: int = Field(default=256, ge=1, le=MOST_UNITS)
    """Make the embeddings this many units wide."""
    hidden_dim: int = Field(default=256, ge=1, le=MOST_UNITS)
    """Make the state of each GRU this many units wide."""
    cross_attention: RecurrentAttention = "additive"
    """Compare the decoder's states with the encoder's by this score function, or use fixed weights.
    none: no attention; the decoder reads only the encoder's final state."""
    attention_dim: int = Field(default=256, ge=1, le=MOST_UNITS)
    """Make projected states (additive, dot, scaled_dot, cosine) and the hidden layer of concat this many units
    wide."""
    decoder: Annotated[str, OneOf(RECURRENT_DECODERS)] = "bahdanau"
    """Let the decoder attend at this moment."""
    input_feeding: bool = False
    """With luong: let each step also read the attentional vector of the previous step."""

    def least_parameters(self, vocabulary_size: int) -> int:
        """Returns a lower bound of the number of parameters: those of one embedding table and one GRU."""
        return vocabulary_size * self.embedding_dim + 3 * self.hidden_dim * (self.hidden_dim + self.embedding_dim)

    @property
    def guided_heads(self) -> tuple[int, int]:
        """(1, 1) if the attention has a score function; (0, 0) for fixed weights and without attention."""
        return (0, 0) if self.cross_attention in (*fixed_weights(), "none") else (1, 1)

    @property
    def has_cross_attention(self) -> bool:
        """True if the decoder attends to the source by cross-attention."""
        return self.cross_attention != "none"

    @model_validator(mode="after")
    def _check_input_feeding(self) -> Self:
        if self.input_feeding and self.decoder != "luong":
            raise ValueError("input_feeding needs decoder luong; with bahdanau every step reads the context anyway")
        return self


def architecture_of(model: Any) -> Any:
    """Returns the setting `architecture` of a model, such as `recurrent`. The value is not checked.

    Args:
        model: a dict, in which `architecture` is `transformer` if it is missing, or `ArchitectureSettings`. For any
            other object the result is None.
    """
    if isinstance(model, Mapping):
        return model.get("architecture", "transformer")
    return getattr(model, "architecture", None)


ModelSettings = Annotated[
    Annotated[TransformerSettings, Tag("transformer")]
    | Annotated[RecurrentSettings, Tag("recurrent")]
    | Annotated[DecoderOnlySettings, Tag("decoder_only")],
    Discriminator(architecture_of),
]
