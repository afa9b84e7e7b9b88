"""A turn of training for models of Keras: the usual formula of the loss, in a graph like ours."""

import keras
import tensorflow as tf

from tests.benchmarks.contestants.training_batch import make_batch
from tests.support.losses import cross_entropy


def training_turn(model, settings, logits_of, **graph):
    """Makes the turn.

    Args:
        model: takes source and target input.
        settings: of the contest.
        logits_of: what turns the model's output into `(sentences, length, vocabulary)`.
        **graph: further arguments of `tf.function`.
    """
    optimizer = keras.optimizers.Adam(1e-3, beta_2=0.98)
    optimizer.build(model.trainable_variables)
    tokens = settings["sentences"] * settings["length"]
    batch = [tf.constant(ids) for ids in make_batch(settings)]

    @tf.function(autograph=False, **graph)
    def update(source, target_input, target_output):
        with tf.GradientTape() as tape:
            logits = tf.reshape(logits_of(model([source, target_input], training=True)), (-1, settings["vocabulary"]))
            loss = cross_entropy(logits, tf.reshape(target_output, (-1,)), tf.ones(tokens), 0.1) / tokens
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def turn():
        float(update(*batch))
        return {}

    return turn
