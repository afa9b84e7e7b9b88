"""The architectures as models of Keras: called with a pair or a dict, summarised, fitted, loaded, composed."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.losses import TokenCrossEntropy
from qkv.metrics.token_metrics import Perplexity, TokenAccuracy
from qkv.model.embedding import TokenEmbedding
from qkv.model.recurrent import Recurrent
from qkv.model.transformer import Transformer
from qkv.run.load_model import load_model
from qkv.training.schedule import WarmupSchedule
from tests.support.layer_contract import stir
from tests.support.packing import ROWS, alone, pack
from tests.support.processes import finish, start
from tests.support.tiny_models import MODELS, SOURCE, TARGET, make_transformer, model_of

pytestmark = pytest.mark.slow

NAMES = ("transformer", "recurrent", "decoder-only")
by_name = pytest.mark.parametrize("name", NAMES)


def fresh(name):
    architecture, settings = MODELS[name]
    return architecture(**settings)


@by_name
def test_a_pair_and_a_dict_are_read_as_two_arguments(name):
    model = model_of(name)
    expected = model(SOURCE, TARGET)
    for inputs in ((SOURCE, TARGET), [SOURCE, TARGET], {"target_ids": TARGET, "source_ids": SOURCE}):
        np.testing.assert_array_equal(model(inputs), expected)
    np.testing.assert_allclose(model.predict(inputs, verbose=0), expected, atol=1e-5)


@by_name
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_ids_may_have_any_type_of_numbers(name, policy):
    architecture, settings = MODELS[name]
    model = architecture(**settings | {"vocabulary_size": 600}, dtype=policy)
    source, target = SOURCE + 500 * (SOURCE > 0), TARGET + 500 * (TARGET > 0)  # too large for half precision
    expected = model(source, target)
    for dtype in ("float32", "uint16"):
        np.testing.assert_array_equal(model(source.astype(dtype), target.astype(dtype)), expected)
    states = model.encode(source.astype("float64")).states
    np.testing.assert_array_equal(states, model.encode(source).states)


@by_name
def test_weights_of_classes_and_quantization_are_refused(name):
    model = model_of(name)
    with pytest.raises(ValueError, match=r"class_weight: .* sample_weight"):
        model.fit((SOURCE, TARGET), TARGET, class_weight={1: 2.0})
    with pytest.raises(ValueError, match=r"class_weight: .* sample_weight"):
        model.train_on_batch((SOURCE, TARGET), TARGET, class_weight={1: 2.0})
    with pytest.raises(NotImplementedError, match=r"Keras cannot quantize .*qkv export"):
        model.quantize("int8")


@by_name
def test_a_side_longer_than_all_positions_is_refused_before_it_is_computed(name):
    model, long = model_of(name), np.full((2, 13), 5)  # of 12
    for ids, side in (((long, TARGET[:2]), "source"), ((SOURCE[:2], long), "target")):
        if name == "recurrent":  # has no positions
            assert model(*ids).shape[1] == ids[1].shape[1]
            continue
        with pytest.raises(ValueError, match=f"{side}_.*at most max_positions = 12 tokens, found 13"):
            model(*ids)
    relative = fresh(name) if name == "recurrent" else MODELS[name][0](**MODELS[name][1], positions="rotary")
    assert relative(long, long[:, 1:]).shape == (2, 12, 17)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_compiled_by_xla_unless_it_steps_through_the_target(name, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [SimpleNamespace(device_type="GPU")])
    model = fresh(name)
    model.compile()
    assert model.jit_compile == (not isinstance(model, Recurrent))


@by_name
def test_a_model_is_built_without_shapes_and_summarised(name):
    model = fresh(name)
    model.build()
    lines = []
    model.summary(print_fn=lambda line, **_: lines.append(line))
    assert f"Total params: {model.count_params():,}" in "\n".join(lines)
    own = model_of(name).weights
    assert [(w.path.split("/", 1)[1], w.shape) for w in model.weights] == [
        (w.path.split("/", 1)[1], w.shape) for w in own
    ]


@pytest.mark.minutes
@pytest.mark.parametrize("name", ["transformer", "recurrent"])
def test_a_fitted_model_is_evaluated_and_saved_and_evaluates_the_same_when_loaded(name, tmp_path):
    model = fresh(name)
    model.build()
    stir(model)
    rate = WarmupSchedule("constant", 0.02, warmup_updates=1)
    model.compile(keras.optimizers.Adam(rate), TokenCrossEntropy(0.1), metrics=[TokenAccuracy(), Perplexity()])
    outputs = np.roll(TARGET, -1, axis=1)
    history = model.fit((SOURCE, TARGET), outputs, epochs=5, batch_size=3, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.save(tmp_path / "model.keras")
    scores = [x.evaluate((SOURCE, TARGET), outputs, verbose=0) for x in (model, load_model(tmp_path / "model.keras"))]
    assert scores[0][0] < history[-1]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5)


@pytest.mark.minutes
@pytest.mark.parametrize("name", ["transformer", "recurrent"])
def test_padding_and_the_order_of_a_batch_change_nothing_that_fit_learns(name):
    outputs = np.where(TARGET == 0, 0, np.roll(TARGET, -1, axis=1))
    order, padding = [2, 0, 1], ((0, 0), (0, 3))
    learnt = []
    for arrange in (lambda ids: ids, lambda ids: np.pad(ids[order], padding)):
        keras.utils.set_random_seed(0)
        model = fresh(name)
        model.build()
        stir(model)
        metrics = [TokenAccuracy(), Perplexity()]
        model.compile(keras.optimizers.SGD(0.5), TokenCrossEntropy(0.1), metrics=metrics, run_eagerly=True)
        arrays = arrange(SOURCE), arrange(TARGET)
        history = model.fit(arrays, arrange(outputs), epochs=2, shuffle=False, verbose=0).history
        learnt.append([*model.get_weights(), *history.values()])
    for padded, plain in zip(*learnt, strict=True):
        np.testing.assert_allclose(padded, plain, rtol=1e-4, atol=1e-5)


REPLICATED = """
import keras, numpy as np, tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
from qkv.losses import TokenCrossEntropy
from qkv.metrics.token_metrics import Perplexity, TokenAccuracy
from tests.support.tiny_models import MODELS, SOURCE, TARGET

