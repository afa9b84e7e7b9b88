"""The slices of a batch, equal but for a sentence, which a device computes side by side."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from ..text.batch import Batch
from .seeds import generators


class SlicedSums:
    """The sums over a batch, computed as the sums over its slices.

    All slices call one graph, which is traced and prepared once. It is given the states of the model's random number
    generators, as if one slice had been computed after the other, and changes none of them: calls of a graph that
    changes a variable wait for one another, as they do where a layer of a plugin keeps further variables.
    """

    def __init__(self, model: keras.Model, function: Callable[[Batch], list[Any]], slices: int) -> None:
        self._function = function
        self._slices = slices
        self._seeds = generators(model)
        self._draws: Counter[int] = Counter()
        self._graph = tf.function(self._sums, autograph=False, experimental_attributes={"_noinline": True})
        _make_global_generator()  # made while a graph is traced, it would have the graph traced again

    def __call__(self, batch: Batch) -> list[Any]:
        """Returns the sums; part of a graph."""
        _make_global_generator()  # if Keras' session was cleared meanwhile
        states = [seed.value * 1 for seed in self._seeds]
        sums = []
        for part in _split_batch(batch, self._slices):
            sums.append(self._graph(states, *part.arrays))
            states = [
                state + tf.constant([0, self._draws[id(seed)]], state.dtype)
                for state, seed in zip(states, self._seeds, strict=True)
            ]
        for seed, state in zip(self._seeds, states, strict=True):
            seed.assign(state)
        return [tf.add_n(values) for values in zip(*sums, strict=True)]

    def _sums(self, states, *tensors) -> list[Any]:
        with _DrawsCounted(list(zip(self._seeds, states, strict=True))) as scope:
            sums = self._function(Batch(*tensors))
        self._draws = scope.draws
        return sums


class _DrawsCounted(keras.StatelessScope):
    """Counts the draws of some random number generators, whose variables stay as they are. Others are updated."""

    def __init__(self, states) -> None:
        super().__init__(states)
        self.draws: Counter[int] = Counter()

    def add_update(self, update) -> None:
        variable, value = update
        if id(variable) not in self.state_mapping:
            variable.value.assign(value)
            return
        self.draws[id(variable)] += 1
        super().add_update(update)


def _make_global_generator() -> None:
    """Has Keras make its global generator, if it is missing: within `_DrawsCounted`, it would stay without a value.

    A replica's thread makes it anew in every trace, which no graph allows.
    """
    if not tf.distribute.has_strategy():
        with tf.init_scope():
            keras.random.uniform(())


def _split_batch(batch: Batch, number: int) -> Iterator[Batch]:
    rows = tf.shape(batch.source)[0]
    bounds = [rows * i // number for i in range(number + 1)]
    for start, end in pairwise(bounds):
        yield batch.rows(start, end)
