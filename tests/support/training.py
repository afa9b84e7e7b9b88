"""Batches of four sentence pairs of made-up ids, training without text and a model, and copies of runs on the way."""

import shutil
from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf

from qkv.text.batch import Batch, pad
from qkv.text.tokens.special_tokens import BOS, EOS
from qkv.training.checkpoints import Checkpoints
from qkv.training.loop import Training
from qkv.training.loss import TotalLoss
from qkv.training.step import TrainStep, TrainStepMetrics
from qkv.training.stopping import Limits, StoppingRules
from qkv.training.worker_checks import SingleProcess, WorkerVotes
from tests.support.tiny_models import make_transformer

SOURCES = [[4, 5, 6, EOS], [7, EOS], [8, 9, EOS], [5, 4, 8, 7, 6, EOS]]
TARGETS = [[9, 8], [7, 7, 6, 5], [4], [6, 6, 9]]


def batch_of(rows):
    """The batch of the pairs with these numbers, all padded to the same lengths."""
    return Batch(
        pad([SOURCES[row] for row in rows], 6),
        pad([[BOS, *TARGETS[row]] for row in rows], 5),
        pad([[*TARGETS[row], EOS] for row in rows], 5),
    )


def make_step(dropout=0.0, r_drop=0.0, **settings):
    """A model and its step. Not by Adam: what it makes of a gradient that is zero but for rounding, as that of keys'
    biases, is chance."""
    keras.utils.set_random_seed(3)
    model = make_transformer(dropout=dropout)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    loss = TotalLoss(model, label_smoothing=0.1, r_drop=r_drop)
    return model, TrainStep(loss, optimizer, tf.distribute.get_strategy(), **settings)


def assert_equal_weights(one, other, atol=1e-6):
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


BATCHES = 3  # of an epoch


class FakeBatches:
    """Epochs of three batches of one sentence, whose ids say where they stand."""

    strategy = tf.distribute.get_strategy()

    accumulated = 1

    def plan(self, epoch):
        return SimpleNamespace(count=BATCHES)

    def epoch(self, epoch, first_batch=0):
        return (Batch(*np.full((3, 1, 1), (epoch * BATCHES) + batch)) for batch in range(first_batch, BATCHES))


ONE_VOTE = WorkerVotes(FakeBatches.strategy, SingleProcess())


class FakeStep:
    """The step of a `FakeRun`."""

    strategy, loss_scale, takes_several = FakeBatches.strategy, None, True

    def __init__(self, run):
        self.model, self.optimizer, self.run = run.model, run.optimizer, run

    def __call__(self, batch):
        return self.run._update(batch)

    def make_several(self, batches):
        self.run.calls.append(len(batches))
        return TrainStepMetrics(*map(np.array, zip(*map(self, batches), strict=True)))


class FakeRun:
    """A model of one number, which counts updates; `metrics` are what validations find, the last again and again."""

    def __init__(self, metrics=(1.0,), metric="loss", folder=None, patience=None, validate_every=2, log_every=1):
        self.model = keras.Sequential(
            [keras.Input((1,)), keras.layers.Dense(1, use_bias=False, name="number")], name="count"
        )
        self.model.trainable_variables[0].assign([[0.0]])
        self.optimizer = keras.optimizers.Adam(0.5)
        self.optimizer.build(self.model.trainable_variables)
        self.metrics = list(metrics)
        self.metric = metric
        self.seen = []
        self.calls = []
        self.checkpoints = Checkpoints(folder, keep=9) if folder else None
        self.patience = patience
        self.settings = {"validate_every_updates": validate_every, "log_every_updates": log_every}

    def training(self, **limits):
        return Training(
            FakeStep(self),
            FakeBatches(),
            self._validate,
            self.checkpoints,
            StoppingRules(Limits(**limits), self.metric, self.patience, votes=ONE_VOTE),
            SingleProcess(),
            **self.settings,
        )

    def _update(self, batch):
        self.seen.append(divmod(int(batch.source[0, 0]), BATCHES))
        self.model.trainable_variables[0].assign_add([[1.0]])
        return TrainStepMetrics(np.float32(6), np.float32(3), np.float32(1))

    def _validate(self):
        value = self.metrics.pop(0) if len(self.metrics) > 1 else self.metrics[0]
        return {"val_loss": 1.0, f"val_{self.metric}": value}


class Copy(keras.callbacks.Callback):
    """Copies the folder of a run before some of its updates, which is what a killed process leaves."""

    def __init__(self, run, places):
        super().__init__()
        self.run, self.places = run, places

    def on_train_batch_begin(self, batch, logs=None):
        if batch in self.places:
            shutil.copytree(self.run, self.places[batch])
