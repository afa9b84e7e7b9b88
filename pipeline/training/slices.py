"""The slices of a batch, which a device computes side by side."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from ..text.batches import Batch


class SlicedSums:
    """Computes sums over a batch as the sums over its slices.

    All slices call one graph, which is traced and prepared once, and which changes no variable: calls of a graph that
    does would wait for one another. So each call is given the states of the model's random number generators, as if
    one slice had been computed after the other.

    Args:
        model: draws random numbers.
        function: returns tensors that depend on the `Batch` of a slice.
        slices: into how many slices a batch is cut.
    """

    def __init__(self, model: keras.Model, function: Callable[[Batch], list[Any]], slices: int) -> None:
        self._function = function
        self._slices = slices
        self._seeds = [variable for variable in model.variables if variable.name == "seed_generator_state"]
        self._draws: Counter[int] = Counter()
        self._graph = tf.function(self._sums, autograph=False, experimental_attributes={"_noinline": True})

    def __call__(self, batch: Batch) -> list[Any]:
        """Returns the sums; part of a graph."""
        start = [seed.value * 1 for seed in self._seeds]
        states, sums = start, []
        for part in _cut(batch, self._slices):
            sums.append(self._graph(states, *part.arrays))
            states = [self._after(state, seed) for state, seed in zip(states, self._seeds, strict=True)]
        for seed, state in zip(self._seeds, states, strict=True):
            seed.assign(state)
        return [tf.add_n(values) for values in zip(*sums, strict=True)]

    def _sums(self, states, *tensors) -> list[Any]:
        with _DrawsCounted(list(zip(self._seeds, states, strict=True))) as scope:
            sums = self._function(Batch(*tensors))
        self._draws = scope.draws
        return sums

    def _after(self, state, seed):
        """Returns the state of a generator after a slice."""
        return state + tf.constant([0, self._draws[id(seed)]], state.dtype)


class _DrawsCounted(keras.StatelessScope):
    """Counts how often each random number generator is used, and leaves their variables as they are."""

    def __init__(self, states) -> None:
        super().__init__(states)
        self.draws: Counter[int] = Counter()

    def add_update(self, update) -> None:
        self.draws[id(update[0])] += 1
        super().add_update(update)


def _cut(batch: Batch, number: int) -> Iterator[Batch]:
    """Cuts a batch into slices of about as many sentences each."""
    rows = tf.shape(batch.source)[0]
    bounds = [rows * i // number for i in range(number + 1)]
    for start, end in pairwise(bounds):
        yield batch.rows(start, end)
