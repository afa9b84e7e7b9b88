"""Every layer and model can be subclassed as Keras' own can: the config of a subclass has all its arguments, in
whatever way they are given, and a saved subclass computes the same when it is loaded."""

import copy
import inspect
import json
import pickle

import keras
import numpy as np
import pytest

from qkv.attention import AdditiveAttention, CrossAttention, MultiHeadAttention, SelfAttention
from qkv.attention.mechanisms import LSH, MECHANISM_CLASSES, Blockwise, Linformer
from qkv.attention.scores import SCORE_CLASSES, Concat, Cosine
from qkv.layers.constructor_config import ConstructorConfig
from qkv.model.decoder_only import CausalBlock, DecoderOnly
from qkv.model.embedding import PositionalEmbedding, TokenEmbedding
from qkv.model.recurrent import BahdanauDecoder, LuongDecoder, Recurrent
from qkv.model.transformer import DecoderBlock, EncoderBlock, FeedForward, Residual, Transformer
from tests.support.layer_contract import B, LayerCase, S, T, save_and_reload
from tests.support.tiny_models import DECODER_ONLY, RECURRENT, SIZES, SOURCE, TARGET

HEADS = {"query": (B, 2, T, 4), "key": (B, 2, S, 4)}
SPEC = {"d_model": 8, "num_heads": 2, "d_ff": 6}
ATTENTION = {"num_heads": 2, "key_dim": 4, "value_dim": 3, "score": "cosine", "seed": 3}
IDS = {"source_ids": (B, S), "target_ids": (B, T)}
CASES = {
    **{score: ({"seed": 3}, HEADS) for score in SCORE_CLASSES.values()},
    Cosine: ({"initial_scale": 3.0}, HEADS),
    Concat: ({"units": 3, "seed": 3}, HEADS),
    **{each: ({"score": "dot", "seed": 3}, HEADS | {"value": (B, 2, S, 3)}) for each in MECHANISM_CLASSES.values()},
    Blockwise: ({"block_size": 2, "score": "additive"}, HEADS | {"value": (B, 2, S, 3)}),
    Linformer: ({"projected_length": 3, "max_length": 8, "score": "dot"}, HEADS | {"value": (B, 2, S, 3)}),
    LSH: (
        {"buckets": 2, "chunk_length": 3, "seed": 3, "score": "cosine"},
        dict.fromkeys(("query", "key", "value"), (B, 2, S, 4)),
    ),
    MultiHeadAttention: (ATTENTION, {"query": (B, T, 8), "key": (B, S, 6), "value": (B, S, 7)}),
    SelfAttention: (ATTENTION, {"x": (B, S, 8)}),
    CrossAttention: (ATTENTION, {"x": (B, T, 8), "memory": (B, S, 6)}),
    AdditiveAttention: ({"units": 3, "use_bias": True}, {"query": (B, T, 8), "key": (B, S, 6), "value": (B, S, 7)}),
    TokenEmbedding: ({"vocabulary_size": 11, "width": 4, "scale": False}, {"ids": (B, T)}),
    PositionalEmbedding: ({"kind": "learned", "max_positions": 9}, {"x": (B, T, 8)}),
    EncoderBlock: ({"spec": SPEC, "self_attention": {"score": "cosine"}}, {"x": (B, S, 8)}),
    CausalBlock: ({"spec": SPEC, "self_attention": {"score": "cosine"}}, {"x": (B, S, 8)}),
    DecoderBlock: ({"spec": SPEC, "cross_attention": {"score": "cosine"}}, {"x": (B, T, 8), "memory": (B, S, 8)}),
    FeedForward: ({"width": 8, "hidden_dim": 6, "activation": "gelu"}, {"x": (B, T, 8)}),
    Residual: ({"norm": "post"}, {"x": (B, T, 8), "y": (B, T, 8)}),
    BahdanauDecoder: ({"embedding_dim": 4, "hidden_dim": 6}, {}),  # called with functions, which no file holds
    LuongDecoder: ({"embedding_dim": 4, "hidden_dim": 6, "input_feeding": True}, {}),
    Transformer: (SIZES | {"d_model": 12, "norm": "post"}, IDS),
    DecoderOnly: (DECODER_ONLY | {"positions": "rotary"}, IDS),
    Recurrent: (RECURRENT | {"decoder": "luong"}, IDS),
}
"""Arguments, not all of them defaults, and shapes of inputs."""
GATED = {"gate": 0.25}


