"""Scores, mechanisms and schedules in a person's own file train, resume and are evaluated like those of the package."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from pydantic import Field

import evaluate
import train
from qkv.attention.mechanisms.softmax import Mechanism, PairwiseMechanism
from qkv.attention.scores import SCORE_CLASSES
from qkv.config import choices
from qkv.config.model import DecoderOnlySettings, TransformerSettings
from qkv.config.run import RunConfig, dump, make_run_config
from qkv.config.schema import walk
from qkv.config.yaml import dump_yaml
from qkv.errors import InputError
from qkv.inspection import AttentionArchive
from qkv.model.build import build_model
from qkv.model.decoder_only import CausalBlock, DecoderOnly
from qkv.model.recurrent import LuongDecoder, Recurrent
from qkv.model.transformer import Transformer
from qkv.plugins import register_architecture, register_mechanism, register_schedule, register_score
from qkv.training.schedule import WarmupSchedule
from tests.support.plugins import registrations_undone
from tests.support.tiny_runs import small_settings, write_small_corpus

pytestmark = pytest.mark.slow

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
    with registrations_undone():
        yield


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


def model_section(**values):
    """The section `model` of a config with these values."""
    data = {"source_language": "en", "target_language": "fr"}
    files = {name: {"source": "a.en", "target": "a.fr"} for name in ("train", "validation")}
    config = {"data": data | files, "training": {"max_updates": 2}, "model": values}
    return make_run_config(config, {}, "run")


SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 8}


def test_an_architecture_has_the_settings_of_its_base_class_and_its_own():
    class Settings(TransformerSettings):
        gate: float = Field(default=0.5, ge=0, le=1)
        """Open the gate this far."""

    @register_architecture("gated", settings=Settings, meaning="with a gate")
    class Gated(Transformer):
        def __init__(self, *args, gate, **kwargs):
            super().__init__(*args, **kwargs)
            self.gate = gate

    config = model_section(architecture="gated", gate=0.25, encoder_layers=1, decoder_layers=2, **SMALL)
    assert dump(config).count("gate: 0.25") == 1
    model = build_model(make_run_config(yaml.safe_load(dump(config)), {}, "run").model, 17)
    assert type(model) is Gated and model.gate == 0.25 and len(model.decoder_blocks) == 2 and model.name == "gated"
    assert "model.gate" in dict(walk(RunConfig))
    with pytest.raises(InputError, match=r"model\.gate: expected a number >= 0 and <= 1, found 2"):
        model_section(architecture="gated", gate=2)
    with pytest.raises(InputError, match=r"model\.gate: belongs to another architecture than transformer"):
        model_section(gate=0.25)

    @register_architecture("twice_gated")
    class TwiceGated(Gated):
        pass

    assert build_model(model_section(architecture="twice_gated", encoder_layers=1, **SMALL).model, 17).gate == 0.5


def test_an_architecture_of_the_other_base_classes_replaces_its_parts():
    class Block(CausalBlock):
        pass

    class Decoder(LuongDecoder):
        pass

    @register_architecture("other_stack")
    class OtherStack(DecoderOnly):
        def make_block(self, index, *args, **kwargs):
            return Block(*args, **kwargs) if index else super().make_block(index, *args, **kwargs)

    @register_architecture("other_decoder")
    class OtherDecoder(Recurrent):
        def make_decoder(self, decoder, *args, **kwargs):
            return Decoder(*args, **kwargs)

    stack = build_model(model_section(architecture="other_stack", layers=2, **SMALL).model, 17)
    assert [type(block) for block in stack.blocks] == [CausalBlock, Block]
    sizes = {"embedding_dim": 8, "hidden_dim": 6, "attention_dim": 5}
    assert type(build_model(model_section(architecture="other_decoder", **sizes).model, 17).decoder) is Decoder
    frozen = {"architecture": "other_stack", **SMALL}
    with pytest.raises(InputError, match="other_stack has no cross_attention"):
        config = yaml.safe_load(dump(model_section(**frozen)))
        make_run_config(config | {"training": config["training"] | {"freeze": ["cross_attention"]}}, {}, "run")


def test_plugins_that_read_one_pair_in_a_row_rule_out_packed_batches_by_name():
    @register_mechanism("of_its_own")
    class OfItsOwn(Mechanism):
        pass

    @register_mechanism("pairwise")
    class Pairwise(PairwiseMechanism):
        pass

    @register_architecture("own_blocks")
    class OwnBlocks(Transformer):
        def make_encoder_block(self, index, *args, **kwargs):
            return super().make_encoder_block(index, *args, **kwargs)

    @register_architecture("own_encoder")
    class OwnEncoder(Transformer):
        def encode(self, source_ids, training=None):
            return super().encode(source_ids, training=training)

    @register_architecture("across_positions")
    class AcrossPositions(DecoderOnly):
        takes_segments = False

    def obstacle(**settings):
        return model_section(**settings, **SMALL).model.packing_obstacle

    assert obstacle() is obstacle(architecture="own_blocks") is None
    assert obstacle(attention={"cross": {"mechanism": "pairwise"}}) is None
    assert obstacle(attention={"cross": {"mechanism": "of_its_own"}}) == "model.attention.cross.mechanism of_its_own"
    assert obstacle(architecture="own_encoder") == "model.architecture own_encoder"
    assert obstacle(architecture="across_positions") == "model.architecture across_positions"
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 8, "vocabulary_size": 17}
    assert OwnBlocks(**sizes).takes_segments
    assert not OwnEncoder(**sizes).takes_segments and not AcrossPositions(**sizes).takes_segments


@pytest.mark.parametrize(
    ("base", "arguments", "told"),
    [
        (object, {}, "Wrong: expected a subclass of Transformer, DecoderOnly or Recurrent"),
        (Transformer, {"settings": DecoderOnlySettings}, "expected a subclass of TransformerSettings, found Decoder"),
    ],
)
def test_a_class_that_is_no_architecture_is_refused(base, arguments, told):
    with pytest.raises(ValueError, match=told):
        register_architecture("wrong", **arguments)(type("Wrong", (base,), {}))
    assert "wrong" not in choices.model.ARCHITECTURES


def test_a_setting_that_no_constructor_takes_is_refused():
    class Settings(TransformerSettings):
        gate: float = 0.5
        """Open the gate this far."""

    with pytest.raises(ValueError, match="Wrong: expected the setting gate as an argument of the constructor"):
        register_architecture("wrong", settings=Settings)(type("Wrong", (Transformer,), {}))
    with pytest.raises(ValueError, match="expected a name that is not taken"):
        register_architecture("transformer")


def test_an_unknown_architecture_is_refused_and_its_plugin_is_asked_for():
    told = (
        "model.architecture: expected one of transformer, recurrent, decoder_only, found 'gated'; the name of a plugin"
    )
    with pytest.raises(InputError, match=re.escape(f"{told} needs --plugins FILE, or its import in Python")):
        model_section(architecture="gated", gate=0.25)
