"""What every architecture promises at the interface that decoding, inspection and training use."""

import inspect
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.layers.tap import tapped
from qkv.model.build import MODELS as ARCHITECTURES
from qkv.model.decoder_only import DecoderOnly
from qkv.model.recurrent import Recurrent
from qkv.model.transformer import Transformer
from tests.support.searches import full_pass
from tests.support.tiny_models import DECODER_ONLY, MODELS, SIZES, SOURCE, TARGET, every_site, make_model, model_of

B, S, T = 3, 7, 5
REAL = {0: (6, 5), 1: (3, 2), 2: (7, 4)}  # real tokens of SOURCE and TARGET

every_architecture = pytest.mark.parametrize("model", MODELS, indirect=True)
OTHERS = [
    "transformer of other sizes",
    "rotary transformer with shared keys and a sink",
    "recurrent of one context vector",
    "luong",
    "decoder-only post",
    "decoder-only with ALiBi and a sink",
]
"""Those that have every part and every setting among them."""
other_architectures = pytest.mark.parametrize("model", OTHERS, indirect=True)


@pytest.fixture
def model(request):
    return model_of(request.param)


def read(model, source=SOURCE, target=TARGET, training=False):
    """Logits, and the weights of each layer of the decoder and the encoder, as arrays."""
    memory = model.encode(source, training=training)
    output = model.decode(target, memory, training=training)
    return np.array(output.logits), list(map(np.array, (*output.cross, *output.decoder_self, *memory.self_attention)))


def real_rows(logits):
    return np.concatenate([logits[i, :length] for i, (_, length) in REAL.items()])


@every_architecture
def test_shapes_and_dtypes_are_those_of_the_interface(model):
    memory = model.encode(SOURCE)
    output = model.decode(TARGET, memory)
    assert output.logits.shape == (B, T, 17)
    assert output.logits.dtype == tf.float32
    assert output.states.shape[:2] == (B, T)
    np.testing.assert_array_equal(memory.mask, (SOURCE != 0)[:, None, None])
    for weights, columns in [(output.cross, S), (output.decoder_self, T), (memory.self_attention, S)]:
        for layer in weights:
            assert layer.dtype == tf.float32
            assert layer.shape[0] == B
            assert layer.shape[3] == columns
    table = model.output_embedding.table
    np.testing.assert_allclose(output.states @ tf.transpose(table), output.logits, atol=1e-5)


@every_architecture
def test_a_summary_lists_every_layer_and_counts_all_weights(model):
    lines = []
    model.summary(print_fn=lines.append, line_length=120)
    assert all(f" {layer.name} " in lines[0] for layer in model.layers)
    assert f"Total params: {model.count_params():,} " in lines[0]


@every_architecture
def test_every_cached_step_or_several_at_once_equal_the_rows_of_the_full_pass(model):
    memory = model.encode(SOURCE)
    full, cache = model.decode(TARGET, memory), model.start_cache(memory)
    assert full.cache is None
    for t in range(T):
        output = model.decode(TARGET[:, t : t + 1], memory, cache)
        cache = output.cache
        np.testing.assert_allclose(output.logits[:, 0], full.logits[:, t], atol=1e-5)
        for found, expected in zip(output.cross, full.cross, strict=True):
            np.testing.assert_allclose(found[:, :, 0], expected[:, :, t], atol=1e-5)
        for found, expected in zip(output.decoder_self, full.decoder_self, strict=True):
            np.testing.assert_allclose(found[:, :, 0], expected[:, :, t, : t + 1], atol=1e-5)
    prefix = model.decode(TARGET[:, :3], memory, model.start_cache(memory))
    np.testing.assert_allclose(prefix.logits, full.logits[:, :3], atol=1e-5)
    after = model.decode(TARGET[:, 3:4], memory, prefix.cache)
    np.testing.assert_allclose(after.logits[:, 0], full.logits[:, 3], atol=1e-5)


@every_architecture
def test_the_future_is_unseen(model):
    for training, first in (False, 1), (True, 3):
        memory, other = model.encode(SOURCE, training=training), TARGET.copy()
        other[:, first:] = (other[:, first:] + 5) % 13 + 4
        before, after = (model.decode(ids, memory, training=training).logits.numpy() for ids in (TARGET, other))
        np.testing.assert_allclose(after[:, :first], before[:, :first], atol=1e-6)
        assert np.abs(after[:, first] - before[:, first]).max() > 1e-4


@every_architecture
def test_padding_changes_nothing(model):
    logits, attention = read(model)
    wider = np.pad(SOURCE, ((0, 0), (0, 3))), np.pad(TARGET, ((0, 0), (0, 2)))
    more_logits, more_attention = read(model, *wider)
    np.testing.assert_allclose(real_rows(more_logits), real_rows(logits), atol=2e-5)
    for more, one in zip(more_attention, attention, strict=True):
        rows, columns = ({S: 0, T: 1}[length] for length in one.shape[-2:])
        for i, lengths in REAL.items():
            at = (i, slice(None), slice(0, lengths[rows]), slice(0, lengths[columns]))
            np.testing.assert_allclose(more[at], one[at], atol=2e-5)


@every_architecture
def test_a_sentence_alone_gives_the_same_results_as_in_any_batch_and_order(model):
    logits = read(model)[0]
    np.testing.assert_allclose(read(model, SOURCE[::-1], TARGET[::-1])[0], logits[::-1], atol=1e-5)
    source, target = REAL[1]
    alone = read(model, SOURCE[1:2, :source], TARGET[1:2, :target])[0]
    np.testing.assert_allclose(alone[0], logits[1, :target], atol=2e-5)