def keywords(base, arguments):
    class Subclass(base):
        def __init__(self, gate=0.5, **kwargs):
            super().__init__(**kwargs)
            self.gate, self.passed = gate, kwargs

    return Subclass(**arguments, **GATED)


def keyword_only(base, arguments):
    class Subclass(base):
        def __init__(self, *, gate, **kwargs):
            super().__init__(**kwargs)
            self.gate, self.passed = gate, kwargs

    return Subclass(**arguments, **GATED)


def first_by_position(base, arguments):
    name = next(iter(inspect.signature(base).parameters))

    class Subclass(base):
        def __init__(self, first, gate=0.5, **kwargs):
            super().__init__(first, **kwargs)
            self.gate, self.passed = gate, {name: first} | kwargs

    first = arguments.get(name, inspect.signature(base).parameters[name].default)
    return Subclass(first, 0.25, **{key: x for key, x in arguments.items() if key != name})


def all_by_position(base, arguments):
    parameters = inspect.signature(base).parameters
    names = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD]

    class Subclass(base):
        def __init__(self, *args, gate=0.5, **kwargs):
            super().__init__(*args, **kwargs)
            self.gate, self.passed = gate, dict(zip(names, args, strict=False)) | kwargs

    values = [arguments.get(name, parameters[name].default) for name in names]
    return Subclass(*values, **{key: x for key, x in arguments.items() if key not in names}, **GATED)


def chosen(base, arguments):
    class Subclass(base):
        def __init__(self, gate=0.5):
            super().__init__(**arguments)
            self.gate, self.passed = gate, arguments

    return Subclass(**GATED)


def chosen_in_part(base, arguments):
    (name, x), *others = arguments.items()

    class Subclass(base):
        def __init__(self, gate=0.5, **kwargs):
            super().__init__(**{name: x}, **kwargs)
            self.gate, self.passed = gate, {name: x} | kwargs

    return Subclass(**dict(others), **GATED)


def second_level(base, arguments):
    class Subclass(type(keywords(base, arguments))):
        def __init__(self, steps, **kwargs):
            super().__init__(gate=steps / 4, **kwargs)

    return Subclass(1, **arguments)


def second_level_by_position(base, arguments):
    class Subclass(type(all_by_position(base, arguments))):
        def __init__(self, steps, *args, **kwargs):
            super().__init__(*args, gate=steps / 4, **kwargs)

    first = next(iter(inspect.signature(base).parameters))
    values = [arguments[first]] if first in arguments else []
    return Subclass(1, *values, **{key: x for key, x in arguments.items() if key != first})


def without_constructor(base, arguments):
    class Subclass(type(keywords(base, arguments))):
        pass

    return Subclass(**arguments, **GATED)


def beside_another_class(base, arguments):
    class Gated:
        def __init__(self, gate=0.5, **kwargs):
            super().__init__(**kwargs)
            self.gate, self.passed = gate, kwargs

    class Subclass(Gated, base):
        pass

    return Subclass(**arguments, **GATED)


def as_in_the_guide(base, arguments):
    class Subclass(type(keywords(base, arguments))):
        def get_config(self):
            return {**super().get_config(), "gate": self.gate}

    return Subclass(**arguments, **GATED)


def updating(base, arguments):
    class Subclass(type(keyword_only(base, arguments))):
        def get_config(self):
            config = super().get_config()
            config.update({"gate": self.gate})
            return config

    return Subclass(**arguments, **GATED)


KINDS = (
    keywords,
    keyword_only,
    first_by_position,
    all_by_position,
    chosen,
    chosen_in_part,
    second_level,
    second_level_by_position,
    without_constructor,
    beside_another_class,
    as_in_the_guide,
    updating,
)
OF_KERAS = {"name", "trainable", "dtype"}


