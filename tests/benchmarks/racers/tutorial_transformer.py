"""The Transformer of TensorFlow's tutorial "Neural machine translation with a Transformer and Keras", written anew.

The tutorial's own code runs no more; this is made from its description: 4 layers on each side, width 128, hidden size
512, 8 heads, dropout 0.1, WordPiece tokens of each language, Adam, a loss that leaves padding out, and greedy search.
The tutorial's learning rate, that of Vaswani et al. (2017) with 4,000 updates of warm-up, would still rise after twelve
minutes; this one falls to zero at their end.
"""

from pathlib import Path

import keras
from keras import ops

from qkv.model.embedding import sinusoidal_positions
from tests.benchmarks.racers import keras_pieces
from tests.benchmarks.racers.clock import Clock

PACKAGES = ("keras", "tensorflow", "keras-hub")
BEAM = 1
LAYERS, WIDTH, HEADS, HIDDEN, DROPOUT = 4, 128, 8, 512, 0.1
LEARNING_RATE = 1e-3
WARMUP = 300  # updates
LONGEST = 200


@keras.saving.register_keras_serializable(package="race")
class Positions(keras.layers.Layer):
    """Scales embeddings and adds sinusoidal positions."""

    def call(self, x):
        table = ops.convert_to_tensor(sinusoidal_positions(LONGEST, WIDTH), x.dtype)
        return x * WIDTH**0.5 + table[: ops.shape(x)[1]]


def make_model(source_size: int, target_size: int) -> keras.Model:
    """The model, of Keras' own layers."""
    layers = keras.layers

    def embed(ids, size):
        return layers.Dropout(DROPOUT)(Positions()(layers.Embedding(size, WIDTH)(ids)))

    def attend(x, memory, **masks):
        heads = layers.MultiHeadAttention(HEADS, WIDTH, dropout=DROPOUT)  # heads as wide as the model
        return layers.LayerNormalization()(x + heads(x, memory, **masks))

    def feed_forward(x):
        y = layers.Dense(WIDTH)(layers.Dense(HIDDEN, activation="relu")(x))
        return layers.LayerNormalization()(x + layers.Dropout(DROPOUT)(y))

    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    mask = ops.expand_dims(ops.not_equal(source, 0), 1)
    memory, x = embed(source, source_size), embed(target, target_size)
    for _ in range(LAYERS):
        memory = feed_forward(attend(memory, memory, attention_mask=mask))
    for _ in range(LAYERS):
        x = attend(x, x, use_causal_mask=True)
        x = feed_forward(attend(x, memory, attention_mask=mask))
    return keras.Model([source, target], layers.Dense(target_size)(x))


def rate(update: int, share: float) -> float:
    """The learning rate, which rises over the first updates and falls linearly to zero at the end of the time."""
    return LEARNING_RATE * max(min(update / WARMUP, 1 - share), 0.01)


def train(clock: Clock, text: Path) -> int:
    """Trains until the time is over."""
    optimizer = keras.optimizers.Adam(LEARNING_RATE, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    return keras_pieces.train(make_model, optimizer, rate, clock, text)


def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """Translates greedily."""
    return keras_pieces.translate(make_model, checkpoint, sentences)