@every_architecture
def test_the_source_matters_and_its_padding_gets_no_weight(model):
    memory = model.encode(SOURCE)
    output = model.decode(TARGET, memory)
    other = np.where(SOURCE == 0, 0, (SOURCE + 4) % 13 + 4)
    assert np.abs(read(model, other)[0] - output.logits).max() > 1e-3
    for layer in output.cross:
        assert not np.any(np.moveaxis(np.array(layer), 3, 1)[SOURCE == 0])
    # The rows of one causal stack are spent on source and target at once.
    shared = output.decoder_self if isinstance(model, DecoderOnly) else [np.zeros(1)] * len(output.cross)
    sinks = model.sinks(memory, output).get("cross", [0.0] * len(output.cross))
    for layer, elsewhere, sink in zip(output.cross, shared, sinks, strict=True):
        np.testing.assert_allclose(np.sum(layer, -1) + np.sum(elsewhere, -1) + sink, 1, atol=1e-5)


@other_architectures
def test_a_saved_model_comes_back_with_its_config_and_its_weights_in_their_order(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.get_config() == model.get_config()
    np.testing.assert_equal(again.get_weights(), model.get_weights())
    np.testing.assert_array_equal(again(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_gets_a_gradient(name):
    """A weight without a gradient has been forgotten on the way, or should not be there."""
    architecture, settings = MODELS[name]
    model = make_model(architecture, **settings | {"dropout": 0.1})
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(SOURCE, TARGET, training=True) ** 2)
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    silent = [
        variable.path
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
        if gradient is None or not np.any(tf.convert_to_tensor(gradient))
    ]
    assert silent == []


@pytest.mark.minutes
@pytest.mark.parametrize("model", ["rotary transformer with shared keys and a sink", "recurrent"], indirect=True)
def test_no_sentences_give_gradients_of_zero(model):
    """A slice of a batch with fewer sentences than slices has none."""
    ids = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=(ids, ids), autograph=False)
    def gradients(source, target):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(source, target, training=True))
        found = tape.gradient(loss, model.trainable_variables)
        return [tf.convert_to_tensor(gradient) for gradient in found if gradient is not None]

    found = gradients(SOURCE[:0], TARGET[:0])
    assert found and not any(np.any(gradient) for gradient in found)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "mixed_bfloat16") for name in OTHERS]
    + [("rotary transformer with shared keys and a sink", "bfloat16"), ("luong", "bfloat16")],
)
def test_half_precision_keeps_logits_and_attention_in_float32(name, dtype):
    exact, (architecture, settings) = model_of(name), MODELS[name]
    model = make_model(architecture, **settings, dtype=dtype)
    model.set_weights(exact.get_weights())
    assert {variable.dtype for variable in model.trainable_variables} == {dtype.replace("mixed_bfloat16", "float32")}
    memory = model.encode(SOURCE)
    output = model.decode(TARGET, memory)
    assert memory.states.dtype == output.states.dtype == tf.bfloat16
    assert {x.dtype for x in (output.logits, *output.cross, *output.decoder_self)} == {tf.float32}
    spread = np.abs(np.array(exact(SOURCE, TARGET))).max()
    np.testing.assert_allclose(output.logits, exact(SOURCE, TARGET), atol=0.1 * spread)


@other_architectures
def test_a_graph_of_unknown_lengths_gives_the_same_results_and_none_for_no_sentences(model):
    for source, target in (SOURCE, TARGET), (SOURCE[:2, :6], TARGET[:2, :4]):
        np.testing.assert_allclose(full_pass(model)(source, target), model(source, target), atol=1e-5)
    assert full_pass(model)(SOURCE[:0], TARGET[:0]).shape == (0, T, 17)


def names_of(model, side, read):
    """The names of the values that a side computes."""
    names, found = model.layer_names(side), []

    def keep(layer, part, value, **inputs):
        if layer in names:
            found.append(f"{names[layer]}.{part}".removeprefix("."))
        return value

    with tapped(keep):
        return read(), found


@every_architecture
def test_values_are_named_for_their_side(model):
    memory, encoder = names_of(model, "encoder", lambda: model.encode(SOURCE))
    _, decoder = names_of(model, "decoder", lambda: model.decode(TARGET, memory))
    assert encoder[0] == "encoder.embedding" and decoder[0] == "decoder.embedding"
    # The encoder also makes what the decoder is given.
    made = [name for name in encoder if not name.startswith("encoder.")]
    assert all(re.fullmatch(r"decoder\.(start|\d\.cross\.(keys|values))", name) for name in made)
    assert all(name.startswith("decoder.") or name == "logits" for name in decoder)
    assert "logits" in decoder
    attends = model.attention is not None if isinstance(model, Recurrent) else True
    assert any(".cross" in name for name in decoder) == attends
    assert not names_of(model, "encoder", lambda: None)[1]  # the block is over


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        (Transformer, SIZES | every_site(mechanism="sink")),
        (DecoderOnly, DECODER_ONLY | {"positions": "alibi", "decoder_self": {"mechanism": "sink"}}),
    ],
)
def test_models_of_one_layer_say_the_share_of_their_sinks(architecture, settings):
    model = make_model(architecture, **settings)
    memory = model.encode(SOURCE)
    shares = model.sinks(memory, model.decode(TARGET, memory))
    assert shares and all(len(layers) == 1 for layers in shares.values())


@pytest.mark.parametrize(("settings", "architecture"), ARCHITECTURES.items())
def test_arguments_that_are_not_given_are_those_of_an_empty_config(settings, architecture):
    arguments, fields = inspect.signature(architecture).parameters, settings.model_fields
    for name in fields.keys() & arguments.keys():
        assert arguments[name].default == fields[name].get_default(call_default_factory=True), name
