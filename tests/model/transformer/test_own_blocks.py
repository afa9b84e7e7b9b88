"""The blocks of docs/extend/blocks.md compute what their formulas say, and keep what every model keeps: cached decoding
is full decoding, the future is unseen, and a saved model is the same when it is loaded, on every backend."""

import importlib.util
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

from qkv.model.transformer import BlockSpec, DecoderBlock, EncoderBlock, FeedForward, Residual, Transformer
from qkv.run.load_model import load_model
from tests.support import ROOT
from tests.support.documents import write_own_blocks
from tests.support.layer_contract import stir
from tests.support.minutes import ALL_CASES, by_hand
from tests.support.packing import ROWS, alone, pack
from tests.support.plugins import registrations_undone
from tests.support.tiny_models import SIZES, SOURCE, TARGET, TWO_LAYERS

pytestmark = pytest.mark.slow

SPEC = BlockSpec(d_model=8, num_heads=2, d_ff=12)
CLASSES = ("PreNormTransformer", "GatedTransformer", "ParallelTransformer", "SwigluTransformer")
every_class = pytest.mark.parametrize("name", CLASSES)


@pytest.fixture(scope="module")
def own_blocks(tmp_path_factory):
    """The page's file as a module."""
    path = write_own_blocks(tmp_path_factory.mktemp("own") / "my_blocks.py")
    spec = importlib.util.spec_from_file_location("my_blocks", path)
    module = importlib.util.module_from_spec(spec)
    with registrations_undone():
        spec.loader.exec_module(module)
    return module


def make(own_blocks, name, **settings):
    model = getattr(own_blocks, name)(**SIZES | TWO_LAYERS | settings)
    model.build()
    return stir(model)


def states(shape=(2, 3, 8), seed=0):
    return ops.convert_to_tensor(np.random.default_rng(seed).normal(size=shape).astype("float32"))


def assert_close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(ops.convert_to_numpy(found), ops.convert_to_numpy(expected), rtol=0, atol=tolerance)


@every_class
def test_a_step_with_a_cache_equals_the_row_of_the_full_pass(own_blocks, name):
    model = make(own_blocks, name, positions="rotary")
    memory = model.encode(SOURCE)
    full, cache = model.decode(TARGET, memory), model.start_cache(memory)
    for t in range(TARGET.shape[1]):
        output = model.decode(TARGET[:, t : t + 1], memory, cache)
        cache = output.cache
        assert_close(output.logits, full.logits[:, t : t + 1])
        assert_close(output.cross[1], full.cross[1][:, :, t : t + 1])
        assert_close(output.decoder_self[1], full.decoder_self[1][:, :, t : t + 1, : t + 1])


@every_class
def test_later_tokens_and_padding_change_nothing(own_blocks, name):
    model = make(own_blocks, name)
    logits = model(SOURCE, TARGET)
    changed = TARGET.copy()
    changed[:, 3:] = 9
    assert_close(model(SOURCE, changed)[:, :3], logits[:, :3])
    assert np.abs(ops.convert_to_numpy(model(SOURCE, changed)[:, 3:] - logits[:, 3:])).max() > 0.01
    padded = np.pad(SOURCE, ((0, 0), (0, 2)))
    assert_close(model(padded, TARGET), logits)


@every_class
def test_a_pair_in_a_packed_row_has_the_logits_that_it_has_alone(own_blocks, name):
    model, packed, pairs = make(own_blocks, name), pack(ROWS), alone(range(4))
    assert model.takes_segments
    logits = model(packed.source, packed.target_input, None, packed.source_segments, packed.target_segments)
    expected = model(pairs.source, pairs.target_input)
    assert_close(logits[packed.target_output != 0], expected[pairs.target_output != 0])


@every_class
def test_all_weights_exist_after_building_and_have_different_paths(own_blocks, name):
    model = make(own_blocks, name)
    paths = [variable.path for variable in model.weights]
    model(SOURCE, TARGET, training=True)
    assert paths == [variable.path for variable in model.weights]
    assert len(set(paths)) == len(paths)
    assert all(layer.built for layer in model._flatten_layers())


@every_class
def test_a_saved_model_is_the_same_when_it_is_loaded(own_blocks, name, tmp_path):
    model = make(own_blocks, name, **({"gate_bias": 0.5} if name == "GatedTransformer" else {}))
    model.save(tmp_path / "model.keras")
    again = load_model(tmp_path / "model.keras")
    assert type(again) is type(model) and again.get_config() == model.get_config()
    assert getattr(again, "gate_bias", 0.5) == 0.5
    np.testing.assert_array_equal(again(SOURCE, TARGET), model(SOURCE, TARGET))


