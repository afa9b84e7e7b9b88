"""Trains the stack of candidates: `python -m tests.benchmarks.stacked.train RUN FOLDER`, see `__init__.py`.

RUN is the folder of a run of the best preset, finished or not; only its `encoded/` is read. FOLDER gets `results.json`,
the validation set as each model translates it, and in `weights/` those of the models that `candidates.KEPT` names, in
float16.
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
from .buckets import epoch, make_buckets, padded, read_text, widths_of
from .candidates import CANDIDATES, KEPT, Candidate
from .loss import loss, validation_loss
from .random_bits import mixed
from .search import translate
from .weights import initial_weights, to_keras


class Architecture(NamedTuple):
    """That of all models; by default of the best preset.

    - width, hidden, heads, layers, vocabulary: D, F, H, L of either side, V.
    """

    width: int = 192
    hidden: int = 384
    heads: int = 4
    layers: int = 4
    vocabulary: int = 5000


WARMUP = 800


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
        architecture: of all models.
    """

    def __init__(self, candidates: list[Candidate], text, updates: int, architecture: Architecture) -> None:
        self.candidates, self.updates, self.heads = candidates, updates, architecture.heads
        self.buckets = make_buckets(text)
        width, hidden, _, layers, vocabulary = architecture
        models = [initial_weights(model.seed, width, hidden, layers, vocabulary) for model in candidates]
        self.state = optimizer.start(jax.tree.map(lambda *arrays: jnp.stack(arrays), *models))
        self.settings = stacked_settings(candidates)

    def compile(self):
        """Compiles the update for every width, side by side."""
        warmup = max(1, min(WARMUP, self.updates // 6))
        update = jax.jit(make_update(self.updates, self.heads, warmup), donate_argnums=0)

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

    def validate(self, text) -> tuple[list[float], list[np.ndarray]]:
        """Returns the validation loss of each model, and its translations as ids, no longer than the longest pair."""
        longest, heads = int(widths_of(text).max()), self.heads
        sides = [jnp.asarray(padded(side, longest)) for side in text]
        measure = jax.jit(lambda w, source, target: lax.map(lambda one: validation_loss(one, source, target, heads), w))
        search = jax.jit(lambda w, source: lax.map(lambda one: translate(one, source, heads, longest), w))
        measured, found = {}, {}
        for reverse in {model.reverse for model in self.candidates}:
            source, target = sides[::-1] if reverse else sides
            measured[reverse] = np.asarray(measure(self.state.weights, source, target))
            found[reverse] = np.asarray(search(self.state.weights, source))
        own = [(model.reverse, number) for number, model in enumerate(self.candidates)]
        return [float(measured[side][number]) for side, number in own], [found[side][number] for side, number in own]

    def weights_of(self, model: int):
        """Returns the weights of a model as NumPy arrays."""
        return jax.tree.map(lambda array: np.asarray(array[model]), self.state.weights)


def write_results(folder: Path, names: list[str], stack: Stack, losses, translations) -> None:
    """Writes results, translations and kept weights."""
    for number, name in enumerate(names):
        if name in KEPT:
            (folder / "weights").mkdir(exist_ok=True)
            variables = to_keras(stack.weights_of(number))
            np.savez(folder / "weights" / name, **{path: array.astype("float16") for path, array in variables.items()})
    np.savez_compressed(folder / "translations.npz", **dict(zip(names, translations, strict=True)))
    rows = [
        {"name": name, "updates": stack.updates, **model._asdict(), "validation loss": loss_of_model}
        for name, model, loss_of_model in zip(names, stack.candidates, losses, strict=True)
    ]
    (folder / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def main() -> None:
    """Trains, and writes what comes of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run of the best preset; its encoded/ is read")
    parser.add_argument("folder", type=Path, help="for the results")
    parser.add_argument("--updates", type=int, default=9000, help="of each model (default: 9000)")
    parser.add_argument("--only", nargs="+", choices=CANDIDATES, default=list(CANDIDATES), metavar="NAME", help="some")
    options = parser.parse_args()
    folder, names, architecture, say = options.folder, options.only, Architecture(), partial(print, flush=True)
    if (folder / "results.json").exists():
        raise SystemExit(f"{folder}: has the results of a stack already; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    text, validation = (read_text(options.run, name, architecture.vocabulary) for name in ("train", "validation"))
    stack = Stack([CANDIDATES[name] for name in names], text, options.updates, architecture)
    say(f"{len(names)} models on {jax.devices()[0].device_kind}")
    stack.train(say)
    write_results(folder, names, stack, *stack.validate(validation))


if __name__ == "__main__":
    main()