@pytest.mark.parametrize("base", CASES)
def test_a_subclass_gets_its_arguments_back(base):
    for kind in KINDS:
        subclass = kind(base, CASES[base][0])
        config = json.loads(json.dumps(keras.saving.serialize_keras_object(subclass)))["config"]
        again = type(subclass).from_config(config)
        assert again.get_config() == subclass.get_config(), kind
        assert again.gate == subclass.gate == 0.25, kind
        assert {name: x for name, x in again.passed.items() if name not in OF_KERAS} == subclass.passed, kind


SAVED = [
    base
    for base, (_, inputs) in CASES.items()
    if inputs and base not in {*SCORE_CLASSES.values(), *MECHANISM_CLASSES.values()}
]


@pytest.mark.parametrize("base", [pytest.param(x, marks=[pytest.mark.minutes] * (x is Recurrent)) for x in SAVED])
def test_a_saved_subclass_computes_the_same_when_it_is_loaded(base):
    arguments, inputs = CASES[base]
    vocabulary = arguments.get("vocabulary_size", 0)
    case = LayerCase(lambda: as_in_the_guide(base, arguments), inputs, vocabulary=vocabulary)
    with keras.saving.custom_object_scope({"Subclass": type(case.shared)}):
        save_and_reload(case)


def test_arguments_by_position_after_named_ones_get_their_own_names():
    class Subclass(FeedForward):
        def __init__(self, width, *args, **kwargs):
            super().__init__(width, *args, **kwargs)

    class Second(Subclass):
        def __init__(self, first, width, *args, second=2, **kwargs):
            super().__init__(width, *args, **kwargs)

    config = Second(1, 8, 6, "gelu", second=3, dropout=0.25).get_config()
    named = {"first": 1, "width": 8, "hidden_dim": 6, "activation": "gelu", "second": 3, "dropout": 0.25}
    assert {name: x for name, x in config.items() if name not in OF_KERAS} == named


def test_a_base_class_that_takes_no_entries_of_keras_gets_none():
    class Chosen(FeedForward):
        def __init__(self, *, gate=0.5):
            super().__init__(8, 6)

    class Subclass(Chosen):
        def __init__(self, steps, **kwargs):
            super().__init__(**kwargs)

    config = Subclass(3, gate=0.25).get_config()
    assert config == {"steps": 3, "gate": 0.25}
    assert Subclass.from_config(config).get_config() == config


@keras.saving.register_keras_serializable(package="tests")
class GatedCosine(Cosine):
    def __init__(self, gate, **kwargs):
        super().__init__(**kwargs)
        self.gate = gate


@keras.saving.register_keras_serializable(package="tests")
class GatedTransformer(Transformer):
    def __init__(self, vocabulary_size, gate=0.5, encoder_layers=1, **kwargs):
        super().__init__(vocabulary_size, encoder_layers=encoder_layers, decoder_layers=1, **kwargs)
        self.gate = gate


def test_a_score_given_as_a_layer_keeps_the_arguments_of_its_subclass():
    layer = SelfAttention(
        2, 4, score=GatedCosine(0.25, initial_scale=3.0), mechanism=LSH(score=GatedCosine(0.25, initial_scale=3.0))
    )
    again = SelfAttention.from_config(json.loads(json.dumps(layer.get_config())))
    assert [(x.score.gate, x.score.initial_scale) for x in (layer, again)] == [(0.25, 3.0)] * 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), keras.models.clone_model])
def test_copies_of_a_subclass_have_its_arguments(copied):
    model = GatedTransformer(
        17, 0.25, d_model=8, num_heads=4, d_ff=6, max_positions=9, trainable=False, dtype="float64"
    )
    again = copied(model)
    assert again.get_config() == model.get_config()
    assert (again.gate, again.encoder_blocks[0].self_attention.num_heads) == (0.25, 4)
    assert (again.trainable, again.dtype_policy.name) == (False, "float64")


def test_a_model_that_is_not_built_yet_is_saved_without_weights(tmp_path):
    model = Transformer(**SIZES)
    with pytest.warns(UserWarning, match="not yet been built"):
        model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").get_config() == model.get_config()


def test_later_changes_of_an_argument_are_not_in_the_config():
    arguments = {"mechanism": {"class_name": "lsh", "config": {"buckets": 2}}}
    block = EncoderBlock(SPEC, arguments)
    arguments["mechanism"]["config"]["buckets"] = 8
    assert block.get_config()["self_attention"] == {"mechanism": {"class_name": "lsh", "config": {"buckets": 2}}}