def test_a_pre_norm_block_divides_the_input_of_each_sublayer_by_its_root_mean_square(own_blocks):
    block = own_blocks.PreNormEncoderBlock(SPEC)
    block.build((None, None, 8))
    x = states()
    root = np.sqrt(np.mean(ops.convert_to_numpy(x) ** 2, axis=-1, keepdims=True))
    y, *_ = block.attend(ops.convert_to_tensor(ops.convert_to_numpy(x) / root))
    middle = ops.convert_to_numpy(x + y)
    root = np.sqrt(np.mean(middle**2, axis=-1, keepdims=True))
    assert_close(block(x)[0], middle + ops.convert_to_numpy(block.feed_forward(middle / root)), 1e-4)


@pytest.mark.parametrize("kind", ["Encoder", "Decoder"])
def test_open_gates_give_the_original_block_and_closed_ones_its_input(own_blocks, kind):
    shapes = [(2, 3, 8), (2, 5, 8)][: 1 + (kind == "Decoder")]
    inputs = [states(shape, seed) for seed, shape in enumerate(shapes)]
    original = {"Encoder": EncoderBlock, "Decoder": DecoderBlock}[kind](SPEC)
    original.build(*shapes)
    stir(original)
    gated = getattr(own_blocks, f"Gated{kind}Block")(SPEC, gate_bias=50.0)
    gated.build(*shapes)
    weights = {variable.path.split("/", 1)[1]: variable for variable in original.weights}
    for variable in gated.weights:
        if "/gate/" not in variable.path:
            variable.assign(weights.pop(variable.path.split("/", 1)[1]))
    assert not weights
    for output, expected in zip(gated(*inputs)[:-1], original(*inputs)[:-1], strict=True):
        assert_close(output, expected)
    closed = getattr(own_blocks, f"Gated{kind}Block")(SPEC, gate_bias=-50.0)
    assert_close(closed(*inputs)[0], inputs[0])


def test_a_parallel_block_adds_all_its_sublayers_to_its_input(own_blocks):
    block = own_blocks.ParallelDecoderBlock(SPEC)
    x, memory = states(), states((2, 5, 8), 1)
    mask = np.tril(np.ones((1, 1, 3, 3), bool))
    output, self_weights, cross_weights, _ = block(x, memory, self_mask=mask)
    normal = block.self_attention_residual.normalization(x)
    own, weights, _ = block.attend(normal, mask)
    crossed, source_weights = block.attend_to_memory(normal, memory)
    assert_close(output, x + own + crossed + block.feed_forward(normal))
    assert_close(self_weights, weights)
    assert_close(cross_weights, source_weights)
    assert [layer.name for layer in block._flatten_layers() if "residual" in layer.name] == ["self_attention_residual"]
    assert set(block.layer_names("name").values()) == {"name.self", "name.cross", "name.feed_forward"}


@pytest.mark.parametrize("calls", [0, 2])
def test_a_block_that_does_not_call_its_attention_once_is_refused(calls):
    class Wrong(EncoderBlock):
        def connect_sublayers(self, x, attend_to_self, training=None):
            return x + sum(attend_to_self(x) for _ in range(calls))

    with pytest.raises(ValueError, match=f"Wrong.connect_sublayers: expected one call of attend.*, found {calls}"):
        Wrong(SPEC)(states())