sources, targets = np.repeat(SOURCE, 2, 0), np.repeat(TARGET, 2, 0)  # as many tokens for each replica
outputs = np.roll(targets, -1, 1)

def fit(name):
    keras.utils.set_random_seed(0)
    architecture, settings = MODELS[name]
    model = architecture(**settings)
    model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy(0.1), metrics=[TokenAccuracy(), Perplexity()])
    weights = np.repeat([1.0, 2.0, 0.5], 2)
    history = model.fit((sources, targets), outputs, 2, 2, 0, shuffle=False, sample_weight=weights).history
    return list(history.values())

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for name in ("transformer", "recurrent"):
    with strategy.scope():
        replicated = fit(name)
    np.testing.assert_allclose(replicated, fit(name), rtol=1e-4, err_msg=name)
"""


@pytest.mark.minutes
def test_replicas_fit_as_one_device_does(tmp_path):
    finish([start(["-c", REPLICATED], tmp_path)], [tmp_path])


@by_name
def test_symbolic_ids_make_a_functional_model(name):
    model = model_of(name)
    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    functional = keras.Model([source, target], keras.layers.Softmax()(model(source, target)))
    assert functional.output.shape == (None, None, 17)
    expected = keras.ops.softmax(model(SOURCE, TARGET))
    np.testing.assert_allclose(functional([SOURCE, TARGET]), expected, atol=1e-5)


PACKED_NAMES = ("transformer", "decoder-only")
PACKED, ALONE = pack(ROWS, width=(19, 14)), alone(range(4))
INPUTS = {
    "source_ids": PACKED.source,
    "target_ids": PACKED.target_input,
    "source_segments": PACKED.source_segments,
    "target_segments": PACKED.target_segments,
}


def row_of_each_token(values):
    """The values of the tokens of all pairs, of an array like `PACKED.target_output` or like `ALONE.target_output`."""
    output = PACKED.target_output if values.shape[:2] == PACKED.target_output.shape else ALONE.target_output
    return np.asarray(values)[output != 0]


@pytest.mark.parametrize("name", PACKED_NAMES)
def test_four_inputs_in_any_form_are_packed_rows(name):
    model = model_of(name)
    expected = row_of_each_token(model(ALONE.source, ALONE.target_input))
    outputs = [model(form) for form in (tuple(INPUTS.values()), list(INPUTS.values()), INPUTS)]
    outputs += [model(**INPUTS), model.predict(INPUTS, verbose=0)]
    for output in outputs:
        np.testing.assert_allclose(row_of_each_token(output), expected, atol=1e-5)
    shapes = {key: x.shape for key, x in INPUTS.items()}
    assert model.compute_output_shape(shapes) == model.compute_output_shape(tuple(shapes.values())) == (3, 14, 17)


@pytest.mark.parametrize("name", PACKED_NAMES)
def test_symbolic_segments_make_a_functional_model_that_is_saved(name, tmp_path):
    model = model_of(name)
    inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in INPUTS}
    functional = keras.Model(inputs, keras.layers.Softmax()(model(**inputs)))
    expected = keras.ops.softmax(model(ALONE.source, ALONE.target_input))
    functional.save(tmp_path / "functional.keras")
    for each in (functional, keras.models.load_model(tmp_path / "functional.keras")):
        np.testing.assert_allclose(row_of_each_token(each(INPUTS)), row_of_each_token(expected), atol=1e-5)


@pytest.mark.minutes
def test_packed_rows_are_fitted_as_the_pairs_alone(tmp_path):
    """By `fit` of a tuple with weights of tokens, and by `train_on_batch` of a dict."""
    weighing = np.random.default_rng(0).random(17)

    def fit(inputs, names, batch):
        keras.utils.set_random_seed(0)
        model = fresh("transformer")
        model.build()
        stir(model)
        model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy(0.1), metrics=[TokenAccuracy(), Perplexity()])
        rows, weights = len(batch.source), weighing[batch.target_output]
        history = model.fit(inputs, batch.target_output, rows, 2, 0, shuffle=False, sample_weight=weights).history
        return model, [
            *history.values(),
            model.train_on_batch(dict(zip(names, inputs, strict=True)), batch.target_output),
        ]

    model, expected = fit((ALONE.source, ALONE.target_input), ("source_ids", "target_ids"), ALONE)
    packed_model, found = fit(tuple(INPUTS.values()), INPUTS, PACKED)
    np.testing.assert_allclose(np.hstack(found), np.hstack(expected), rtol=1e-5)
    for packed_variable, variable in zip(packed_model.weights, model.weights, strict=True):
        np.testing.assert_allclose(packed_variable, variable, rtol=1e-5, atol=1e-5)
    packed_model.save(tmp_path / "model.keras")
    np.testing.assert_allclose(load_model(tmp_path / "model.keras")(INPUTS), packed_model(INPUTS), atol=1e-5)


def test_lora_trains_small_matrices_alone_and_is_saved_as_part_of_the_large_ones(tmp_path):
    model = make_transformer(decoder_layers=2, output_bias=True)
    before = np.array(model(SOURCE, TARGET))
    model.enable_lora(4)
    np.testing.assert_array_equal(model(SOURCE, TARGET), before)
    names = {variable.path.split("/", 1)[1] for variable in model.trainable_variables}
    assert {name for name in names if "lora_" not in name} == set()
    inside = ("target_embedding", "encoder_0/self_attention/qkv", "decoder_1/cross_attention/query")
    assert [any(name.startswith(f"{part}/") for name in names) for part in inside] == [True] * 3
    assert any("feed_forward" in name for name in names)
    with pytest.raises(ValueError, match="once"):
        model.source_embedding.enable_lora(4)

    generator = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(0.3 * generator.normal(size=variable.shape))
    after = np.array(model(SOURCE, TARGET))
    assert np.abs(after - before).max() > 0.1
    model.save(tmp_path / "model.keras")
    np.testing.assert_allclose(load_model(tmp_path / "model.keras")(SOURCE, TARGET), after, atol=1e-5)
    model.load_weights(tmp_path / "model.keras")  # into a model that has low-rank matrices of its own
    np.testing.assert_allclose(model(SOURCE, TARGET), after, atol=1e-5)


def test_attention_and_feed_forward_layers_take_lora_alone():
    block = make_transformer().encoder_blocks[0]
    for layer in (block.self_attention, block.feed_forward):
        layer.enable_lora(4)
        assert {x.name for x in layer.trainable_variables} == {"lora_kernel_a", "lora_kernel_b"}
        assert len(layer.trainable_variables) == 4


def test_lora_adds_to_the_matrix_of_the_logits_that_training_reads():
    embedding = TokenEmbedding(5, 4, bias=True)
    embedding.build()
    embedding.enable_lora(2, lora_alpha=6)
    for variable in embedding.trainable_variables:
        variable.assign(keras.random.normal(variable.shape, seed=1))
    states = keras.random.normal((3, 4), seed=2)
    first, second = embedding.factors(states)
    low_rank = keras.ops.matmul(*embedding.lora)
    expected = keras.ops.matmul(states, keras.ops.transpose(embedding.table + 3 * low_rank)) + embedding.bias
    np.testing.assert_allclose(keras.ops.matmul(first, keras.ops.transpose(second)), expected, atol=1e-5)
    np.testing.assert_allclose(embedding.logits(states[None])[0], expected, atol=1e-5)


@pytest.mark.minutes
@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")  # of Keras, before it converts
@pytest.mark.parametrize("name", ["transformer", "decoder-only"])
def test_onnx_computes_the_same_for_any_number_and_length_of_sentences(name, tmp_path):
    pytest.importorskip("tf2onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = model_of(name)
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    for rows, sources, targets in ((3, 7, 5), (1, 1, 1), (2, 11, 3), (5, 2, 12)):
        ids = np.random.default_rng(rows).integers(3, 17, (2, rows, 12), "int32")
        source_ids, target_ids = ids[0, :, :sources], ids[1, :, :targets]
        source_ids[-1, 1:] = 0
        (logits,) = session.run(["logits"], {"source_ids": source_ids, "target_ids": target_ids})
        np.testing.assert_allclose(logits, model(source_ids, target_ids), atol=1e-5)


@pytest.mark.minutes
@by_name
def test_a_saved_model_names_its_logits_and_serves_them_for_any_number_and_length_of_sentences(name, tmp_path):
    model = model_of(name)
    model.export(tmp_path / "saved", verbose=False)
    saved = tf.saved_model.load(tmp_path / "saved")
    for rows, sources, targets in ((3, 7, 5), (2, 2, 12)):
        ids = np.random.default_rng(rows).integers(3, 17, (2, rows, 12), "int32")
        source_ids, target_ids = ids[0, :, :sources], ids[1, :, :targets]
        source_ids[-1, 1:] = 0
        outputs = saved.signatures["serving_default"](source_ids=source_ids, target_ids=target_ids)
        assert list(outputs) == ["logits"]
        for logits in (outputs["logits"], saved.serve(source_ids, target_ids)):
            np.testing.assert_allclose(logits, model(source_ids, target_ids), atol=1e-5)


class TwoOutputs(Transformer):
    def call(self, source_ids, target_ids=None, training=None):
        logits = super().call(source_ids, target_ids, training=training)
        return {"logits": logits, "best": keras.ops.argmax(logits, -1)}


@pytest.mark.minutes
def test_a_saved_model_of_a_subclass_has_the_names_that_it_gives(tmp_path):
    _, settings = MODELS["transformer"]
    model = TwoOutputs(**settings)
    best = model(SOURCE, TARGET)["best"]
    model.export(tmp_path / "saved", verbose=False)
    signature = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    outputs = signature(source_ids=tf.constant(SOURCE, "int32"), target_ids=tf.constant(TARGET, "int32"))
    assert set(outputs) == {"logits", "best"}
    np.testing.assert_array_equal(outputs["best"], best)


def test_a_model_that_is_not_built_is_not_exported(tmp_path):
    with pytest.raises(ValueError, match="has not yet been built"):
        fresh("transformer").export(tmp_path / "saved", verbose=False)


def test_a_recurrent_model_says_why_it_has_no_onnx(tmp_path):
    with pytest.raises(ValueError, match="ONNX has no counterpart"):
        model_of("recurrent").export(tmp_path / "model.onnx", format="onnx")