def test_every_layer_and_model_that_files_name_is_tried():
    from keras.src.saving.object_registration import GLOBAL_CUSTOM_OBJECTS

    registered = {x for name, x in GLOBAL_CUSTOM_OBJECTS.items() if name.startswith("qkv>")}
    layers = {x for x in registered if issubclass(x, keras.Layer)}
    assert {x.__name__ for x in layers - CASES.keys()} == {"Dense", "Dropout", "LayerNormalization"}  # Keras' configs
    assert CASES.keys() <= {layer for layer in layers if issubclass(layer, ConstructorConfig)}


@keras.saving.register_keras_serializable(package="tests")
class ChangedDefaults(Transformer):
    """Other defaults, by all ways that Python has: by name, by keyword alone, and in `kwargs`."""

    def __init__(self, vocabulary_size, d_model=8, *args, norm="post", gate=0.5, **kwargs):
        kwargs.setdefault("positions", "learned")
        super().__init__(vocabulary_size, d_model, *args, norm=norm, **kwargs)
        self.gate = gate

    def get_config(self):
        config = super().get_config()
        config.update({"gate": self.gate})
        return config


@pytest.mark.parametrize(
    ("args", "arguments", "expected"),
    [
        ((17,), {}, {"d_model": 8, "norm": "post", "gate": 0.5}),
        ((17, 12, 3), {"gate": 0.25, "norm": "pre"}, {"d_model": 12, "num_heads": 3, "norm": "pre", "gate": 0.25}),
        ((17,), {"positions": "rotary", "d_ff": 6}, {"positions": "rotary", "d_ff": 6}),
    ],
)
def test_defaults_that_a_subclass_changes_are_the_same_after_loading(args, arguments, expected, tmp_path):
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    model = ChangedDefaults(*args, **sizes, **arguments)
    logits = model(SOURCE, TARGET)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    config = again.get_config()
    assert config == model.get_config() and {name: config[name] for name in expected} == expected
    assert again.source_positions.kind == model.source_positions.kind == arguments.get("positions", "learned")
    np.testing.assert_array_equal(again(SOURCE, TARGET), logits)


@keras.saving.register_keras_serializable(package="tests")
class Wrapped(keras.layers.Layer):
    """A layer of Keras around one of this package, with `from_config` as in Keras' guide on saving."""

    def __init__(self, block, **kwargs):
        super().__init__(**kwargs)
        self.block = block

    def build(self, x_shape):
        self.block.build(x_shape)

    def call(self, x):
        return self.block(x)[0]

    def get_config(self):
        return {**super().get_config(), "block": keras.saving.serialize_keras_object(self.block)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config.pop("block")), **config)


@keras.saving.register_keras_serializable(package="tests")
class ScaledBlock(EncoderBlock):
    def __init__(self, *args, scale=2.0, **kwargs):
        self.scale = scale  # read by `make_residual`, which the base constructor calls
        super().__init__(*args, **kwargs)

    def make_residual(self, **kwargs):
        return ScaledResidual(self.scale, self.spec.norm, **kwargs)


@keras.saving.register_keras_serializable(package="tests")
class ScaledResidual(Residual):
    def __init__(self, scale, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scale = scale

    def leave(self, x, y, training=None):
        return super().leave(x, self.scale * y, training=training)


def test_a_block_within_a_layer_of_keras_is_the_same_after_loading(tmp_path):
    inputs = keras.Input((None, 8))
    block = ScaledBlock(SPEC, {"score": "cosine"}, scale=3.0)
    model = keras.Model(inputs, Wrapped(block)(inputs))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    loaded = again.layers[-1].block
    assert loaded.get_config() == block.get_config() and loaded.feed_forward_residual.scale == 3.0
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    np.testing.assert_array_equal(again(x), model(x))
    plain = EncoderBlock(SPEC, {"score": "cosine"})
    plain.build((None, None, 8))
    plain.set_weights(block.get_weights())
    assert np.abs(plain(x)[0] - model(x)).max() > 0.1
