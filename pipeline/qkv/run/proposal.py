"""Proposes settings for a training of a given time: the largest model that can read enough text in this time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

# Costs are microseconds per target token on two cores of an AMD EPYC (Zen 5) in bfloat16, fitted to six model sizes
# within 7 %.
TOKEN_COST = 2.7
"""The cost of a target token in a model without layers."""
WIDTH_COST = 0.094
"""The cost of each unit of d_model in an encoder layer, for operations on single elements."""
WORD_COST = 0.0042
"""The cost of each entry of the vocabulary."""
PRODUCT_COST = 2.4e-6
"""The cost of each weight of a matrix product."""
UPDATE_TOKENS = 700
"""The cost of an update apart from its tokens, in tokens."""
VALIDATING_SHARE = 0.1
"""The share of the minutes that validations and tracing take."""
BATCHES = (1024, 2048, 4096)
"""The proposed values of `batches.batch_tokens`."""
UPDATES_WANTED = 2000
"""The largest batch size with at least this number of updates is proposed."""
DEFAULT_MINUTES = 5
"""The length of a training for which `default_settings` proposes, unless the user has chosen one."""
BYTES_PER_TOKEN = 4
"""The approximate number of bytes of a token of text, in UTF-8."""


@dataclass(frozen=True)
class ModelSize:
    """The sizes of a Transformer.

    Args:
        encoder_layers: the number of encoder layers.
        decoder_layers: the number of decoder layers.
        d_model: the width of the layers.
        d_ff: the inner width of the feed-forward layers.
        num_heads: the number of heads of every attention layer.
    """

    encoder_layers: int
    decoder_layers: int
    d_model: int
    d_ff: int
    num_heads: int


class Preset(NamedTuple):
    """A model size with its settings, and the minimum length of a training for which it is proposed.

    - size: the sizes of the model.
    - vocabulary_size: the maximum size of the vocabulary.
    - million_tokens: the minimum number of target tokens, in millions, that a training reads.
    - learning_rate: the peak of the learning rate.
    """

    size: ModelSize
    vocabulary_size: int
    million_tokens: float
    learning_rate: float


PRESETS = (
    Preset(ModelSize(1, 1, 64, 256, 4), 2000, 0, 0.003),
    Preset(ModelSize(2, 1, 128, 256, 4), 4000, 1, 0.003),
    Preset(ModelSize(4, 4, 128, 256, 4), 8000, 10, 0.002),
    Preset(ModelSize(4, 4, 192, 384, 4), 8000, 25, 0.002),
    Preset(ModelSize(6, 6, 512, 2048, 8), 16000, 400, 0.0007),
)
"""The presets, the smallest first."""
VOCABULARIES = ((0, 1000), (2_000, 2000), (20_000, 4000), (100_000, 8000), (500_000, 16000))
"""Pairs of a number of training pairs, and the largest vocabulary that this number can fill."""
DROPOUTS = ((0, 0.0), (8, 0.1), (15, 0.2), (50, 0.3))
"""Pairs of a number of epochs, and the rate of dropout that a training of this number needs."""


@dataclass(frozen=True)
class Proposal:
    """Proposed settings for a training, and its expected updates and epochs.

    Args:
        size: the sizes of the model.
        vocabulary_size: the maximum size of the vocabulary.
        batch_tokens: the maximum number of positions on the longer side of a batch, padding included.
        dropout: the rate of dropout.
        learning_rate: the peak of the learning rate.
        minutes: the length of the training in minutes.
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
        """Returns layers, width, vocabulary, updates and epochs as a phrase."""
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
            "training.max_updates": None,  # only the minutes end the training
            "training.max_epochs": None,
            "training.learning_rate": self.learning_rate,
        }


