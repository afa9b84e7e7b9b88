"""Scores, mechanisms and schedules in a person's own file train, resume and are evaluated like those of the package."""

import json

import numpy as np
import pandas as pd
import pytest

import evaluate
import train
from qkv.attention.mechanisms import MECHANISM_CLASSES
from qkv.attention.scores import SCORE_CLASSES
from qkv.config import choices
from qkv.config.yaml import dump_yaml
from qkv.inspection import AttentionArchive
from qkv.inspection.measures import MEASURES
from qkv.metrics import METRIC_FUNCTIONS
from qkv.plugins import register_schedule, register_score
from qkv.training.schedule import SCHEDULE_FUNCTIONS, WarmupSchedule
from tests.support.tiny_runs import small_settings, write_small_corpus

PLUGIN = """
from keras import ops

from qkv.attention.mechanisms import Softmax
from qkv.attention.scores import Score
from qkv.plugins import (
    register_measure,
    register_mechanism,
    register_metric,
    register_schedule,
    register_score,
)


@register_score("negative_distance", meaning="-|q - k|^2")
class NegativeDistance(Score):
    def call(self, query, key):
        difference = ops.expand_dims(query, 3) - ops.expand_dims(key, 2)
        return -ops.sum(ops.square(difference), -1)


@register_mechanism("halved", meaning="the softmax of half the scores")
class Halved(Softmax):
    def call(self, query, key, value, mask=None, training=None):
        return super().call(query / 2, key, value, mask=mask, training=training)


@register_schedule("reciprocal", meaning="falls with the update")
def reciprocal(update, warmup, total):
    return warmup / update


@register_metric("length_ratio", title="length", lower_is_better=True)
def length_ratio(inputs):
    return abs(1 - sum(map(len, inputs.translations)) / sum(map(len, inputs.references)))


@register_measure("first_key", note="first", in_tensorboard=True)
def first_key(site):
    return site.weights[..., 0].mean(-1)
"""


@pytest.fixture(autouse=True)
def tables_as_they_were():
    """Whatever a test registers goes with it."""
    listed = [
        choices.model.SCORE_INFO,
        choices.model.MECHANISM_INFO,
        choices.training.SCHEDULE_INFO,
        choices.translation.METRIC_INFO,
    ]
    tables = [*listed, SCORE_CLASSES, MECHANISM_CLASSES, SCHEDULE_FUNCTIONS, METRIC_FUNCTIONS, MEASURES]
    before = [dict(table) for table in tables]
    yield
    for table, rows in zip(tables, before, strict=True):
        table.clear()
        table.update(rows)


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / f"plugin_of_{tmp_path.name}.py"
    path.write_text(PLUGIN, encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path):
    changes = {
        "training.schedule": "reciprocal",
        "training.early_stopping.metric": "length_ratio",
        "model.attention.cross": {"score": "negative_distance"},
        "model.attention.encoder_self": {"mechanism": "halved"},
        "training.max_updates": 2,
        "training.validate_every_updates": 2,
        "decoding.beam_size": 1,
    }
    path = tmp_path / "own.yaml"
    path.write_text(dump_yaml(small_settings(write_small_corpus(tmp_path / "text"), tmp_path, changes)))
    return path


@pytest.mark.minutes
def test_a_run_with_a_plugin_trains_resumes_and_is_evaluated(plugin, config, tmp_path, capsys):
    run = str(tmp_path / "own")
    assert train.main(["--config", str(config), "--plugins", str(plugin)]) == 0
    assert train.main([f"--plugins={plugin}", "--resume", run, "--training.max_updates", "3"]) == 0
    assert evaluate.main([run, "--plugins", str(plugin)]) == 0
    metrics = json.loads((tmp_path / "own/evaluations/test/metrics.json").read_text())
    archive = AttentionArchive(tmp_path / "own/evaluations/test/attention")
    assert len(archive) == metrics["sentences"] > 0
    for record in archive:
        np.testing.assert_allclose(record.attention["cross"].sum(-1), 1, atol=1e-5)
    heads = pd.read_csv(tmp_path / "own/evaluations/test/heads.csv")
    assert heads["first_key"].between(0, 1).all()
    history = pd.read_csv(tmp_path / "own/history.csv")
    assert history["val_length_ratio"].notna().all()
    assert json.loads((tmp_path / "own/manifest.json").read_text())["validation"].keys() == {"length_ratio"}


def test_a_run_with_a_plugin_is_refused_without_it_and_its_name_is_told(config, capsys):
    assert train.main(["--config", str(config)]) == 2
    told = capsys.readouterr().err
    assert "model.attention.cross.score: expected one of scaled_dot," in told
    assert "found 'negative_distance'; the name of a plugin needs --plugins FILE" in told
    assert "training.schedule: expected one of" in told
    assert "Traceback" not in told


def test_a_registered_schedule_is_followed_after_warm_up():
    register_schedule("reciprocal")(lambda update, warmup, total: warmup / update)
    schedule = WarmupSchedule("reciprocal", peak=2.0, warmup_updates=4)
    assert [float(schedule(update)) for update in (0, 3, 7, 15)] == [0.5, 2.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("name", "told"), [("dot", r"expected a name that is not taken .*, found 'dot'"), ("my score", "found 'my score'")]
)
def test_a_name_that_is_taken_or_cannot_be_written_is_refused(name, told):
    with pytest.raises(ValueError, match=told):
        register_score(name)


def test_the_facts_of_a_registered_score_are_those_of_its_class():
    register_score("mine")(SCORE_CLASSES["dot"])
    assert choices.model.SCORE_INFO["mine"].by_angle
    assert choices.model.SCORE_INFO["mine"].is_product
    register_score("other")(SCORE_CLASSES["concat"])
    assert not choices.model.SCORE_INFO["other"].by_angle
