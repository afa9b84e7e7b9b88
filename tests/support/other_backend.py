"""What layers and models compute on the backend of this process: the others run `python -m tests.support.other_backend
WEIGHTS RESULTS`, which reads the weights of every case and writes what is computed with them."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import keras
import numpy as np
from keras import ops

from qkv.decoding.beam import BeamSearch, BeamSettings
from qkv.decoding.greedy import GreedySearch
from qkv.layers.keras_layers import Dense, LayerNormalization
from qkv.losses import TokenCrossEntropy
from qkv.metrics.token_metrics import Perplexity, TokenAccuracy
from qkv.run.load_model import load_model
from tests.support.layer_cases import ATTENTION_CASES, MASKED_CASES, PART_CASES, SCORE_CASES
from tests.support.layer_contract import B, LayerCase, S, arrays, stir
from tests.support.minutes import ALL_CASES
from tests.support.packing import ROWS, pack
from tests.support.tiny_models import MODELS, SOURCE, TARGET

LAYER_CASES = {
    "layer normalisation": LayerCase(LayerNormalization, {"inputs": (B, S, 8)}),
    "dense": LayerCase(lambda **arguments: Dense(3, **arguments), {"inputs": (B, S, 8)}),
}
LAYERS = {
    f"{kind}: {name}": case
    for kind, cases in (
        ("score", SCORE_CASES),
        ("attention", ATTENTION_CASES),
        ("masked", MASKED_CASES),
        ("part", PART_CASES),
        ("layer", LAYER_CASES),
    )
    for name, case in cases.items()
}
WITHOUT_MASK = {f"attention: {name}" for name in ATTENTION_CASES.keys() & MASKED_CASES.keys()}
COMPARED_LAYERS = {name: case for name, case in LAYERS.items() if ALL_CASES or name not in WITHOUT_MASK}
"""Of a mechanism with and without a mask, the first alone: it computes all that the second does."""
SEARCHES = {"greedy": GreedySearch(no_repeat_ngram=1), "beam": BeamSearch(BeamSettings(size=3, best=2))}
# The layers themselves are compared one by one, and the models left out differ from others in their layers alone. Each
# length of a cache is compiled anew on JAX: searches are short.
CLASSES = ("transformer", "recurrent", "decoder-only")
FURTHER = (
    "luong",
    "recurrent of one context vector",
    "rotary transformer with shared keys and a sink",
    "decoder-only with ALiBi and a sink",
)
COMPARED = (*CLASSES, *(FURTHER if ALL_CASES else ()))
KINDS = {
    "output": COMPARED,
    "gradient": COMPARED,
    "packed": ("transformer", "decoder-only", "decoder-only with ALiBi and a sink") if ALL_CASES else CLASSES[::2],
    "greedy": CLASSES[1:2] if ALL_CASES else (),  # `generate` is greedy as well
    "beam": CLASSES if ALL_CASES else CLASSES[1:2],  # a cache that grows is compiled anew at each step
    "generate": CLASSES,
    "fit": CLASSES,
    "load": CLASSES,
}
PACKED = pack(ROWS)
LONGEST = np.array([2, 0, 3], "int32")  # one sentence without a token, which a beam drops at once


def weights_of(layer):
    """Everything that is saved."""
    return [ops.convert_to_numpy(variable) for variable in layer.weights]


def results_and_gradients(values, variables):
    """The arrays that a function without arguments returns with a scalar, and the gradients of the scalar, zero where
    it does not depend on a variable."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            total, outputs = values()
        found = tape.gradient(total, [x.value for x in variables], unconnected_gradients="zero")
        return arrays(outputs), [np.asarray(tf.convert_to_tensor(x)) for x in found]
    if keras.backend.backend() == "torch":
        for variable in variables:
            variable.value.grad = None
        total, outputs = values()
        if total.requires_grad:
            total.backward()
        found = [x.value.grad for x in variables]
        found = [np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(found, variables, strict=True)]
        return arrays(outputs), found
    import jax

    def stateless(numbers):
        with keras.StatelessScope(list(zip(variables, numbers, strict=True))):
            return values()

    # Compiled as a whole, which takes less time than each of its operations.
    found, outputs = jax.jit(jax.grad(stateless, has_aux=True))([x.value for x in variables])
    return arrays(outputs), arrays(found)


