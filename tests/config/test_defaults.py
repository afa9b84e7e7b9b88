"""A setting that is left out of a config and an argument that is left out of a constructor mean the same."""

import inspect

import pytest

from qkv.attention import CrossAttention, MultiHeadAttention, SelfAttention
from qkv.attention.mechanisms import MECHANISM_CLASSES, Linformer
from qkv.config import choices
from qkv.config.attention import EncoderSelfAttentionSettings
from qkv.config.model import RecurrentSettings, TransformerSettings
from qkv.model.build import MODELS
from qkv.model.embedding import PositionalEmbedding
from qkv.model.recurrent import LuongDecoder
from qkv.model.transformer import BlockSpec, FeedForward, Residual

# What the sites of attention say is compared field by field below.
OF_MODELS = [
    (settings, model, {name: name for name in settings.model_fields if name not in ("architecture", "attention")})
    for settings, model in MODELS.items()
]
COMPARED = ("mechanism", "score", "projection", "value_dim", "key_value_heads")
OF_ATTENTION = [
    (EncoderSelfAttentionSettings, layer, {name: name for name in COMPARED})
    for layer in (MultiHeadAttention, SelfAttention, CrossAttention)
]
OF_MECHANISMS = [
    (EncoderSelfAttentionSettings, MECHANISM_CLASSES[name], {key: key for key in row.settings})
    for name, row in choices.model.MECHANISM_INFO.items()
    if row.settings
]
# A single layer drops nothing unless it is told to, as in Keras: dropout is compared for models alone.
OF_PARTS = [
    (TransformerSettings, Linformer, {"max_positions": "max_length"}),
    (TransformerSettings, BlockSpec, {"norm": "norm", "activation": "activation"}),
    (TransformerSettings, Residual, {"norm": "norm"}),
    (TransformerSettings, FeedForward, {"activation": "activation"}),
    (
        TransformerSettings,
        PositionalEmbedding,
        {"positions": "kind", "positions_on": "site", "max_positions": "max_positions"},
    ),
    (RecurrentSettings, LuongDecoder, {"input_feeding": "input_feeding"}),
]
ROWS = [*OF_MODELS, *OF_ATTENTION, *OF_MECHANISMS, *OF_PARTS]


@pytest.mark.parametrize(
    ("settings", "layer", "key", "argument"),
    [
        pytest.param(settings, layer, key, argument, id=f"{settings.__name__}.{key}-{layer.__name__}")
        for settings, layer, keys in ROWS
        for key, argument in keys.items()
    ],
)
def test_the_default_of_the_config_is_that_of_the_constructor(settings, layer, key, argument):
    assert inspect.signature(layer).parameters[argument].default == settings.model_fields[key].default


@pytest.mark.parametrize("layer", [MultiHeadAttention, SelfAttention, CrossAttention])
def test_values_are_projected_unless_something_else_is_said(layer):
    assert layer(2, 4).spec.value_projection == EncoderSelfAttentionSettings.model_fields["value_projection"].default


def test_every_setting_of_attention_is_compared():
    compared = {key for settings, _, keys in ROWS if settings is EncoderSelfAttentionSettings for key in keys}
    assert set(EncoderSelfAttentionSettings.model_fields) == compared | {
        "value_projection",  # above
        "key_dim",  # null is d_model / num_heads, and a layer has no d_model
    }
