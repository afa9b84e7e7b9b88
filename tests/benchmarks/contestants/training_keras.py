"""The same Transformer made of Keras' own layers, with the usual formula of the loss, in a graph like ours."""

import keras
import tensorflow as tf
from keras import ops

from pipeline.model.embedding import sinusoidal_positions
from pipeline.training.objective import cross_entropy
from tests.benchmarks.contestants.training_batch import make_batch


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
    optimizer = keras.optimizers.Adam(1e-3, beta_2=0.98)
    optimizer.build(model.trainable_variables)
    tokens = settings["sentences"] * settings["length"]
    batch = [tf.constant(ids) for ids in make_batch(settings)]

    @tf.function(autograph=False, jit_compile=settings.get("xla", False))
    def update(source, target_input, target_output):
        with tf.GradientTape() as tape:
            states = model([source, target_input], training=True)
            table = tf.cast(embedding.embeddings, states.dtype)
            logits = tf.reshape(tf.matmul(states, table, transpose_b=True), (-1, vocabulary))
            loss = cross_entropy(logits, tf.reshape(target_output, (-1,)), tf.ones(tokens), 0.1) / tokens
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def turn():
        float(update(*batch))
        return {}

    return turn