def results_of_layer(layer, case):
    """Its outputs, and the gradients of their sum, each number weighed."""

    def values():
        outputs = [x for x in keras.tree.flatten(layer(**case.draw())) if x is not None]
        generator = np.random.default_rng(1)
        weighing = [ops.convert_to_tensor(generator.normal(size=x.shape).astype("float32")) for x in outputs]
        return sum(ops.sum(x * w) for x, w in zip(outputs, weighing, strict=True)), outputs

    return dict(zip(("output", "gradient"), results_and_gradients(values, layer.trainable_variables), strict=True))


def symbols(inputs):
    """What builds a layer without a computation."""
    return keras.tree.map_structure(lambda x: keras.KerasTensor(x.shape, str(x.dtype)), inputs)


def make_model(name):
    architecture, settings = MODELS[name]
    model = architecture(**settings)
    model(*symbols((SOURCE, TARGET)))
    return model


def results_of_model(model, name):
    """Logits, the gradients of the cross-entropy, logits of packed rows, what both searches and `generate` find, the
    losses and metrics of three updates by `fit`, and the logits of the model then, saved and loaded; those that `KINDS`
    lists for it."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    targets = np.roll(TARGET, -1, 1)

    def values():
        logits = model(SOURCE, TARGET)
        return loss(targets, logits), logits

    found = dict(zip(("output", "gradient"), results_and_gradients(values, model.trainable_variables), strict=True))
    if name in KINDS["packed"]:
        found["packed"] = arrays(model((PACKED.source, PACKED.target_input, *PACKED[-2:])))
    searches = {kind: search for kind, search in SEARCHES.items() if name in KINDS[kind]}
    if searches:
        memory = model.encode(SOURCE)
        for kind, search in searches.items():
            found[kind] = arrays(search(model, memory, ops.convert_to_tensor(LONGEST), int(LONGEST.max()))[:2])
    if name in KINDS["generate"]:
        found["generate"] = list(model.generate(SOURCE, max_length=3, return_scores=True))
    if name in KINDS["fit"]:
        model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy(0.1), metrics=[TokenAccuracy(), Perplexity()])
        history = model.fit((SOURCE, TARGET), targets, epochs=3, batch_size=3, shuffle=False, verbose=0).history
        found["fit"] = [np.array(history[key]) for key in ("loss", "perplexity", "token_accuracy")]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            model.save(path)
            found["load"] = arrays(load_model(path)(SOURCE, TARGET))
    return found


def compute(weights=None):
    """Weights and results by the names of layers and models; with `weights` by name and number, with those."""
    results = {}
    for name, case in COMPARED_LAYERS.items():
        layer = case.make()
        layer(**symbols(case.draw()))
        results[name] = _with_weights(name, layer, weights), results_of_layer(layer, case)
    for name in COMPARED:
        model = make_model(name)
        results[name] = _with_weights(name, model, weights), results_of_model(model, name)
    return results


def _with_weights(name, layer, weights):
    """Gives a layer its weights, or stirs it, and returns them."""
    if weights is None:
        stir(layer)
    else:
        layer.set_weights([weights[f"{name}/{i}"] for i in range(len(layer.weights))])
    return weights_of(layer)


def main(weights_path, results_path):
    """Computes everything with the weights in one file, and writes the results into another."""
    found = compute(np.load(weights_path))
    flat = {
        f"{name}/{kind}/{i}": x
        for name, (_, kinds) in found.items()
        for kind, arrays_of in kinds.items()
        for i, x in enumerate(arrays_of)
    }
    np.savez(results_path, backend=keras.backend.backend(), **flat)


if __name__ == "__main__":
    main(*sys.argv[1:])
