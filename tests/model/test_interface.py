"""The interface of all models: rows for each hypothesis, shapes of outputs, and types of arguments."""

import inspect
from typing import get_args

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.config.choices import model as choices
from qkv.layers import constructor_config, keras_layers, low_rank
from qkv.model import decoder_only, embedding, interface, recurrent, transformer
from qkv.model.interface import rows_for_each
from tests.support.tiny_models import SOURCE, TARGET, model_of


def test_rows_are_repeated_also_when_there_are_none():
    def repeat(x):
        return rows_for_each((x, tf.constant(7)), 3 * tf.shape(x)[0])

    graph = tf.function(repeat, input_signature=[tf.TensorSpec([None, 2])])
    rows, number = graph([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(rows, [[1, 2]] * 3 + [[3, 4]] * 3)
    assert number == 7
    assert graph(np.zeros((0, 2), "float32"))[0].shape == (0, 2)  # a slice of a batch with fewer rows than slices
    assert rows_for_each(np.zeros((0, 2), "float32"), 0).shape == (0, 2)


@pytest.mark.parametrize("name", ["transformer", "recurrent", "decoder-only"])
def test_the_shape_of_the_output_follows_from_the_shapes_of_the_inputs(name):
    model = model_of(name)
    source, target = (3, 7), (3, None)
    for shapes in ((source, target), ((source, target),), ({"source_ids": source, "target_ids": target},)):
        assert model.compute_output_shape(*shapes) == (3, None, 17)
    assert model.compute_output_shape(SOURCE.shape, TARGET.shape) == tuple(model(SOURCE, TARGET).shape)
    symbols = keras.KerasTensor(source, "int32"), keras.KerasTensor(target, "int32")
    for inputs in (symbols, (symbols,), ({"source_ids": symbols[0], "target_ids": symbols[1]},)):
        spec = model.compute_output_spec(*inputs)
        assert (spec.shape, spec.dtype) == ((3, None, 17), "float32")


CLASSES = {
    cls.__name__: cls
    for module in (
        constructor_config,
        keras_layers,
        low_rank,
        decoder_only,
        embedding,
        interface,
        recurrent,
        transformer,
    )
    for cls in vars(module).values()
    if inspect.isclass(cls) and cls.__module__ == module.__name__
}


@pytest.mark.parametrize("name", CLASSES)
def test_constructors_and_public_methods_have_types(name):
    """An editor shows them, and a user's type checker finds a wrong argument."""
    for method_name, method in vars(CLASSES[name]).items():
        is_public = method_name == "__init__" or not method_name.startswith("_")
        if is_public and inspect.isfunction(method) and not hasattr(method, "__wrapped__"):  # those have Keras' types
            signature = inspect.signature(method)
            untyped = [x.name for x in list(signature.parameters.values())[1:] if x.annotation is x.empty]
            assert not untyped and signature.return_annotation is not signature.empty, method_name


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (choices.Norm, choices.NORMS),
        (choices.Positions, choices.POSITIONS),
        (choices.RelativePositions, choices.RELATIVE_POSITIONS),
        (choices.PositionPlace, choices.POSITION_PLACES),
        (choices.TiedEmbeddings, choices.TIED_EMBEDDINGS),
        (choices.RecurrentDecoderName, choices.RECURRENT_DECODERS),
    ],
)
def test_the_types_of_names_have_the_names_of_their_tables(names, table):
    assert get_args(names) == tuple(table)
