"""What every layer of the project promises, to be run over each of them.

Letters: B batch, H heads, T target positions, S source positions.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import ops

B, T, S = 2, 3, 5  # never T = S: a mix-up of the two would go unseen


@dataclass(frozen=True)
class LayerCase:
    """A layer to check.

    Args:
        make: makes it; takes further keyword arguments such as `dtype` and `dropout`.
        inputs: shape of each call argument, batch included.
        memory: the call arguments whose second axis is that of the keys; empty for what is no attention layer.
        heads: H of the weights.
        masks: shapes of the boolean call arguments.
        vocabulary: given, inputs are ids below it instead of floats.
        length_axis: the axis of the inputs whose size a layer need not know beforehand, beside that of the batch.
        exempt: checks that do not hold by the nature of the layer, by name, each with the reason. A test shows that
            each of them fails, and tests of the layer's own say what holds instead.
    """

    make: Callable
    inputs: dict
    memory: tuple = ()
    heads: int = 1
    masks: dict = field(default_factory=dict)
    vocabulary: int = 0
    length_axis: int = 1
    exempt: dict = field(default_factory=dict)

    @property
    def sees_itself(self):
        """Whether queries and keys are the same sequence."""
        return set(self.memory) == set(self.inputs)

    def draw(self, seed=0):
        """Random call arguments."""
        generator = np.random.default_rng(seed)
        if self.vocabulary:
            return {name: generator.integers(0, self.vocabulary, shape) for name, shape in self.inputs.items()}
        floats = {name: generator.normal(size=shape).astype("float32") for name, shape in self.inputs.items()}
        return floats | {name: generator.random(shape) < 0.7 for name, shape in self.masks.items()}

    def ready(self, **arguments):
        """The layer, built, with every weight moved off its initial value, so that zeros and ones hide nothing."""
        layer = self.make(**arguments)
        layer(**self.draw())
        return stir(layer)

    @cached_property
    def shared(self):
        """The layer of `ready()`, one for all checks that leave it as it is."""
        return self.ready()

    @cached_property
    def outputs(self):
        """What the shared layer returns for `draw()`."""
        return self.shared(**self.draw())


def stir(layer, seed=0, amount=0.3):
    """Adds random numbers to every weight that a layer can learn."""
    generator = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        variable.assign(ops.convert_to_numpy(variable) + amount * generator.normal(size=variable.shape))
    return layer


def arrays(outputs):
    """The arrays among a layer's outputs, as NumPy arrays of float32."""
    return [ops.convert_to_numpy(ops.cast(x, "float32")) for x in keras.tree.flatten(outputs) if x is not None]


