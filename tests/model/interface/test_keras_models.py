"""The architectures as models of Keras: called with a pair or a dict, summarised, fitted, and used to predict."""

import keras
import numpy as np
import pytest

from tests.support.layer_contract import stir
from tests.support.tiny_models import MODELS, SOURCE, TARGET, shared_model

NAMES = ("transformer", "recurrent", "decoder-only")
by_name = pytest.mark.parametrize("name", NAMES)


def fresh(name):
    architecture, settings = MODELS[name]
    return architecture(**settings)


def shared(name):
    architecture, settings = MODELS[name]
    return shared_model(architecture, **settings)


@by_name
def test_a_pair_and_a_dict_are_read_as_two_arguments(name):
    model = shared(name)
    expected = model(SOURCE, TARGET)
    for inputs in ((SOURCE, TARGET), [SOURCE, TARGET], {"target_ids": TARGET, "source_ids": SOURCE}):
        np.testing.assert_array_equal(model(inputs), expected)
        np.testing.assert_allclose(model.predict(inputs, verbose=0), expected, atol=1e-5)


@by_name
def test_a_model_is_built_without_shapes_and_summarised(name):
    model = fresh(name)
    model.build()
    lines = []
    model.summary(print_fn=lambda line, **_: lines.append(line))
    assert f"Total params: {model.count_params():,}" in "\n".join(lines)
    own = shared(name).weights
    assert [(w.path.split("/", 1)[1], w.shape) for w in model.weights] == [
        (w.path.split("/", 1)[1], w.shape) for w in own
    ]


@by_name
def test_fit_of_keras_lowers_the_loss(name):
    model = stir(fresh_and_built(name))
    model.compile(
        keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    )
    outputs = np.roll(TARGET, -1, axis=1)
    history = model.fit((SOURCE, TARGET), outputs, epochs=5, batch_size=3, verbose=0).history["loss"]
    assert history[-1] < history[0]


def fresh_and_built(name):
    model = fresh(name)
    model.build()
    return model


def test_symbolic_ids_make_a_functional_model():
    model = shared("transformer")
    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    functional = keras.Model([source, target], model(source, target))
    np.testing.assert_allclose(functional([SOURCE, TARGET]), model(SOURCE, TARGET), atol=1e-5)
