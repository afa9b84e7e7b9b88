"""Proposes settings for the minutes at hand: the largest model that can still make enough updates in them."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

# Microseconds per target token on two cores of an AMD EPYC (Zen 5) in bfloat16, fitted to six sizes within 7 %.
TOKEN_COST = 2.7
WIDTH_COST = 0.094  # of each unit of d_model in an encoder layer, whatever is done element by element
WORD_COST = 0.0042  # of each entry of the vocabulary
PRODUCT_COST = 2.4e-6  # of each weight that takes part in a product
UPDATE_TOKENS = 700  # an update takes as long besides as so many tokens
VALIDATING_SHARE = 0.1  # of the minutes, that validations and tracing take
BATCHES = (1024, 2048, 4096)
UPDATES_WANTED = 2000  # batches are as large as leaves room for this many


@dataclass(frozen=True)
class ModelSize:
    """The sizes of a Transformer.

    Args:
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        d_model: width of the layers.
        d_ff: inner width of the feed-forward layers.
        num_heads: number of heads of every attention layer.
    """

    encoder_layers: int
    decoder_layers: int
    d_model: int
    d_ff: int
    num_heads: int


class Preset(NamedTuple):
    """A size that is worth its time from a certain training on.

    - size: of the model.
    - vocabulary_size: the maximum size of the vocabulary.
    - million_tokens: number of target tokens, in millions, that a training should read at least.
    - learning_rate: its peak.
    """

    size: ModelSize
    vocabulary_size: int
    million_tokens: float
    learning_rate: float


# Smallest first.
CHOICES = (
    Preset(ModelSize(1, 1, 64, 256, 4), 2000, 0, 0.003),
    Preset(ModelSize(2, 1, 128, 256, 4), 4000, 1, 0.003),
    Preset(ModelSize(4, 4, 128, 256, 4), 8000, 10, 0.002),
    Preset(ModelSize(4, 4, 192, 384, 4), 8000, 25, 0.002),
    Preset(ModelSize(6, 6, 512, 2048, 8), 16000, 400, 0.0007),
)
# The vocabulary that so many training pairs can fill, and the dropout that so many passes over them need.
VOCABULARIES = ((0, 1000), (2_000, 2000), (20_000, 4000), (100_000, 8000), (500_000, 16000))
DROPOUTS = ((0, 0.0), (8, 0.1), (15, 0.2), (50, 0.3))


@dataclass(frozen=True)
class Proposal:
    """Settings for some minutes, and what training would then do.

    Args:
        size: of the model.
        vocabulary_size: of the tokenizer.
        batch_tokens: the maximum number of positions on the longer side of a batch, padding included.
        dropout: the rate of dropout.
        learning_rate: its peak.
        minutes: of training.
        updates: the expected number of updates.
        epochs: the expected number of passes over the training text.
    """

    size: ModelSize
    vocabulary_size: int
    batch_tokens: int
    dropout: float
    learning_rate: float
    minutes: float
    updates: int
    epochs: float

    def __str__(self) -> str:
        size = self.size
        return (
            f"{size.encoder_layers} + {size.decoder_layers} layers, d_model {size.d_model}, "
            f"vocabulary {self.vocabulary_size:,}: about {self.updates:,} updates, {self.epochs:.1f} epochs"
        )

    def settings(self) -> dict[str, Any]:
        """Returns the proposed settings by dotted key."""
        return {
            "tokenizer.vocabulary_size": self.vocabulary_size,
            "batches.batch_tokens": self.batch_tokens,
            **{f"model.{name}": value for name, value in asdict(self.size).items()},
            "model.dropout": self.dropout,
            "training.schedule": "clock",
            "training.max_minutes": self.minutes,
            "training.max_updates": None,  # the minutes alone end the training
            "training.max_epochs": None,
            "training.learning_rate": self.learning_rate,
        }


def token_cost(size: ModelSize, vocabulary_size: int, batch_tokens: int) -> float:
    """Returns about how many microseconds a target token takes in training, with its source token.

    Only ratios matter: other processors have another speed.
    """
    width = size.d_model
    inner = 2 * size.d_model * size.d_ff
    products = size.encoder_layers * (4 * width**2 + inner) + size.decoder_layers * (8 * width**2 + inner)
    layers = size.encoder_layers + 1.5 * size.decoder_layers  # a decoder layer has three sublayers
    token = (
        TOKEN_COST
        + WIDTH_COST * width * layers
        + WORD_COST * vocabulary_size
        + PRODUCT_COST * (products + vocabulary_size * width)
    )
    return token * (1 + UPDATE_TOKENS / batch_tokens)


def propose(
    pairs: int, tokens_per_pair: float, minutes: float, work_per_second: float, most_tokens: int | None = None
) -> Proposal:
    """Chooses settings by how much a training can read in its minutes.

    Args:
        pairs: number of training pairs.
        tokens_per_pair: mean number of target tokens of a pair, EOS included.
        minutes: of training.
        work_per_second: the speed of the machine: target tokens per second, times the `token_cost` of the model that
            was measured.
        most_tokens: the largest vocabulary that the text can fill; None if it is not known.
    """
    work = 60 * minutes * (1 - VALIDATING_SHARE) * work_per_second
    filled = min(_by_threshold(VOCABULARIES, pairs), most_tokens or math.inf)

    def fitted(choice: Preset) -> tuple[int, int, float]:
        """Returns vocabulary size, batch size, and the number of target tokens that can be read."""
        vocabulary = min(choice.vocabulary_size, filled)
        read = {batch: work / token_cost(choice.size, vocabulary, batch) for batch in BATCHES}
        batch = max((batch for batch in BATCHES if read[batch] / batch >= UPDATES_WANTED), default=BATCHES[0])
        return vocabulary, batch, read[batch]

    choice = next((c for c in reversed(CHOICES) if fitted(c)[2] >= 1e6 * c.million_tokens), CHOICES[0])
    vocabulary, batch, tokens = fitted(choice)
    epochs = tokens / (pairs * tokens_per_pair)
    dropout = _by_threshold(DROPOUTS, epochs)
    updates = round(tokens / batch)
    return Proposal(choice.size, vocabulary, batch, dropout, choice.learning_rate, minutes, updates, epochs)


def _by_threshold(table: Sequence[tuple[float, Any]], value: float) -> Any:
    """Returns the entry of the highest threshold that a value reaches."""
    return [entry for threshold, entry in table if value >= threshold][-1]
