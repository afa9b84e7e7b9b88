"""Models as their settings describe them."""

import numpy as np
import pytest

from qkv.config.attention import EncoderSelfAttentionSettings
from qkv.config.choices.model import MECHANISM_INFO
from qkv.config.model import DecoderOnlySettings, RecurrentSettings, TransformerSettings
from qkv.model.build import MODELS, build_model
from tests.support.tiny_models import SOURCE, TARGET

SIZES = {"max_positions": 12, "dropout": 0.0}
BLOCKS = SIZES | {"d_model": 8, "num_heads": 2, "d_ff": 12}
SETTINGS = [
    TransformerSettings(**BLOCKS, encoder_layers=1, decoder_layers=2),
    DecoderOnlySettings(**BLOCKS, layers=1),
    RecurrentSettings(**SIZES, embedding_dim=8, hidden_dim=6, attention_dim=5),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.architecture)
def test_a_model_is_of_its_architecture_built_and_has_its_sizes(settings):
    model = build_model(settings, vocabulary_size=17)
    assert type(model) is MODELS[type(settings)] and model.built and model.name == settings.architecture
    assert model.get_config()["max_positions"] == 12
    assert np.array(model(SOURCE, TARGET)).shape == (*TARGET.shape, 17)


@pytest.mark.parametrize("mechanism", sorted(MECHANISM_INFO))
def test_an_attention_layer_has_the_mechanism_of_its_site(mechanism):
    site = EncoderSelfAttentionSettings(mechanism=mechanism, projected_length=3)
    attention = {"encoder_self": site}
    model = build_model(TransformerSettings(**BLOCKS, encoder_layers=1, decoder_layers=1, attention=attention), 17)
    layer = model.encoder_blocks[0].self_attention
    assert type(layer.mechanism).__name__.lower() == mechanism.replace("_", "")
    assert layer.spec.projection == MECHANISM_INFO[mechanism].compares
    assert type(model.decoder_blocks[0].cross_attention.mechanism).__name__ == "Softmax"
    if mechanism == "linformer":  # a row of its mixing for each position that there can be
        assert {12} <= {size for weight in layer.mechanism.weights for size in weight.shape}
