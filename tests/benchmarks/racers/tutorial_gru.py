"""The network of TensorFlow's tutorial "Neural machine translation with attention", written anew.

The tutorial's own code runs no more; this is made from its description: a GRU of 256 units in both directions, a
decoder of one GRU whose states attend to it with one head, the 5,000 most frequent words of each language, Adam, a loss
that leaves padding out, and greedy search, which never chooses the unknown word.
"""

from functools import cache
from pathlib import Path

import keras
import tensorflow as tf

from tests.benchmarks.racers.clock import Clock
from tests.benchmarks.racers.keras_loop import fit, greedy, weights_file
from tests.benchmarks.racers.run import read_lines

PACKAGES = ("keras", "tensorflow")
BEAM = 1
UNITS, WORDS = 256, 5000
BATCH_TOKENS = 1536
UNKNOWN = 1


def make_model(source_size: int, target_size: int) -> keras.Model:
    """The model, of Keras' own layers."""
    layers = keras.layers
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    memory = layers.Embedding(source_size, UNITS, mask_zero=True)(source)
    memory = layers.Bidirectional(layers.GRU(UNITS, return_sequences=True), merge_mode="sum")(memory)
    states = layers.Embedding(target_size, UNITS, mask_zero=True)(target)
    states = layers.GRU(UNITS, return_sequences=True)(states)
    context = layers.MultiHeadAttention(num_heads=1, key_dim=UNITS)(states, memory)
    states = layers.LayerNormalization()(states + context)
    return keras.Model([source, target], layers.Dense(target_size)(states))


def train(clock: Clock, text: Path) -> int:
    """Trains until the time is over."""
    keras.utils.set_random_seed(1)
    rows = []
    for side in ("en", "de"):
        lines = _marked(read_lines(text / f"train.{side}"))
        words = _words()
        words.adapt(tf.constant(lines))
        _vocabulary(clock.folder, side).write_text("\n".join(words.get_vocabulary()[2:]), encoding="utf-8")
        rows.append([[one for one in ids if one] for ids in words(tf.constant(lines)).numpy().tolist()])
    model = _load(clock.folder)[2]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(1e-3), loss, jit_compile=False)
    return fit(
        model, list(zip(*rows, strict=True)), clock, BATCH_TOKENS, lambda update, share: 1e-3 * max(1 - share, 0.01)
    )


def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """Translates greedily."""
    source, target, model = _load(checkpoint.parents[1])
    model.load_weights(weights_file(checkpoint))
    numbers = {word: number for number, word in enumerate(source)}
    rows = [[numbers.get(word, UNKNOWN) for word in line.split()] for line in _marked(sentences)]
    start, end = map(target.index, ("[START]", "[END]"))
    return [" ".join(target[i] for i in row) for row in greedy(model, rows, start, end, banned=[UNKNOWN])]


@cache
def _load(folder: Path) -> tuple[list[str], list[str], keras.Model]:
    source, target = (
        ["", "[UNK]", *_vocabulary(folder, side).read_text(encoding="utf-8").split("\n")] for side in ("en", "de")
    )
    return source, target, make_model(len(source), len(target))


def _words() -> keras.layers.TextVectorization:
    return keras.layers.TextVectorization(WORDS, standardize=None, split="whitespace")


def _marked(lines: list[str]) -> list[str]:
    return [f"[START] {line} [END]" for line in lines]


def _vocabulary(folder: Path, side: str) -> Path:
    return folder / f"vocabulary.{side}.txt"
