"""The translator of keras.io's example with KerasHub, trained by `fit`, and translating greedily as it does.

One layer on each side, width 256, 8 heads, hidden size 2,048, WordPiece tokens of each language, dropout 0.5 before the
output, and RMSprop.
"""

from functools import cache
from pathlib import Path

import keras
import keras_hub

from tests.benchmarks.racers.clock import Clock
from tests.benchmarks.racers.keras_loop import fit, greedy, weights_file
from tests.benchmarks.racers.run import read_lines
from tests.benchmarks.racers.word_pieces import END, START, WordPieces

PACKAGES = ("keras-hub", "keras", "tensorflow")
BEAM = 1
BATCH_TOKENS = 1536
LONGEST = 160


def make_model(source_size: int, target_size: int) -> keras.Model:
    """The model of the example."""
    width, sizes = 256, {"intermediate_dim": 2048, "num_heads": 8}
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    embed = keras_hub.layers.TokenAndPositionEmbedding
    memory = embed(source_size, LONGEST, width, mask_zero=True)(source)
    memory = keras_hub.layers.TransformerEncoder(**sizes)(memory)
    states = embed(target_size, LONGEST, width, mask_zero=True)(target)
    states = keras_hub.layers.TransformerDecoder(**sizes)(states, memory)
    logits = keras.layers.Dense(target_size)(keras.layers.Dropout(0.5)(states))
    return keras.Model([source, target], logits)


def train(clock: Clock, text: Path) -> int:
    """Trains until the time is over."""
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("mixed_bfloat16")
    lines = {side: read_lines(text / f"train.{side}") for side in ("en", "de")}
    pieces = {side: WordPieces.learn(lines[side], _vocabulary(clock.folder, side)) for side in lines}
    pairs = list(zip(*(pieces[side].encode(lines[side]) for side in lines), strict=True))
    model = make_model(*(len(pieces[side].vocabulary) for side in lines))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.RMSprop(1e-3), loss, jit_compile=False)
    return fit(model, pairs, clock, BATCH_TOKENS, rate=lambda update, share: 1e-3 * max(1 - share, 0.01))


def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """Translates greedily, in float32."""
    source, target, model = _load(checkpoint.parents[1])
    model.load_weights(weights_file(checkpoint))
    return target.decode(greedy(model, source.encode(sentences), START, END))


@cache
def _load(folder: Path) -> tuple[WordPieces, WordPieces, keras.Model]:
    source, target = (WordPieces(_vocabulary(folder, side)) for side in ("en", "de"))
    return source, target, make_model(len(source.vocabulary), len(target.vocabulary))


def _vocabulary(folder: Path, side: str) -> Path:
    return folder / f"vocabulary.{side}.txt"
