"""The weights of a finished run: those of the best checkpoint, or the mean of several if that is better."""

import logging

import keras
import numpy as np
import pytest

from qkv.training.checkpoints import Checkpoints, keep_best_weights, load_mean
from qkv.training.progress import Progress
from tests.support.layer_contract import assert_close, stir
from tests.support.tiny_models import make_transformer

ROW = {"update": 1, "val_bleu": 30.0, "val_loss": 30.0}


def weights_of(model):
    return [np.array(variable) for variable in model.trainable_variables]


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """Three checkpoints, of which the first is the best, with their weights."""
    model = make_transformer()
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(tmp_path_factory.mktemp("checkpoints"), keep=3)
    weights = []
    for update in (1, 2, 3):
        stir(model, seed=update)
        weights.append(weights_of(model))
        progress = Progress(update=update, best_metric=30.0, best_update=1, history=[ROW])
        checkpoints.save(model, optimizer, progress, best=update == 1)
    return model, checkpoints, progress, weights


def test_the_mean_of_checkpoints_is_the_mean_of_every_weight(training):
    model, checkpoints, _, weights = training
    load_mean(checkpoints.recent(), model)
    for found, *singles in zip(weights_of(model), *weights, strict=True):
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, np.mean(singles, axis=0, dtype="float64"), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("metric", "value", "kept"),
    [("bleu", 31.0, "mean"), ("bleu", 30.0, "best"), ("loss", 29.0, "mean"), ("loss", 31.0, "best")],
)
def test_the_mean_is_kept_where_it_is_better_on_validation(training, metric, value, kept, caplog):
    model, checkpoints, progress, weights = training
    judged = []

    def validate():
        judged.append(weights_of(model))
        return {"val_loss": 30.0, f"val_{metric}": value}

    with caplog.at_level(logging.INFO):
        said = keep_best_weights(model, checkpoints, progress, validate, metric=metric, average_checkpoints=2)
    mean = [np.mean(last_two, axis=0) for last_two in zip(weights[1], weights[2], strict=True)]
    assert_close(judged[0], mean, 1e-6)
    assert_close(weights_of(model), mean if kept == "mean" else weights[0], 1e-6)
    of_mean, of_best = ("the mean of the last 2 checkpoints", value), ("update 1", 30.0)
    assert said == (of_mean if kept == "mean" else of_best)
    assert f"{value:.2f} for the mean of the last 2 checkpoints, 30.00 for the best single one" in caplog.text


def test_a_mean_of_equal_bleu_is_kept_where_its_loss_is_lower(training):
    model, checkpoints, progress, _ = training
    for loss, kept in ((29.0, "the mean of the last 2 checkpoints"), (31.0, "update 1")):
        said = keep_best_weights(
            model,
            checkpoints,
            progress,
            lambda loss=loss: {"val_bleu": 30.0, "val_loss": loss},
            metric="bleu",
            average_checkpoints=2,
        )
        assert said[0] == kept


def test_without_averaging_the_best_checkpoint_is_loaded_and_not_validated_again(training):
    model, checkpoints, progress, weights = training
    kept = keep_best_weights(model, checkpoints, progress, None, metric="bleu", average_checkpoints=1)
    assert kept == ("update 1", 30.0)
    np.testing.assert_equal(weights_of(model), weights[0])
