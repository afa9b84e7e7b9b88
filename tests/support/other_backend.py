"""What layers and models compute on the backend of this process, for `test_backends.py` to compare.

Keras has one backend a process, so the others run this file as a program: `python -m tests.support.other_backend GROUP
WEIGHTS RESULTS` reads the weights of every case of a group, see `compute`, and writes what is computed with them.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import keras
import numpy as np
from keras import ops

from qkv.decoding.beam import BeamSearch, BeamSettings
from qkv.decoding.greedy import GreedySearch
from qkv.layers.keras_layers import Dense, LayerNormalization
from qkv.metrics.of_tokens import Perplexity, TokenAccuracy, TokenCrossEntropy
from qkv.run.load_model import load_model
from tests.support.layer_cases import ATTENTION_CASES, MASKED_CASES, PART_CASES, SCORE_CASES
from tests.support.layer_contract import B, LayerCase, S, arrays, stir
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
SEARCHES = {"greedy": GreedySearch(no_repeat_ngram=2), "beam": BeamSearch(BeamSettings(size=3, best=2))}
# The layers themselves are compared one by one, and these models differ from others in their layers alone. Searches are
# for every way to keep the tokens before, and `fit` is for every class of models.
OTHER_LAYERS = [f"transformer {what}" for what in ("of other sizes", "without projections", "of odd mechanisms")]
COMPARED = [name for name in MODELS if name not in OTHER_LAYERS]
CLASSES = ("transformer", "recurrent", "decoder-only")
KINDS = {
    "output": COMPARED,
    "gradient": COMPARED,
    "greedy": CLASSES,
    "beam": (*CLASSES, "luong", "rotary transformer with shared keys and a sink"),
    "fit": CLASSES,
    "load": CLASSES,
}
LONGEST = np.array([6, 0, 9], "int32")  # one sentence without a token, which a beam drops at once


def weights_of(layer):
    """Everything that is saved."""
    return [ops.convert_to_numpy(variable) for variable in layer.weights]


def gradients(value, variables):
    """The gradients of a function without arguments that returns a scalar, zero where it does not depend on one."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            total = value()
        found = tape.gradient(total, [x.value for x in variables], unconnected_gradients="zero")
        return [np.asarray(tf.convert_to_tensor(x)) for x in found]
    if keras.backend.backend() == "torch":
        for variable in variables:
            variable.value.grad = None
        if (total := value()).requires_grad:
            total.backward()
        found = [x.value.grad for x in variables]
        return [np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(found, variables, strict=True)]
    import jax

    def stateless(values):
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return value()

    # Compiled as a whole, which takes less time than each of its operations.
    return [np.asarray(x) for x in jax.jit(jax.grad(stateless))([x.value for x in variables])]


def results_of_layer(layer, case):
    """Its outputs, and the gradients of their sum, each number weighed."""
    inputs = case.draw()
    outputs = arrays(layer(**inputs))
    generator = np.random.default_rng(1)
    weighing = [generator.normal(size=x.shape).astype("float32") for x in outputs]

    def value():
        found = [x for x in keras.tree.flatten(layer(**inputs)) if x is not None]
        return sum(ops.sum(x * ops.convert_to_tensor(w)) for x, w in zip(found, weighing, strict=True))

    return {"output": outputs, "gradient": gradients(value, layer.trainable_variables)}


def make_model(name):
    architecture, settings = MODELS[name]
    model = architecture(**settings)
    model(SOURCE, TARGET)
    return model


def results_of_model(model, name):
    """Logits, the gradients of the cross-entropy, what both searches find, the losses and metrics of three updates by
    `fit`, and what the model predicts then, saved and loaded; those that `KINDS` lists for the model."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    targets = np.roll(TARGET, -1, 1)
    found = {
        "output": arrays(model(SOURCE, TARGET)),
        "gradient": gradients(lambda: loss(targets, model(SOURCE, TARGET)), model.trainable_variables),
    }
    memory = model.encode(SOURCE)
    for kind, search in SEARCHES.items():
        if name in KINDS[kind]:
            found[kind] = arrays(search(model, memory, ops.convert_to_tensor(LONGEST), int(LONGEST.max()))[:2])
    if name in KINDS["fit"]:
        model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy(0.1), metrics=[TokenAccuracy(), Perplexity()])
        history = model.fit((SOURCE, TARGET), targets, epochs=3, batch_size=3, shuffle=False, verbose=0).history
        found["fit"] = [np.array(history[key]) for key in ("loss", "perplexity", "token_accuracy")]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.keras"
            model.save(path)
            found["load"] = [load_model(path).predict((SOURCE, TARGET), verbose=0)]
    return found


def compute(group, weights=None):
    """Weights and results of a group by the names of its cases; with `weights` by name and number, with those.

    `layers` are their outputs and gradients, and `models` are everything of models.
    """
    results = {}
    for name, case in LAYERS.items() if group == "layers" else ():
        layer = case.make()
        layer(**case.draw())
        results[name] = _with_weights(name, layer, weights), results_of_layer(layer, case)
    for name in COMPARED if group == "models" else ():
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


def main(group, weights_path, results_path):
    """Computes a group with the weights in one file, and writes the results into another."""
    found = compute(group, np.load(weights_path))
    flat = {
        f"{name}/{kind}/{i}": x
        for name, (_, kinds) in found.items()
        for kind, arrays_of in kinds.items()
        for i, x in enumerate(arrays_of)
    }
    np.savez(results_path, backend=keras.backend.backend(), **flat)


if __name__ == "__main__":
    main(*sys.argv[1:])
