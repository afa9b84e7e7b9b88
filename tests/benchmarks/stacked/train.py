"""Trains the stack of candidates: `python -m tests.benchmarks.stacked.train RUN FOLDER`, see `__init__.py`.

RUN is the folder of a run of the best preset, finished or not; only its `encoded/` is read. FOLDER gets `results.json`,
the validation set as each model translates it, and the weights of those that `candidates.KEPT` names, in float16.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import optimizer
from .buckets import epoch, make_buckets, padded, read_text
from .candidates import CANDIDATES, KEPT, Candidate
from .loss import loss, validation_loss
from .random_bits import mixed
from .search import translate
from .weights import initial_weights, to_keras


class Shape(NamedTuple):
    """The architecture of all models: that of the best preset.

    - width, hidden, heads, layers, vocabulary: D, F, H, L of either side, V.
    """

    width: int = 192
    hidden: int = 384
    heads: int = 4
    layers: int = 4
    vocabulary: int = 5000


WARMUP = 800
LONGEST = 48  # tokens of a validation sentence or its translation; the longest has as many
PART = 2  # models in a file of weights


def make_update(total: int, heads: int, warmup: float = WARMUP, dtype=jnp.bfloat16):
    """Returns the function that makes one update of every model: `(state, settings, rows, source, target, number) ->
    (state, cross-entropy)`.

    Args:
        total: the update at which the learning rate reaches zero.
        heads: H.
        warmup: number of updates over which it rises.
        dtype: of the products of the model.
    """

    def update(state, settings, rows, source, target, number):
        sides = jnp.stack([source[rows], target[rows]])  # of one width
        source, target = jnp.where(settings.reverse, sides[::-1], sides)
        seed = mixed(settings.seed, number)
        gradients, entropy = jax.grad(loss, has_aux=True)(state.weights, settings, source, target, seed, heads, dtype)
        count = number.astype(jnp.float32) + 1
        rate = optimizer.learning_rate(settings.learning_rate, count, total, warmup)
        return optimizer.apply(state, gradients, settings, count, rate), entropy

    return jax.vmap(update, in_axes=(0, 0, 0, None, None, None))


def stacked_settings(candidates: list[Candidate]) -> Candidate:
    """Returns a `Candidate` of arrays `(N,)`."""
    types = {"seed": np.uint32, "reverse": bool}
    columns = zip(*candidates, strict=True)
    return Candidate(
        *(
            jnp.asarray(np.array(column, types.get(name, np.float32)))
            for name, column in zip(Candidate._fields, columns, strict=True)
        )
    )


class Stack:
    """The models, from first weights to translations.

    Args:
        candidates: of each model.
        text: pairs of training, as from `read_text`.
        updates: number of updates.
        shape: the architecture.
    """

    def __init__(self, candidates: list[Candidate], text, updates: int, shape: Shape) -> None:
        self.candidates, self.updates, self.shape = candidates, updates, shape
        self.buckets = make_buckets(text)
        sizes = shape.width, shape.hidden, shape.layers, shape.vocabulary
        models = [initial_weights(model.seed, *sizes) for model in candidates]
        self.state = optimizer.start(jax.tree.map(lambda *arrays: jnp.stack(arrays), *models))
        self.settings = stacked_settings(candidates)

    def compile(self):
        """Compiles the update for every width, side by side."""
        warmup = min(WARMUP, self.updates // 6)
        update = jax.jit(make_update(self.updates, self.shape.heads, warmup), donate_argnums=0)

        def compiled(bucket):
            rows = jax.ShapeDtypeStruct((len(self.candidates), bucket.batch), jnp.int32)
            return update.lower(self.state, self.settings, rows, bucket.source, bucket.target, np.int32(0)).compile()

        with ThreadPoolExecutor() as pool:
            return dict(zip(self.buckets, pool.map(compiled, self.buckets.values()), strict=True))

    def train(self, say) -> None:
        """Makes all updates."""
        compiled = self.compile()
        say("compiled")
        texts = {width: (jnp.asarray(b.source), jnp.asarray(b.target)) for width, b in self.buckets.items()}
        generator, number, started = np.random.default_rng(0), 0, time.monotonic()
        while number < self.updates:
            for width, rows in epoch(self.buckets, generator, len(self.candidates))[: self.updates - number]:
                arguments = self.state, self.settings, rows, *texts[width], np.int32(number)
                self.state, entropies = compiled[width](*arguments)
                number += 1
                if number % 250 == 0 or number == self.updates:
                    entropies = np.asarray(entropies)  # waits, so that the time is that of the device
                    each = 1000 * (time.monotonic() - started) / number
                    say(f"update {number}, {each:.1f} ms each, cross-entropy {entropies.min():.3f}")

    def validate(self, text) -> list[dict]:
        """Returns the validation loss and the translations, as ids, of each model."""
        sides, heads = [jnp.asarray(padded(side, LONGEST)) for side in text], self.shape.heads
        measure = jax.jit(lambda w, source, target: lax.map(lambda one: validation_loss(one, source, target, heads), w))
        search = jax.jit(lambda w, source: lax.map(lambda one: translate(one, source, heads, LONGEST), w))
        results = {}
        for reverse in {model.reverse for model in self.candidates}:
            source, target = sides[::-1] if reverse else sides
            weights = self.state.weights
            results[reverse] = np.asarray(measure(weights, source, target)), np.asarray(search(weights, source))
        return [
            {"validation loss": float(results[model.reverse][0][i]), "ids": results[model.reverse][1][i]}
            for i, model in enumerate(self.candidates)
        ]

    def weights_of(self, model: int):
        """Returns the weights of a model as NumPy arrays."""
        return jax.tree.map(lambda array: np.asarray(array[model]), self.state.weights)


def main() -> None:
    """Trains, and writes what comes of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run of the best preset; its encoded/ is read")
    parser.add_argument("folder", type=Path, help="for the results")
    parser.add_argument("--updates", type=int, default=9000, help="of each model (default: 9000)")
    parser.add_argument("--only", nargs="+", choices=CANDIDATES, default=list(CANDIDATES), metavar="NAME")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    say, names = partial(print, flush=True), arguments.only
    stack = Stack([CANDIDATES[name] for name in names], read_text(arguments.run, "train"), arguments.updates, Shape())
    say(f"{len(names)} models on {jax.devices()[0].device_kind}")
    stack.train(say)
    results = stack.validate(read_text(arguments.run, "validation"))
    write_results(arguments.folder, names, stack, results)


def write_results(folder: Path, names: list[str], stack: Stack, results: list[dict]) -> None:
    """Writes results, translations and kept weights."""
    np.savez_compressed(folder / "translations.npz", **{n: r.pop("ids") for n, r in zip(names, results, strict=True)})
    rows = [
        {"name": name, "updates": stack.updates, **model._asdict(), **result}
        for name, model, result in zip(names, stack.candidates, results, strict=True)
    ]
    (folder / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    kept = [name for name in names if name in KEPT]
    for part in range(0, len(kept), PART):
        arrays = {}
        for name in kept[part : part + PART]:
            variables = to_keras(stack.weights_of(names.index(name)))
            arrays |= {f"{name}|{path}": array.astype("float16") for path, array in variables.items()}
        np.savez(folder / f"weights_{part // PART}.npz", **arrays)


if __name__ == "__main__":
    main()