def test_layers_that_a_subclass_adds_are_built_with_their_block_and_trained():
    class Network(keras.Layer):
        """Without `build`, as in Keras' guide."""

        def __init__(self, width, **kwargs):
            super().__init__(**kwargs)
            self.inner = keras.layers.Dense(5, name="inner", dtype=self.dtype_policy)
            self.outer = keras.layers.Dense(width, name="outer", dtype=self.dtype_policy)

        def call(self, x, training=None):
            return self.outer(ops.silu(self.inner(x)))

    class Block(EncoderBlock):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.after = keras.layers.Dense(8, name="after", dtype=self.dtype_policy)

        def make_feed_forward(self, **kwargs):
            return Network(self.spec.d_model, **kwargs)

        def connect_sublayers(self, x, attend_to_self, training=None):
            return self.after(super().connect_sublayers(x, attend_to_self, training=training))

    class Model(Transformer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.last = keras.layers.Dense(self.d_model, name="last")

        def make_encoder_block(self, index, *args, **kwargs):
            return Block(*args, **kwargs) if index else super().make_encoder_block(index, *args, **kwargs)

        def encode(self, source_ids, training=None):
            memory = super().encode(source_ids, training=training)
            return memory._replace(states=self.last(memory.states))

    model = Model(**SIZES | TWO_LAYERS)
    model.build()
    assert [type(block) for block in model.encoder_blocks] == [EncoderBlock, Block]
    paths = [variable.path.split("/", 1)[1] for variable in model.weights]
    for name in ("encoder_1/after/kernel", "encoder_1/feed_forward/inner/kernel", "last/kernel"):
        assert name in paths
    model(SOURCE, TARGET)
    assert len(model.weights) == len(paths) == len(set(paths))


def test_the_original_blocks_are_made_by_the_methods_that_a_subclass_overrides():
    made = []

    class Noted(Transformer):
        def make_encoder_block(self, index, spec, self_attention, **kwargs):
            made.append(("encoder", index, spec.d_ff, self_attention, kwargs["name"]))
            return super().make_encoder_block(index, spec, self_attention, **kwargs)

        def make_decoder_block(self, index, spec, self_attention, cross_attention, **kwargs):
            made.append(("decoder", index, spec.d_ff, self_attention, cross_attention, kwargs["name"]))
            return super().make_decoder_block(index, spec, self_attention, cross_attention, **kwargs)

    sites = {name: {"score": name} for name in ("cosine", "dot", "additive")}
    Noted(
        **SIZES | {"decoder_layers": 2},
        encoder_self=sites["cosine"],
        decoder_self=sites["dot"],
        cross=sites["additive"],
    )
    assert made == [
        ("encoder", 0, 12, sites["cosine"], "encoder_0"),
        ("decoder", 0, 12, sites["dot"], sites["additive"], "decoder_0"),
        ("decoder", 1, 12, sites["dot"], sites["additive"], "decoder_1"),
    ]


def test_the_classes_of_blocks_are_names_of_the_package():
    import qkv

    assert (qkv.EncoderBlock, qkv.DecoderBlock, qkv.BlockSpec) == (EncoderBlock, DecoderBlock, BlockSpec)
    assert (qkv.FeedForward, qkv.Residual) == (FeedForward, Residual)


PROGRAM = """
import sys
import keras
import numpy as np
import my_blocks
import qkv

folder = sys.argv[1]
arrays = np.load(f"{folder}/arrays.npz")
source, target = arrays["source"], arrays["target"]
for name in arrays.files[2:]:
    model = qkv.load_model(f"{folder}/{name}.keras")
    full = keras.ops.convert_to_numpy(model(source, target))
    np.testing.assert_allclose(full, arrays[name], atol=2e-5)
    memory = model.encode(source)
    cache, rows = model.start_cache(memory), []
    for t in range(target.shape[1]):
        output = model.decode(target[:, t : t + 1], memory, cache=cache)
        cache = output.cache
        rows.append(keras.ops.convert_to_numpy(output.logits))
    np.testing.assert_allclose(np.concatenate(rows, 1), full, atol=2e-5)
    model.save(f"{folder}/again.keras")
    again = qkv.load_model(f"{folder}/again.keras")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(again(source, target)), full)
    made = type(model)(**model.get_config())
    made.build()
    assert [x.path for x in made.weights] == [x.path for x in model.weights]
print(keras.backend.backend())
"""


@pytest.mark.minutes
@pytest.mark.parametrize("backend", [*(pytest.param(name, marks=by_hand) for name in ("tensorflow", "jax")), "torch"])
def test_a_fresh_process_loads_the_models_on_every_backend(own_blocks, backend, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    write_own_blocks(tmp_path / "my_blocks.py")
    outputs = {}
    for name in CLASSES if ALL_CASES else CLASSES[1:3]:  # the others differ from them in their layers alone
        model = make(own_blocks, name)
        model.save(tmp_path / f"{name}.keras")
        outputs[name] = ops.convert_to_numpy(model(SOURCE, TARGET))
    np.savez(tmp_path / "arrays.npz", source=SOURCE, target=TARGET, **outputs)
    path = os.pathsep.join([str(tmp_path), str(ROOT / "pipeline")])
    environment = os.environ | {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [backend]
