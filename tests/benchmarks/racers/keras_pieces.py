"""What the racers on Keras with WordPiece tokens of each language share: they differ in model, optimizer and rate."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import keras

from tests.benchmarks.racers.clock import Clock
from tests.benchmarks.racers.keras_loop import fit, greedy, weights_file
from tests.benchmarks.racers.run import read_lines
from tests.benchmarks.racers.word_pieces import END, START, WordPieces

BATCH_TOKENS = 1536
LANGUAGES = ("en", "de")

MakeModel = Callable[[int, int], keras.Model]


def train(
    make_model: MakeModel,
    optimizer: keras.optimizers.Optimizer,
    rate: Callable[[int, float], float],
    clock: Clock,
    text: Path,
) -> int:
    """Learns the tokens and trains until the time is over, in bfloat16.

    Args:
        make_model: makes the model for the sizes of both vocabularies.
        optimizer: minimizes the cross-entropy of the target tokens.
        rate: its learning rate, see `keras_loop.Timekeeper`.
        clock: the racer's.
        text: the folder of the corpus.

    Returns:
        The number of parameters.
    """
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("mixed_bfloat16")
    rows, sizes = [], []
    for language in LANGUAGES:
        lines = read_lines(text / f"train.{language}")
        pieces = WordPieces.learn(lines, _vocabulary(clock.folder, language))
        rows.append(pieces.encode(lines))
        sizes.append(len(pieces.vocabulary))
    model = make_model(*sizes)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(optimizer, loss, jit_compile=False)
    return fit(model, list(zip(*rows, strict=True)), clock, BATCH_TOKENS, rate)


def translate(make_model: MakeModel, checkpoint: Path, sentences: list[str]) -> list[str]:
    """Translates greedily, in float32."""
    source, target, model = _load(make_model, checkpoint.parents[1])
    model.load_weights(weights_file(checkpoint))
    return target.decode(greedy(model, source.encode(sentences), START, END))


@cache
def _load(make_model: MakeModel, folder: Path) -> tuple[WordPieces, WordPieces, keras.Model]:
    source, target = (WordPieces(_vocabulary(folder, language)) for language in LANGUAGES)
    return source, target, make_model(len(source.vocabulary), len(target.vocabulary))


def _vocabulary(folder: Path, language: str) -> Path:
    return folder / f"vocabulary.{language}.txt"
