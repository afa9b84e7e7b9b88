"""Attention layers that return their context alone, where one tensor goes from layer to layer."""

import keras
import numpy as np
import pytest

from qkv.attention import AdditiveAttention, CrossAttention, MultiHeadAttention, SelfAttention
from qkv.layers.tap import tapped
from tests.support.layer_contract import stir
from tests.support.minutes import by_hand

B, T, S = 2, 3, 5
X, MEMORY = (np.random.default_rng(i).normal(size=(B, n, 8)).astype("float32") for i, n in enumerate((T, S)))
IDS = np.array([[7, 2, 5, 0, 0], [1, 3, 9, 1, 4], [6, 8, 0, 0, 0]])
LAYERS = {
    "self": (lambda **arguments: SelfAttention(2, 4, **arguments), {"x": X}),
    "self of bounded memory": (lambda **arguments: SelfAttention(2, 4, mechanism="blockwise", **arguments), {"x": X}),
    "cross": (lambda **arguments: CrossAttention(2, 4, **arguments), {"x": X, "memory": MEMORY}),
    "multi-head": (
        lambda **arguments: MultiHeadAttention(2, 4, **arguments),
        {"query": X, "key": MEMORY, "value": MEMORY},
    ),
    "additive": (lambda **arguments: AdditiveAttention(4, **arguments), {"query": X, "key": MEMORY, "value": MEMORY}),
}
of_each = pytest.mark.parametrize(("make", "inputs"), LAYERS.values(), ids=LAYERS)


@of_each
def test_the_context_alone_is_the_context(make, inputs):
    both, alone = make(), make(return_weights=False)
    both(**inputs)
    alone(**inputs)
    alone.set_weights(stir(both).get_weights())
    context, weights = both(**inputs)
    seen = {}

    def hook(layer, part, value, **others):
        seen[layer, part] = value
        return value

    with tapped(hook):
        np.testing.assert_array_equal(alone(**inputs), context)
    np.testing.assert_array_equal(seen[alone, "weights"], weights)


@of_each
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_keras_knows_the_shape_dtype_and_mask_of_a_single_output(make, inputs, dtype):
    layer = make(return_weights=False, dtype=dtype)
    output = layer(**{name: keras.Input((None, x.shape[-1])) for name, x in inputs.items()})
    assert isinstance(output, keras.KerasTensor)
    width = layer(**inputs).shape[-1]
    assert (output.shape, output.dtype) == ((None, None, width), layer.compute_dtype)
    shapes = {f"{name}_shape": x.shape for name, x in inputs.items()}
    if isinstance(layer, SelfAttention):
        shapes = {"input_shape": X.shape}
    assert tuple(layer.compute_output_shape(**shapes)) == (B, T, width)
    mask = np.ones((B, T), bool)
    np.testing.assert_array_equal(layer(**inputs, mask=mask)._keras_mask, mask)


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("positions", "dtype"),
    [(None, "float32"), ("rotary", "mixed_bfloat16"), pytest.param("alibi", "mixed_bfloat16", marks=by_hand)],
)
def test_a_sequential_model_is_fitted_saved_and_loaded(positions, dtype, tmp_path):
    model = keras.Sequential(
        [
            keras.layers.Embedding(11, 8, mask_zero=True),
            SelfAttention(2, 4, return_weights=False, positions=positions, dtype=dtype),
            keras.layers.LayerNormalization(),
            SelfAttention(2, 4, return_weights=False, dtype=dtype),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2),
        ]
    )
    model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(IDS, np.array([0, 1, 0]), epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    lines = []
    model.summary(print_fn=lambda line, **_: lines.append(line))
    assert f"{model.layers[1].count_params():,}" in "\n".join(lines)

    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(IDS), model(IDS))
    longer = np.concatenate([IDS, np.zeros((3, 2), int)], 1)
    np.testing.assert_allclose(loaded(longer), model(IDS), atol=0.02 if "mixed" in dtype else 1e-6)  # of padding


def test_a_sequential_model_passes_the_mask_on_to_its_last_layer():
    model = keras.Sequential(
        [
            keras.layers.Embedding(11, 8, mask_zero=True),
            SelfAttention(2, 4, return_weights=False),
            keras.layers.GlobalAveragePooling1D(),
        ]
    )
    embedding, attention = model.layers[0], model.layers[1]
    context = np.array(attention(embedding(IDS)))
    real = (IDS != 0)[..., None]
    np.testing.assert_allclose(model(IDS), (context * real).sum(1) / real.sum(1), atol=1e-6)


@of_each
def test_a_config_of_an_earlier_version_makes_the_same_layer_as_ever(make, inputs):
    config = {name: x for name, x in make().get_config().items() if name not in ("positions", "return_weights")}
    assert len(type(make()).from_config(config)(**inputs)) == 2
    layer = make(return_weights=False)
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()
    assert layer.get_config()["return_weights"] is False


class ContextAlone(SelfAttention):
    """A layer of a user with another default."""

    def __init__(self, *arguments, return_weights=False, **kwargs):
        super().__init__(*arguments, return_weights=return_weights, **kwargs)


def test_a_subclass_with_another_default_gets_back_what_was_given():
    for given, outputs in (({}, False), ({"return_weights": True}, True)):
        layer = ContextAlone(2, 4, **given)
        assert ContextAlone.from_config(layer.get_config()).spec.return_weights == outputs


def test_the_argument_of_keras_own_layers_is_refused_with_what_to_do_instead():
    with pytest.raises(TypeError, match=r"no argument return_attention_scores; .* return_weights"):
        SelfAttention(2, 4)(X, return_attention_scores=True)