def token_cost(size: ModelSize, vocabulary_size: int, batch_tokens: int) -> float:
    """Estimates the cost of a target token in training, together with its source token.

    Args:
        size: the sizes of the model.
        vocabulary_size: the size of the vocabulary.
        batch_tokens: the maximum number of positions on the longer side of a batch.

    Returns:
        Microseconds on one processor, an AMD EPYC. Only ratios matter, since other processors have another speed.
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
    pairs: int, tokens_per_pair: float, minutes: float, work_per_second: float, vocabulary_limit: int | None = None
) -> Proposal:
    """Chooses the largest preset for which a training reads enough target tokens, and adapts its settings.

    Args:
        pairs: the number of training pairs.
        tokens_per_pair: the mean number of target tokens of a pair, EOS included.
        minutes: the length of the training in minutes.
        work_per_second: the speed of the machine: the measured target tokens per second of some model, times the
            `token_cost` of this model.
        vocabulary_limit: the largest vocabulary size that the text allows; None if it is not known.
    """
    work = 60 * minutes * (1 - VALIDATING_SHARE) * work_per_second
    largest_vocabulary = min(_by_threshold(VOCABULARIES, pairs), vocabulary_limit or math.inf)

    def fit(preset: Preset) -> tuple[int, int, float]:
        """Returns the vocabulary size, the batch size in tokens, and the number of target tokens of the training."""
        vocabulary = min(preset.vocabulary_size, largest_vocabulary)
        tokens = {batch: work / token_cost(preset.size, vocabulary, batch) for batch in BATCHES}
        batch = max((batch for batch in BATCHES if tokens[batch] / batch >= UPDATES_WANTED), default=BATCHES[0])
        return vocabulary, batch, tokens[batch]

    large_first = reversed(PRESETS)
    preset = next((preset for preset in large_first if fit(preset)[2] >= 1e6 * preset.million_tokens), PRESETS[0])
    vocabulary, batch, tokens = fit(preset)
    epochs = tokens / (pairs * tokens_per_pair)
    return Proposal(
        preset.size,
        vocabulary,
        batch,
        dropout=_by_threshold(DROPOUTS, epochs),
        learning_rate=preset.learning_rate,
        minutes=minutes,
        updates=round(tokens / batch),
        epochs=epochs,
    )


def default_set_size(pairs: int) -> int:
    """Returns the number of pairs to hold out for a set whose size nobody has chosen: 20 of 200, 1,000 of 20,000.

    It is a tenth of up to 1,000 pairs and a twentieth of more, at most 1,000, which are enough for scores.

    Args:
        pairs: the number of all pairs.
    """
    return max(1, min(1000, max(pairs // 20, min(100, pairs // 10))))


def default_settings(
    pairs: int, target_bytes: int, words: int, characters: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns default settings for a training on a text, for a user who has chosen only some.

    They depend on the arguments alone and not on the machine, so that the same call continues a training. Without a
    limit in `settings`, the training lasts `DEFAULT_MINUTES`. The sizes are those that `propose` gives for this time on
    the machine on which the costs were measured.

    Args:
        pairs: the number of pairs.
        target_bytes: the number of bytes of all targets.
        words: the number of different words on both sides.
        characters: the number of different characters on both sides.
        settings: the settings that the user has chosen, by dotted key.

    Returns:
        The other settings, by dotted key.
    """
    minutes = settings.get("training.max_minutes")
    is_limited = any(settings.get(f"training.max_{unit}") is not None for unit in ("updates", "epochs"))
    proposal = propose(
        pairs,
        tokens_per_pair=1 + target_bytes / BYTES_PER_TOKEN / pairs,
        minutes=minutes if isinstance(minutes, int | float) and minutes > 0 else DEFAULT_MINUTES,
        work_per_second=1e6,  # of the machine on which the costs, in microseconds, were measured
        vocabulary_limit=max(32, round(0.8 * words) + characters),  # some words occur in a held-out set only
    )
    defaults = {**proposal.settings(), "training.warmup_updates": 200, "model.norm": "pre"}
    defaults["tokenizer.vocabulary_size"] = max(proposal.vocabulary_size, characters + 4)  # and the special tokens
    if is_limited:
        for key in ("schedule", "max_minutes", "warmup_updates"):
            del defaults[f"training.{key}"]
        updates = settings.get("training.max_updates")
        defaults["training.warmup_updates"] = min(200, updates // 10) if isinstance(updates, int) else 200
    has_other_model = settings.get("model.architecture", "transformer") != "transformer"
    if has_other_model or settings.get("training.start_from") is not None:  # an ancestor has sizes already
        defaults = {key: value for key, value in defaults.items() if key.startswith(("training.", "batches."))}
    return {key: value for key, value in defaults.items() if value is not None and key not in settings}


def _by_threshold(table: Sequence[tuple[float, Any]], value: float) -> Any:
    """Returns the entry with the highest threshold that is at most `value`.

    Args:
        table: pairs `(threshold, entry)`, the lowest threshold first.
        value: at least the lowest threshold.
    """
    return [entry for threshold, entry in table if value >= threshold][-1]
