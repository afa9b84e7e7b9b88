"""TensorFlow graphs in a process that lives long: they follow their model, and the last few are kept."""

import gc
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework.ops import gradient_registry

MOST_GRAPHS = 8
"""The graphs that a `GraphCache` keeps; a graph takes some 10 MB."""

Value = TypeVar("Value")


class ModelGraph:
    """A graph of a function that reads a model.

    It is traced at the first call. Weights that are assigned later count, since a graph reads variables. It is traced
    again if the model has other variables than before, as after `enable_lora`, `quantize` or a replaced layer.

    Args:
        model: the model, or any object with its `variables`.
        function: takes and returns tensors. No gradient passes through its graph.
        signature: of the function's arguments, see `tf.function`.
    """

    def __init__(self, model: Any, function: Callable[..., Any], signature: Sequence[Any]) -> None:
        self._model, self._function, self._signature = model, function, signature
        self._traced: tuple[list[Any], Any] | None = None
        self._lock = Lock()

    def __call__(self, *arguments: Any) -> Any:
        graph = self._current()  # traced outside the block: the function itself may use a tape
        with record.stop_recording():  # a caller's `GradientTape` would ask for gradients that are forgotten
            return graph(*arguments)

    def get_concrete_function(self) -> Any:
        """Returns TensorFlow's `ConcreteFunction`."""
        return self._current().get_concrete_function()

    def _current(self) -> Any:
        with self._lock:
            variables = self._model.variables
            if self._traced is None or not _same(self._traced[0], variables):
                graph = tf.function(self._function, input_signature=self._signature, autograph=False)
                forget_gradients(graph.get_concrete_function().graph)
                is_renewed, self._traced = self._traced is not None, (variables, graph)
                if is_renewed:
                    gc.collect()  # see `GraphCache`
            return self._traced[1]


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(map(lambda one, other: one is other, first, second))


def forget_gradients(graph: tf.Graph) -> None:
    """Forgets the gradients of every `custom_gradient` in a traced graph, which cannot be differentiated from then on.

    TensorFlow keeps them in a table for the life of the process, and with them the graph.
    """
    definition = graph.as_graph_def()
    for nodes in (definition.node, *(function.node_def for function in definition.library.function)):
        for node in nodes:
            if "_gradient_op_type" in node.attr:
                gradient_registry._registry.pop(node.attr["_gradient_op_type"].s.decode(), None)


class LastUsed:
    """Keeps the values that were used last, and forgets the others. Several threads may use it.

    Args:
        most: how many values are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Returns the value of a key, which is made if there is none."""
        with self._lock:
            value = self._values[key] if key in self._values else make()
            self._values[key] = value
            self._values.move_to_end(key)
            is_full = len(self._values) > self._most
            if is_full:
                self._values.popitem(last=False)
        if is_full:
            self.after_forgetting()
        return value

    def after_forgetting(self) -> None:
        """Called after a value was forgotten."""


class GraphCache(LastUsed):
    """The graphs that were used last, each a `ModelGraph` or an object that holds some."""

    def __init__(self) -> None:
        super().__init__(MOST_GRAPHS)

    def after_forgetting(self) -> None:
        """Frees the memory at once: a graph is a cycle, and Python would look for those after many graphs only."""
        gc.collect()
