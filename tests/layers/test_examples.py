"""Every layer has an example in its docstring, all examples run as they are printed, and wrong sizes are refused."""

import doctest
import importlib
import inspect
import pkgutil

import keras
import pytest

import qkv.attention
import qkv.layers
import qkv.model
from qkv.attention.multi_head import AttentionLayer, AttentionSpec
from qkv.model.ensemble import Ensemble
from qkv.model.interface import NamedLogits
from qkv.model.transformer import BlockSpec

MODULES = [
    importlib.import_module(module.name)
    for package in (qkv.layers, qkv.attention, qkv.model)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
LAYERS = [
    pytest.param(value, id=f"{module.__name__}.{name}")
    for module in MODULES
    for name, value in vars(module).items()
    if inspect.isclass(value) and issubclass(value, keras.Layer) and value.__module__ == module.__name__
    if value not in (Ensemble, NamedLogits)  # made of other models
]


SIZES = dict.fromkeys(["num_heads", "units", "layers", "encoder_layers", "decoder_layers"], 2)
SIZES |= dict.fromkeys(["key_dim", "value_dim", "width", "hidden_dim", "embedding_dim", "d_model", "d_ff"], 4)
SIZES |= dict.fromkeys(["output_dim", "attention_dim", "vocabulary_size", "max_positions", "max_length"], 8)
SIZES |= dict.fromkeys(["key_value_heads", "projected_length", "buckets", "chunk_length", "rounds", "block_size"], 2)
SIZED = [AttentionSpec, BlockSpec, *(layer.values[0] for layer in LAYERS if layer.values[0] is not AttentionLayer)]
WRONG_SIZES = [
    pytest.param(sized, name, id=f"{sized.__name__}-{name}")
    for sized in SIZED
    for name in sorted(SIZES.keys() & inspect.signature(sized).parameters.keys())
]


def can_be_saved(layer):
    """What is no base of others is registered with Keras."""
    return keras.saving.get_registered_name(layer).startswith("qkv>")


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_has_an_example_unless_it_is_there_for_others_to_inherit(layer):
    if can_be_saved(layer):
        assert "\n    Example:\n        >>> " in layer.__doc__
    else:
        assert any(can_be_saved(other) for other in subclasses(layer))


def subclasses(layer):
    return [each for other in layer.__subclasses__() for each in (other, *subclasses(other))]


@pytest.mark.parametrize("module", [module for module in MODULES if ">>>" in inspect.getsource(module)])
def test_examples_print_what_stands_below_them(module):
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_the_walk_finds_layers_of_all_three_packages():
    assert {layer.values[0].__module__.split(".")[1] for layer in LAYERS} == {"layers", "attention", "model"}
    assert len(LAYERS) > 30


@pytest.mark.parametrize(("layer", "name"), WRONG_SIZES)
def test_every_layer_refuses_sizes_that_no_array_can_have(layer, name):
    others = {key: SIZES[key] for key in SIZES.keys() & inspect.signature(layer).parameters.keys()}
    layer(**others)
    for wrong in (0, -1, 2.5):
        with pytest.raises(ValueError, match=rf"{name}.*expected a (whole number|positive integer).*{wrong}"):
            layer(**others | {name: wrong})


def test_sizes_are_all_arguments_whose_defaults_are_whole_numbers():
    defaults = {
        name
        for layer in LAYERS
        for name, argument in inspect.signature(layer.values[0]).parameters.items()
        if type(argument.default) is int
    }
    assert defaults <= SIZES.keys() | {"axis"}
