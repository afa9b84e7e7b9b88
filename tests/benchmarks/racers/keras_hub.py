"""The translator of keras.io's example with KerasHub, trained by `fit`, and translating greedily as it does.

One layer on each side, width 256, 8 heads, hidden size 2,048, WordPiece tokens of each language, dropout 0.5 before the
output, and RMSprop.
"""

from pathlib import Path

import keras
import keras_hub

from tests.benchmarks.racers import keras_pieces
from tests.benchmarks.racers.clock import Clock

PACKAGES = ("keras-hub", "keras", "tensorflow")
BEAM = 1
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
    rate = 1e-3
    optimizer = keras.optimizers.RMSprop(rate)
    return keras_pieces.train(make_model, optimizer, lambda update, share: rate * max(1 - share, 0.01), clock, text)


def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """Translates greedily."""
    return keras_pieces.translate(make_model, checkpoint, sentences)
