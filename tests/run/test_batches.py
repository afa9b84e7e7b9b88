"""The batches for `fit` of Keras: the very batches of `train.py`, whose losses `fit` then has."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.metrics import TokenAccuracy
from qkv.metrics.of_tokens import TokenCrossEntropy
from qkv.model.build import build_model
from qkv.run import train
from qkv.run.batches import batches
from qkv.text.batch_plan import batches_by_length
from qkv.training.build import build_batches
from qkv.training.schedule import WarmupSchedule
from tests.support.tiny_runs import small_config, write_small_corpus

CHANGES = {
    "training.max_updates": 20,
    "training.validate_every_updates": 20,
    "training.label_smoothing": 0.1,
    "training.learning_rate": 0.01,
    "training.precision": "float32",
    "training.early_stopping.metric": "loss",
    "training.average_checkpoints": 1,
    "model.dropout": 0.0,
    "model.decoder_layers": 1,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    return small_config(write_small_corpus(folder / "corpus"), folder / "runs", "trained", CHANGES)


@pytest.fixture(scope="module")
def made(config):
    return batches(config)


def a_pass(dataset):
    """All batches of a pass, as Keras reads them."""
    dataset.on_epoch_begin()
    found = [dataset[index] for index in range(len(dataset))]
    dataset.on_epoch_end()
    return found


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ((source, target_input), target_output), batch in zip(found, expected, strict=True):
        np.testing.assert_equal((source, target_input, target_output), tuple(batch.ids))


def test_each_pass_reads_the_batches_of_an_epoch_of_training(config, made):
    expected = build_batches(config, made.text, tf.distribute.get_strategy(), config.batches.batch_tokens)
    dataset = batches(config)
    assert_same(a_pass(dataset), list(expected.epoch(0)))
    dataset.on_epoch_begin()
    dataset[0]
    dataset.on_epoch_end()  # as when Keras reads one batch to build a model
    second = a_pass(dataset)
    assert_same(second, list(expected.epoch(1)))
    assert any(not np.array_equal(x[1], y.target_output) for x, y in zip(second, expected.epoch(0), strict=True))


def test_the_validation_text_has_the_same_batches_in_every_pass(config):
    dataset = batches(config, "validation")
    pairs = dataset.text.validation_pairs
    rows = batches_by_length(*(side.lengths + 1 for side in pairs.sides))
    first, second = a_pass(dataset), a_pass(dataset)
    assert sum(len(x[1]) for x in first) == len(pairs.source) == sum(map(len, rows))
    np.testing.assert_equal(first, second)


def test_keras_sees_that_lengths_are_free(made):
    assert made._complete is None
    (first, output), (second, other) = made[0], made[1]
    for x, y in zip((*first, output), (*second, other), strict=True):
        assert x.shape[1] != y.shape[1]


def test_a_split_that_is_not_there_is_refused(config):
    with pytest.raises(InputError, match="split: expected train or validation, found 'test'"):
        batches(config, "test")


class Losses(keras.callbacks.Callback):
    """The loss of each update."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.compiled:  # by `fit`, which otherwise reports means
            self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        self.found.append(logs["loss"])


@pytest.mark.minutes
def test_twenty_updates_of_fit_have_the_losses_of_training(config):
    trained, fitted = Losses(), Losses()
    assert train(config, callbacks=[trained]) == 0
    dataset = batches(config.run.directory / "trained")
    model = build_model(config.model, dataset.text.tokenizer.vocabulary_size)
    settings = config.training
    rate = WarmupSchedule(settings.schedule, settings.learning_rate, settings.warmup_updates)
    betas = {"beta_1": settings.beta_1, "beta_2": settings.beta_2, "epsilon": settings.epsilon}
    adam = keras.optimizers.Adam(rate, **betas, global_clipnorm=settings.clip_norm)
    model.compile(adam, TokenCrossEntropy(settings.label_smoothing), metrics=[TokenAccuracy()])
    model.fit(dataset, epochs=-(-20 // len(dataset)), shuffle=False, callbacks=[fitted], verbose=0)
    assert len(trained.found) == 20
    np.testing.assert_allclose(fitted.found[:20], trained.found, atol=1e-4)


@pytest.mark.parametrize("config", [5, None, {"model": 3}])
def test_batches_are_of_a_config_or_a_path(config):
    with pytest.raises(
        InputError, match=r"^config: expected a config, the path of one, or the folder of a run, found "
    ):
        batches(config)