def assert_close(found, expected, tolerance=1e-5):
    found, expected = arrays(found), arrays(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def config_round_trip(case):
    """A layer made anew from its serialised config has the same config, and with the same weights says the same."""
    layer, inputs = case.shared, case.draw()
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert again.get_config() == layer.get_config()
    again(**inputs)
    again.set_weights(layer.get_weights())
    assert_close(again(**inputs), case.outputs, 0)


def symbolic_shapes(case):
    """What Keras is told of shapes and dtypes before the call is what comes out, with known lengths and without."""
    inputs = case.draw()
    expected = [x for x in keras.tree.flatten(case.outputs) if x is not None]
    for free in (False, True):
        symbols = {
            name: keras.Input(
                tuple(
                    None if free and axis == case.length_axis and name not in case.masks else n
                    for axis, n in enumerate(x.shape)
                )[1:],
                batch_size=None if free else len(x),
                dtype=keras.backend.standardize_dtype(x.dtype),
            )
            for name, x in inputs.items()
            if len(x) == B
        }
        others = {name: x for name, x in inputs.items() if name not in symbols}
        found = [x for x in keras.tree.flatten(case.make()(**symbols, **others)) if x is not None]
        assert len(found) == len(expected)
        for symbol, tensor in zip(found, expected, strict=True):
            assert symbol.dtype == keras.backend.standardize_dtype(tensor.dtype)
            sizes = zip(symbol.shape, tensor.shape, strict=True)
            assert all(a == b or (free and a is None) for a, b in sizes), (symbol.shape, tensor.shape)
            assert free or None not in symbol.shape


def summary(case):
    """A model that holds the layer can list it."""
    model, lines = keras.Model(), []
    model.held = case.shared
    model.summary(print_fn=lines.append)
    assert case.shared.name in "".join(lines)


def half_precision(case):
    """Under mixed_bfloat16 the weights stay float32, attention comes out as float32, and values are about the same."""
    layer, inputs = case.make(dtype="mixed_bfloat16"), case.draw()
    layer(**inputs)
    layer.set_weights(case.shared.get_weights())
    assert all(variable.dtype == "float32" for variable in layer.weights)
    outputs = [x for x in keras.tree.flatten(layer(**inputs)) if x is not None]
    if case.memory:
        assert [x.dtype for x in outputs] == [tf.bfloat16, tf.float32]
    expected = case.outputs
    assert {x.dtype for x in keras.tree.flatten(expected) if x is not None} == {tf.float32}
    for found, wanted in zip(arrays(outputs), arrays(expected), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0.1, atol=0.1 * max(1, np.abs(wanted).max()))


def pure_policies(case):
    """Under a policy of one type, weights have this type and attention comes out as float32, as Keras is told."""
    for dtype in ("bfloat16", "float64"):
        layer, inputs = case.make(dtype=dtype), case.draw()
        layer(**inputs)
        assert {variable.dtype for variable in layer.weights} <= {dtype}
        layer.set_weights(case.shared.get_weights())
        outputs = [x for x in keras.tree.flatten(layer(**inputs)) if x is not None]
        floats = {
            name: dtype if x.dtype == np.float32 else keras.backend.standardize_dtype(x.dtype)
            for name, x in inputs.items()
        }
        symbols = {name: keras.KerasTensor(x.shape, floats[name]) for name, x in inputs.items()}
        told = [x.dtype for x in keras.tree.flatten(layer.compute_output_spec(**symbols)) if x is not None]
        assert told == [keras.backend.standardize_dtype(x.dtype) for x in outputs]
        if case.memory:
            assert told == [dtype, "float32"]
        assert all(np.isfinite(x).all() for x in arrays(outputs))
    assert_close(outputs, case.outputs, 1e-4)  # of float64


def shapes_before_building(case):
    """A layer that is not built yet says the shapes that come out."""
    symbols = {
        name: keras.KerasTensor(x.shape, keras.backend.standardize_dtype(x.dtype)) for name, x in case.draw().items()
    }
    told = keras.tree.flatten(case.make().compute_output_spec(**symbols))
    assert [x.shape for x in told if x is not None] == [
        x.shape for x in keras.tree.flatten(case.outputs) if x is not None
    ]


def gradients(case):
    """Gradients by weights and inputs together equal finite differences along random directions."""
    layer, inputs = case.ready(), case.draw()
    generator = np.random.default_rng(1)
    names = [name for name, x in inputs.items() if x.dtype == np.float32]
    points = [v.numpy() for v in layer.trainable_variables] + [inputs[name] for name in names]
    count = len(layer.trainable_variables)

    def outputs(floats):
        results = layer(**(inputs | dict(zip(names, floats, strict=True))))
        return [x for x in keras.tree.flatten(results) if x is not None]

    floats = [tf.convert_to_tensor(inputs[name]) for name in names]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        results = outputs(floats)
        weighing = [generator.normal(size=x.shape) for x in results]
        total = sum(tf.reduce_sum(x * tf.cast(w, x.dtype)) for x, w in zip(results, weighing, strict=True))
    at = [v.value for v in layer.trainable_variables] + floats
    found = tape.gradient(total, at, unconnected_gradients="zero")
    found = [tf.convert_to_tensor(gradient).numpy().astype("float64") for gradient in found]

    def value(points):
        for variable, point in zip(layer.trainable_variables, points[:count], strict=True):
            variable.assign(point)
        return sum(float(np.sum(x * w)) for x, w in zip(arrays(outputs(points[count:])), weighing, strict=True))

    step = 1e-2
    for _ in range(2):
        direction = [generator.normal(size=point.shape) * 0.3 for point in points]
        ahead, behind = (
            value([(p + sign * step * d).astype("float32") for p, d in zip(points, direction, strict=True)])
            for sign in (1, -1)
        )
        expected = (ahead - behind) / (2 * step)
        got = sum(float(np.sum(g * d)) for g, d in zip(found, direction, strict=True))
        np.testing.assert_allclose(got, expected, rtol=0.01, atol=0.01)


def save_and_reload(case):
    """Inside a functional model, a layer comes back from a `.keras` file with its weights."""
    layer, inputs = case.shared, case.draw()
    symbols = {
        name: keras.Input(x.shape[1:], dtype=keras.backend.standardize_dtype(x.dtype), name=name)
        for name, x in inputs.items()
        if len(x) == B
    }
    inputs = {name: x for name, x in inputs.items() if name in symbols}
    outputs = [x for x in keras.tree.flatten(layer(**symbols)) if x is not None]
    model = keras.Model(symbols, outputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        again = keras.saving.load_model(path)
    assert_close(again(inputs), model(inputs), 0)
    assert_close(model(inputs), layer(**inputs), 1e-6)


def nothing_left_behind(case):
    """A call leaves nothing on a layer: no tensor, no new attribute, no loss."""
    layer = case.ready()
    parts = [layer, *layer._flatten_layers(include_self=False)]
    before = [{name: id(x) for name, x in vars(part).items()} for part in parts]
    layer(**case.draw(1), **{"training": True} if layer._call_has_training_arg else {})
    assert before == [{name: id(x) for name, x in vars(part).items()} for part in parts]
    for part in parts:
        held = keras.tree.flatten(list(vars(part).values()))
        assert not [x for x in held if isinstance(x, tf.Tensor | keras.KerasTensor)]
        assert not part.losses


def graph(case, jit_compile=False):
    """In a graph a layer says what it says eagerly, for lengths not known beforehand."""
    layer, inputs = case.shared, case.draw()
    free = {}
    for name, x in inputs.items():
        axes = () if len(x) != B else (0,) if name in case.masks else (0, case.length_axis)
        free[name] = tf.TensorSpec([None if axis in axes else n for axis, n in enumerate(x.shape)], x.dtype)

    def outputs(arguments):
        return [x for x in keras.tree.flatten(layer(**arguments)) if x is not None]

    function = tf.function(outputs, input_signature=[free], jit_compile=jit_compile, autograph=False)
    assert_close(function(inputs), case.outputs, 2e-5)


def compiled(case):
    """So it does compiled by XLA."""
    graph(case, jit_compile=True)


def batch_order(case):
    """A sentence's result depends neither on its place in the batch nor on the others there."""
    layer, inputs = case.shared, case.draw()
    whole = arrays(case.outputs)
    for row in range(B):
        alone = arrays(layer(**{name: x[row : row + 1] if len(x) == B else x for name, x in inputs.items()}))
        for found, expected in zip(alone, whole, strict=True):
            np.testing.assert_allclose(found[0], expected[row], atol=1e-5)


LAYER_CHECKS = [
    config_round_trip,
    symbolic_shapes,
    summary,
    half_precision,
    pure_policies,
    shapes_before_building,
    gradients,
    save_and_reload,
    nothing_left_behind,
    graph,
    batch_order,
]


def key_length(case):
    return case.inputs[case.memory[0]][1]


def query_length(case):
    return next(iter(case.inputs.values()))[1]


def weights_are_a_distribution(case):
    """Weights are float32 `(B, H, T, S)`, none below zero, and each row sums to one."""
    context, weights = case.outputs
    assert weights.shape == (B, case.heads, query_length(case), key_length(case))
    assert weights.dtype == tf.float32
    assert context.shape[:2] == (B, query_length(case))
    assert (weights.numpy() >= 0).all()
    np.testing.assert_allclose(weights.numpy().sum(-1), 1, atol=1e-6)


def masked_keys_get_nothing(case):
    """Where the mask is False the weight is exactly zero, and the other weights of the row still sum to one."""
    layer, inputs = case.shared, case.draw()
    length = key_length(case)
    generator = np.random.default_rng(2)
    for shape in ((B, 1, 1, length), (1, 1, query_length(case), length), (B, case.heads, query_length(case), length)):
        mask = generator.random(shape) < 0.5
        mask[..., 0] = True
        weights = layer(**inputs, attention_mask=mask)[1].numpy()
        everywhere = np.broadcast_to(mask, weights.shape)
        assert (weights[~everywhere] == 0).all()
        assert (weights[everywhere] > 0).all()
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def no_mask_is_a_mask_of_ones(case):
    """Without a mask a layer does what it does with one that allows everything."""
    everything = np.ones((1, 1, query_length(case), key_length(case)), bool)
    assert_close(case.outputs, case.shared(**case.draw(), attention_mask=everything), 1e-6)


def a_row_without_keys_is_zero(case):
    """A query that may attend to nothing gets weights and a context, before the output projection, of exactly zero."""
    inputs = case.draw()
    mask = np.ones((B, 1, query_length(case), key_length(case)), bool)
    mask[1, :, 2] = False
    layer = case.make()
    context, weights = layer(**inputs, attention_mask=mask)  # the output projection's bias is still zero
    assert (weights.numpy()[1, :, 2] == 0).all()
    assert (context.numpy()[1, 2] == 0).all()
    assert (np.abs(context.numpy()[1, 0]) > 0).any()
    stir(layer)
    last = getattr(layer, "output_projection", None)
    bias = 0.0 if last is None or last.bias is None else last.bias.numpy()
    others = layer(**case.draw(), attention_mask=mask)[0].numpy()
    np.testing.assert_array_equal(others[1, 2], np.broadcast_to(bias, others[1, 2].shape))
    sources = [tf.convert_to_tensor(x) for x in inputs.values()]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        context, weights = layer(**dict(zip(inputs, sources, strict=True)), attention_mask=mask)
        total = tf.reduce_sum(context**2) + tf.reduce_sum(weights**2)
    for gradient in tape.gradient(total, sources + [v.value for v in layer.trainable_variables]):
        assert gradient is None or np.isfinite(tf.convert_to_tensor(gradient).numpy()).all()


def permuted_keys_permute_weights(case):
    """Attention has no sense of order: with keys in another order, the weights are in that order and the context is
    the same."""
    layer, inputs = case.shared, case.draw()
    mask = np.random.default_rng(3).random((B, 1, 1, key_length(case))) < 0.7
    mask[..., 1] = True
    order = np.random.default_rng(4).permutation(key_length(case))
    context, weights = arrays(layer(**inputs, attention_mask=mask))
    moved = inputs | {name: inputs[name][:, order] for name in case.memory}
    moved_context, moved_weights = arrays(layer(**moved, attention_mask=mask[..., order]))
    expected = weights[..., order]
    if case.sees_itself:
        expected, context = expected[:, :, order], context[:, order]
    np.testing.assert_allclose(moved_weights, expected, atol=1e-5)
    np.testing.assert_allclose(moved_context, context, atol=1e-5)


def padding_changes_nothing(case):
    """Masked keys added at the end, whatever they hold, change neither context nor weights."""
    layer, inputs = case.shared, case.draw()
    length, rows = key_length(case), query_length(case)
    longer = dict(inputs)
    for name in case.memory:
        filling = np.random.default_rng(5).normal(size=(B, 2, inputs[name].shape[-1])) * 100
        longer[name] = np.concatenate([inputs[name], filling.astype("float32")], 1)
    mask = np.arange(length + 2)[None, None, None] < length
    context, weights = arrays(case.outputs)
    padded_context, padded_weights = arrays(layer(**longer, attention_mask=mask))
    np.testing.assert_allclose(padded_context[:, :rows], context, atol=1e-5)
    np.testing.assert_allclose(padded_weights[:, :, :rows, :length], weights, atol=1e-6)
    assert (padded_weights[..., length:] == 0).all()


def dropout_spares_the_weights(case):
    """Dropout acts on the context in training and there alone: the weights returned are those before it."""
    inputs = case.draw()
    plain, dropping = case.shared, case.make(dropout=0.5)
    dropping(**inputs)
    dropping.set_weights(plain.get_weights())
    context, weights = arrays(case.outputs)
    assert_close(plain(**inputs, training=True), (context, weights), 0)
    assert_close(dropping(**inputs, training=False), (context, weights), 0)
    dropped_context, dropped_weights = arrays(dropping(**inputs, training=True))
    np.testing.assert_array_equal(dropped_weights, weights)
    assert not np.allclose(dropped_context, context, atol=1e-3)


def large_inputs_stay_finite(case):
    """Inputs of a thousand times the usual size give finite contexts, and weights that still sum to one."""
    inputs = {name: x * 1e3 for name, x in case.draw().items()}
    context, weights = arrays(case.shared(**inputs))
    assert np.isfinite(context).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


ATTENTION_CHECKS = [
    weights_are_a_distribution,
    masked_keys_get_nothing,
    no_mask_is_a_mask_of_ones,
    a_row_without_keys_is_zero,
    permuted_keys_permute_weights,
    padding_changes_nothing,
    dropout_spares_the_weights,
    large_inputs_stay_finite,
]
