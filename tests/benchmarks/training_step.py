"""Times an update of ours against the same Transformer made of plain Keras layers, side by side in one process.

    python tests/benchmarks/training_step.py [--updates 10]

Both: d_model 128, 4 + 4 layers, 4 heads, feed-forward 256, vocabulary 8,000, dropout 0.1, label smoothing 0.1, Adam,
200 sentences of 20 tokens on either side. Plain Keras is its `MultiHeadAttention`, `LayerNormalization`, `Dense` and
`Embedding` with the usual formula of the loss, in float32 and in mixed_bfloat16, in a graph like ours. Updates are
interleaved; the figures are medians, in target tokens per second.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from pipeline.model.embedding import sinusoidal_positions
from pipeline.model.transformer import Transformer
from pipeline.training.memory import keep_freed_memory
from pipeline.training.objective import cross_entropy
from pipeline.training.step import Update

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS, DROPOUT, SMOOTHING = 8000, 128, 4, 256, 4, 0.1, 0.1
SENTENCES, LENGTH = 200, 20


def plain_keras(policy):
    """The same architecture (post-norm, tied embeddings) as a functional model of Keras' own layers."""
    layers = keras.layers
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    embedding = layers.Embedding(VOCABULARY, WIDTH)
    positions = sinusoidal_positions(LENGTH, WIDTH)[None]

    def join(x, y):
        return layers.LayerNormalization(epsilon=1e-5)(x + layers.Dropout(DROPOUT)(y))

    def feed_forward(x):
        return join(x, layers.Dense(WIDTH)(layers.Dense(HIDDEN, activation="relu")(x)))

    def attention(x, memory, **masks):
        return join(x, layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(x, memory, **masks))

    def embed(ids):
        return layers.Dropout(DROPOUT)(embedding(ids) * WIDTH**0.5 + ops.cast(positions, embedding.compute_dtype))

    source, target = (keras.Input((LENGTH,), dtype="int32") for _ in range(2))
    mask = ops.expand_dims(ops.not_equal(source, 0), 1)
    memory, x = embed(source), embed(target)
    for _ in range(LAYERS):
        memory = feed_forward(attention(memory, memory, attention_mask=mask))
    for _ in range(LAYERS):
        x = attention(x, x, use_causal_mask=True)
        x = feed_forward(attention(x, memory, attention_mask=mask))
    model = keras.Model([source, target], x)
    keras.config.set_dtype_policy(previous)
    optimizer = keras.optimizers.Adam(1e-3, beta_2=0.98)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def update(source, target_input, target_output):
        with tf.GradientTape() as tape:
            states = model([source, target_input], training=True)
            table = tf.cast(embedding.embeddings, states.dtype)
            logits = tf.reshape(tf.matmul(states, table, transpose_b=True), (-1, VOCABULARY))
            weights = tf.ones(SENTENCES * LENGTH)
            loss = cross_entropy(logits, tf.reshape(target_output, (-1,)), weights, SMOOTHING) / (SENTENCES * LENGTH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return update


def ours(policy):
    """Our model and our update."""
    model = Transformer(VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS, LAYERS, dropout=DROPOUT, norm="post", dtype=policy)
    model.build((None, None), (None, None))
    optimizer = keras.optimizers.Adam(1e-3, beta_2=0.98)
    optimizer.build(model.trainable_variables)
    update = Update(model, optimizer, tf.distribute.get_strategy(), label_smoothing=SMOOTHING)
    return lambda *batch: update(*batch).loss


def main():
    """Times all four and prints tokens per second and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=10, help="timed updates of each (default: 10)")
    options = parser.parse_args()
    keep_freed_memory()
    generator = np.random.default_rng(0)
    batch = [tf.constant(generator.integers(4, VOCABULARY, (SENTENCES, LENGTH)), tf.int32) for _ in range(3)]
    contestants = {
        "qkv float32": ours("float32"),
        "plain Keras float32": plain_keras("float32"),
        "qkv mixed_bfloat16": ours("mixed_bfloat16"),
        "plain Keras mixed_bfloat16": plain_keras("mixed_bfloat16"),
    }
    seconds = {name: [] for name in contestants}
    for turn in range(options.updates + 2):
        for name, update in contestants.items():
            start = time.perf_counter()
            float(update(*batch))
            if turn >= 2:  # the first ones trace and warm up
                seconds[name].append(time.perf_counter() - start)
    speed = {name: SENTENCES * LENGTH / statistics.median(times) for name, times in seconds.items()}
    for name, tokens in speed.items():
        print(f"{name:28s} {tokens:8,.0f} target tokens/s")
    best = max(tokens for name, tokens in speed.items() if name.startswith("plain"))
    print(f"qkv's best is {max(speed['qkv float32'], speed['qkv mixed_bfloat16']) / best:.2f} times plain Keras' best")


if __name__ == "__main__":
    main()
