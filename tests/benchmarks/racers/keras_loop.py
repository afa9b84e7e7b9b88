"""What the racers on Keras share: `fit` beside a clock, and greedy search.

Their models take `[source, target]`, both ids that are padded with 0, and return logits for each target position.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tests.benchmarks.racers.batches import token_batches
from tests.benchmarks.racers.clock import Clock

Pairs = Sequence[tuple[list[int], list[int]]]
LENGTH_MULTIPLE = 8  # lengths are rounded up to multiples of it in search, so that few graphs are traced


class Timekeeper(keras.callbacks.Callback):
    """Looks at the clock after each update, and sets the learning rate before it.

    Args:
        clock: the racer's.
        batch_tokens: target tokens of a batch on average.
        rate: the learning rate as a function of the update, from 1, and of the share of the time that is gone; None to
            leave it to the optimizer.
    """

    def __init__(self, clock: Clock, batch_tokens: float, rate: Callable[[int, float], float] | None) -> None:
        super().__init__()
        self.clock = clock
        self.batch_tokens = batch_tokens
        self.rate = rate

    def on_train_batch_begin(self, batch, logs=None):
        if self.rate:
            self.model.optimizer.learning_rate = self.rate(self.clock.updates + 1, self.clock.share())

    def on_train_batch_end(self, batch, logs=None):
        if not self.clock.after_update(self.batch_tokens, self._save):
            self.model.stop_training = True

    def _save(self, path: Path) -> None:
        self.model.save_weights(weights_file(path))


def weights_file(checkpoint: Path) -> Path:
    """Returns the file of a checkpoint's weights."""
    return checkpoint.with_name(f"{checkpoint.name}.weights.h5")


def pad(rows: Sequence[Sequence[int]], length: int | None = None) -> np.ndarray:
    """Returns rows of ids as a matrix."""
    matrix = np.zeros((len(rows), length or max(map(len, rows))), "int32")
    for row, ids in zip(matrix, rows, strict=True):
        row[: len(ids)] = ids[: len(row)]
    return matrix


def fit(
    model: keras.Model, pairs: Pairs, clock: Clock, batch_tokens: int, rate: Callable[[int, float], float] | None = None
) -> int:
    """Trains a compiled model by `fit` until the time is over.

    Args:
        model: the model.
        pairs: source ids, and target ids with the tokens of start and end.
        clock: the racer's.
        batch_tokens: of the longer side of a batch, padding included.
        rate: the learning rate, see `Timekeeper`.

    Returns:
        The number of parameters.
    """

    def batches():
        for batch in token_batches(pairs, batch_tokens, seed=1):
            target = pad([pairs[i][1] for i in batch])
            yield (pad([pairs[i][0] for i in batch]), target[:, :-1]), target[:, 1:]

    ids = tf.TensorSpec((None, None), tf.int32)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=((ids, ids), ids)).prefetch(4)
    tokens = np.mean([np.count_nonzero(target) for _, target in dataset.take(300).as_numpy_iterator()])
    model.fit(dataset, steps_per_epoch=1_000_000, callbacks=[Timekeeper(clock, float(tokens), rate)], verbose=0)
    return model.count_params()


def greedy(
    model: keras.Model, rows: Sequence[Sequence[int]], start: int, end: int, banned: Sequence[int] = ()
) -> list[list[int]]:
    """Returns the most likely tokens one after another, until `end` or half as many again as the source has, and ten.

    Args:
        model: the model.
        rows: source ids.
        start: the token that targets begin with.
        end: the token that ends them.
        banned: tokens that are never chosen.
    """
    penalty = np.zeros(model.output_shape[-1], "float32")
    penalty[[0, start, *banned]] = -np.inf

    @tf.function(reduce_retracing=True)
    def step(source, target, position):
        logits = tf.cast(model([source, target], training=False)[:, position], "float32")
        return tf.argmax(logits + penalty, axis=-1, output_type=tf.int32)

    found: list[list[int]] = [[] for _ in rows]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for first in range(0, len(order), 64):
        batch = order[first : first + 64]
        longest = -(-max(len(rows[i]) for i in batch) // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
        source, target = pad([rows[i] for i in batch], longest), np.zeros((len(batch), longest * 3 // 2 + 10), "int32")
        target[:, 0] = start
        open_rows = np.ones(len(batch), bool)
        for position in range(target.shape[1] - 1):
            seen = target[:, : position // LENGTH_MULTIPLE * LENGTH_MULTIPLE + LENGTH_MULTIPLE]
            chosen = step(*map(tf.constant, (source, seen, position)))  # a number itself would trace a graph each
            chosen = np.where(open_rows, chosen.numpy(), 0)
            target[:, position + 1] = chosen
            open_rows &= chosen != end
            if not open_rows.any():
                break
        for i, ids in zip(batch, target[:, 1:].tolist(), strict=True):
            found[i] = [one for one in ids if one not in (0, end)]
    return found
