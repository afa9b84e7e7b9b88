"""The same sizes with KerasHub's `TransformerEncoder` and `TransformerDecoder`."""

import keras
import keras_hub
import tensorflow as tf

from pipeline.training.objective import cross_entropy
from tests.benchmarks.contestants.training_batch import make_batch


def prepare(settings):
    """`settings["precision"]` is the Keras dtype policy."""
    keras.config.set_dtype_policy(settings["precision"])
    length, vocabulary = settings["length"], settings["vocabulary"]
    block = {"intermediate_dim": settings["hidden"], "num_heads": settings["heads"], "dropout": settings["dropout"]}
    embedding = keras_hub.layers.TokenAndPositionEmbedding(vocabulary, length, settings["width"], tie_weights=True)
    source, target = (keras.Input((length,), dtype="int32") for _ in range(2))
    memory, x = embedding(source), embedding(target)
    for _ in range(settings["layers"]):
        memory = keras_hub.layers.TransformerEncoder(**block)(memory)
    for _ in range(settings["layers"]):
        x = keras_hub.layers.TransformerDecoder(**block)(x, memory)
    model = keras.Model([source, target], embedding.token_embedding(x, reverse=True))
    optimizer = keras.optimizers.Adam(1e-3, beta_2=0.98)
    optimizer.build(model.trainable_variables)
    tokens = settings["sentences"] * length
    batch = [tf.constant(ids) for ids in make_batch(settings)]

    @tf.function(autograph=False)
    def update(source, target_input, target_output):
        with tf.GradientTape() as tape:
            logits = tf.reshape(model([source, target_input], training=True), (-1, vocabulary))
            loss = cross_entropy(logits, tf.reshape(target_output, (-1,)), tf.ones(tokens), 0.1) / tokens
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def turn():
        float(update(*batch))
        return {}

    return turn
