"""A model is described by the settings that build the same model again."""

import keras
import numpy as np
import pytest

from qkv.config.choices.model import MECHANISM_INFO, SCORE_INFO
from qkv.config.model import BlocksSettings, DecoderOnlySettings, RecurrentSettings, TransformerSettings
from qkv.layers.constructor_config import layers_within
from qkv.model.build import MODELS, build_model, describe_model
from qkv.model.transformer import Transformer
from tests.support.tiny_models import MODELS as TINY
from tests.support.tiny_models import SIZES, SOURCE, TARGET, model_of

SETTINGS = {model_class: settings for settings, model_class in MODELS.items()}


def build_described(model):
    settings = SETTINGS[type(model)].model_validate(describe_model(model))
    return build_model(settings, model.output_embedding.vocabulary_size), settings


UNDESCRIBED = "transformer of odd mechanisms"  # it projects queries that it never compares, and no config does


@pytest.mark.parametrize("name", sorted(set(TINY) - {UNDESCRIBED}))
def test_the_model_of_the_description_has_the_same_logits_with_the_same_weights(name):
    model = model_of(name)
    twin, _ = build_described(model)
    assert [variable.shape for variable in twin.weights] == [variable.shape for variable in model.weights]
    twin.set_weights(model.get_weights())
    np.testing.assert_array_equal(
        np.asarray(twin(SOURCE, TARGET, training=False)), np.asarray(model(SOURCE, TARGET, training=False))
    )


BLOCKS = {"max_positions": 12, "d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.25}


@pytest.mark.parametrize("mechanism", sorted(MECHANISM_INFO))
def test_a_built_model_is_described_by_its_settings(mechanism):
    score = "cosine" if mechanism == "lsh" else "scaled_dot"
    numbers = {"projected_length": 3, "buckets": 2, "chunk_length": 5, "rounds": 2, "block_size": 7}
    site = {"mechanism": mechanism, "score": score, "value_dim": 3}
    used = {name: numbers[name] for name in MECHANISM_INFO[mechanism].settings}
    attention = {"encoder_self": site | used, "cross": {"key_value_heads": 1}}
    settings = TransformerSettings(**BLOCKS, encoder_layers=1, decoder_layers=2, norm="post", attention=attention)
    _, described = build_described(build_model(settings, 17))
    assert described == settings


@pytest.mark.parametrize("score", sorted(SCORE_INFO))
def test_scores_and_sizes_of_all_architectures_are_described(score):
    for settings in (
        DecoderOnlySettings(**BLOCKS, layers=2, source_loss=0.5, attention={"decoder_self": {"score": score}}),
        RecurrentSettings(embedding_dim=5, hidden_dim=6, attention_dim=7, cross_attention=score, max_positions=9),
    ):
        _, described = build_described(build_model(settings, 17))
        assert described == settings
        if isinstance(settings, BlocksSettings):
            assert described.attention.decoder_self.score == score


def test_initializers_are_left_out_and_what_a_config_cannot_say_stays():
    cross = {"kernel_initializer": keras.initializers.HeNormal(), "dropout": 0.5, "use_bias": False}
    section = describe_model(Transformer(**SIZES | {"cross": cross}))
    assert section["attention"]["cross"] == {
        "mechanism": "softmax",
        "score": "scaled_dot",
        "value_projection": True,
        "use_bias": False,
    }
    with pytest.raises(ValueError, match="use_bias"):
        TransformerSettings.model_validate(section)


def test_a_subclass_is_described_as_its_architecture_and_other_models_are_refused():
    class Mine(Transformer):
        def __init__(self, vocabulary_size, scale=1.0, **kwargs):
            super().__init__(vocabulary_size, **kwargs)
            self.scale = scale

    section = describe_model(Mine(17, scale=2.0, d_model=8, num_heads=2))
    assert (section["architecture"], section["d_model"], "scale" in section) == ("transformer", 8, False)
    with pytest.raises(ValueError, match="expected a model of class Transformer, Recurrent, DecoderOnly, found Sequ"):
        describe_model(keras.Sequential())
    assert not list(layers_within(section))
