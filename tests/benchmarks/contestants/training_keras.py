"""The same Transformer made of Keras' own layers."""

import keras
import tensorflow as tf
from keras import ops

from qkv.model.embedding import sinusoidal_positions
from tests.benchmarks.contestants.keras_turn import training_turn


def prepare(settings):
    """`settings["precision"]` is the Keras dtype policy."""
    keras.config.set_dtype_policy(settings["precision"])
    width, vocabulary, dropout = settings["width"], settings["vocabulary"], settings["dropout"]
    layers = keras.layers
    embedding = layers.Embedding(vocabulary, width)
    positions = sinusoidal_positions(settings["length"], width)[None]

    def join(x, y):
        return layers.LayerNormalization(epsilon=1e-5)(x + layers.Dropout(dropout)(y))

    def feed_forward(x):
        return join(x, layers.Dense(width)(layers.Dense(settings["hidden"], activation="relu")(x)))

    def attention(x, memory, **masks):
        heads = settings["heads"]
        return join(x, layers.MultiHeadAttention(heads, width // heads)(x, memory, **masks))

    def embed(ids):
        return layers.Dropout(dropout)(embedding(ids) * width**0.5 + ops.cast(positions, embedding.compute_dtype))

    source, target = (keras.Input((settings["length"],), dtype="int32") for _ in range(2))
    mask = ops.expand_dims(ops.not_equal(source, 0), 1)
    memory, x = embed(source), embed(target)
    for _ in range(settings["layers"]):
        memory = feed_forward(attention(memory, memory, attention_mask=mask))
    for _ in range(settings["layers"]):
        x = attention(x, x, use_causal_mask=True)
        x = feed_forward(attention(x, memory, attention_mask=mask))
    model = keras.Model([source, target], x)

    def logits_of(states):
        return tf.matmul(states, tf.cast(embedding.embeddings, states.dtype), transpose_b=True)

    return training_turn(model, settings, logits_of, jit_compile=settings.get("xla", False))
