"""The slices of a batch: parts of nearly equal numbers of sentences, which a device computes in parallel."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from ..layers.keras_layers import Dense
from ..text.batch import Batch
from .optimizers import join, split
from .seeds import generators


class Slices:
    """Computes a sum over a batch as the sum over its slices, in parallel.

    The random numbers are the same as if the slices were computed one after another.

    All slices call one graph, which is traced once. The states of the model's random number generators are inputs of
    the graph. It does not change their variables, since calls that change a variable wait for one another. If a layer
    of a plugin changes another variable, the calls do wait.

    Args:
        model: the model whose generators `function` of `sum` uses.
        number: the number of slices of a batch.
    """

    def __init__(self, model: keras.Model, number: int) -> None:
        self._number = number
        self._seeds = generators(model)
        self._dtype = model.dtype_policy.compute_dtype
        self._weights: dict[int, Any] = {}  # the weights cast by `cast_weights`, by the `id` of the variable
        layers = [layer for layer in model._flatten_layers() if isinstance(layer, Dense)]
        self._cast = [variable for layer in layers for variable in layer.variables if variable.dtype != self._dtype]
        _make_global_generator()  # made while a graph is traced, it would have the graph traced again

    def sum(self, function: Callable[[Batch], list[Any]], batch: Batch) -> list[Any]:
        """Returns the sum over the slices of each tensor in the list that `function` returns for a slice.

        Part of a graph. `function` is traced once. Afterwards the states of the generators are those after the draws of
        all slices.
        """
        _make_global_generator()  # if Keras' session was cleared meanwhile
        draws: Counter[int] = Counter()

        def compute_slice(states, *tensors):
            nonlocal draws
            with tf.device("CPU:0"):  # a GPU would copy each to the host, where random numbers start from
                each_state = tf.unstack(states, len(self._seeds)) if self._seeds else []
            with _CountDraws(list(zip(self._seeds, each_state, strict=True)), self._weights) as scope:
                values = function(batch.replace_arrays(tensors))
            draws = scope.draws
            return values

        graph = tf.function(compute_slice, autograph=False, experimental_attributes={"_noinline": True})
        states = tf.stack([seed.value for seed in self._seeds]) if self._seeds else tf.zeros((0, 2))
        sums = []
        for rows in _split_batch(batch, self._number):
            sums.append(graph(states, *rows.arrays))
            states += tf.constant([[0, draws[id(seed)]] for seed in self._seeds], states.dtype, states.shape)
        for seed, state in zip(self._seeds, tf.unstack(states, len(self._seeds)), strict=True):
            seed.assign(state)
        return [tf.add_n(values) for values in zip(*sums, strict=True)]

    @contextmanager
    def cast_weights(self) -> Iterator[None]:
        """Casts the weights of all dense layers to the compute dtype together, for the block, in `function` of `sum`.

        Each layer would otherwise cast its own, and cast their gradients back: on a GPU small operations that wait for
        each other. Open the block within the gradient tape.
        """
        if self._cast:
            tensors = _cast_together([variable.value for variable in self._cast], self._dtype)
            self._weights.update(zip(map(id, self._cast), tensors, strict=True))
        try:
            yield
        finally:
            self._weights.clear()


def _cast_together(values: Sequence[Any], dtype: str) -> list[Any]:
    """Casts tensors of one type in one operation, and their gradients back in another one."""
    shapes = [value.shape for value in values]

    @tf.custom_gradient
    def cast(*values):
        def gradient(*upstream):
            return split(tf.cast(join(upstream), values[0].dtype), shapes)

        return split(tf.cast(join(values), dtype), shapes), gradient

    return cast(*values)


class _CountDraws(keras.StatelessScope):
    """A Keras scope that counts the draws of random number generators without changing their variables.

    Other variables change as they do without the scope.

    Args:
        states: pairs of a generator's variable and the state from which it draws.
        weights: the values of further variables, by the `id` of the variable.

    Attributes:
        draws: the number of draws by the `id` of the variable.
    """

    def __init__(self, states: Sequence[tuple[keras.Variable, Any]], weights: Mapping[int, Any]) -> None:
        super().__init__(states)
        self.draws: Counter[int] = Counter()
        self._weights = weights

    def get_current_value(self, variable: keras.Variable) -> Any:
        return self._weights[id(variable)] if id(variable) in self._weights else super().get_current_value(variable)

    def add_update(self, update) -> None:
        variable, value = update
        if id(variable) not in self.state_mapping:
            variable.value.assign(value)
            return
        self.draws[id(variable)] += 1
        super().add_update(update)


def _make_global_generator() -> None:
    """Makes Keras create its global random number generator. Within `_CountDraws` it would be created without a value.

    With several replicas this does nothing: each replica's thread would create it again in every trace, which a graph
    does not allow.
    """
    if not tf.distribute.has_strategy():
        with tf.init_scope():
            keras.random.uniform(())


def _split_batch(batch: Batch, number: int) -> Iterator[Batch]:
    """Yields `number` slices of a batch in order. Their numbers of sentences differ by one at most."""
    rows = tf.shape(batch.source)[0]
    bounds = [rows * i // number for i in range(number + 1)]
    for start, end in pairwise(bounds):
        yield batch.rows(start, end)
