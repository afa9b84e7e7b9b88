"""TensorFlow graphs for long-running processes. They are traced again if their model changes, and can be freed."""

import gc
import operator
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework.ops import gradient_registry

MOST_GRAPHS = 8
"""The largest number of graphs in a `GraphCache`. A graph takes about 10 MB."""

Value = TypeVar("Value")


class ModelGraph:
    """A function of a model, compiled to a TensorFlow graph. Calling the object calls the function.

    The function is traced at the first call. New values of the model's weights are used at once. If the model gets
    other variables, for example by `enable_lora`, `quantize` or a replaced layer, the function is traced again. Several
    threads may call the object.

    Args:
        model: the model, or any object with an attribute `variables`.
        function: a function from tensors to tensors, which uses the model. No gradient passes through its graph.
        signature: a `tf.TensorSpec` for each argument, the `input_signature` of `tf.function`.
    """

    def __init__(self, model: Any, function: Callable[..., Any], signature: Sequence[Any]) -> None:
        self._model, self._function, self._signature = model, function, signature
        self._traced: tuple[list[Any], Any] | None = None
        self._lock = Lock()

    def __call__(self, *arguments: Any) -> Any:
        graph = self._current()  # traced outside the block, since the function itself may use a tape
        with record.stop_recording():  # a caller's `GradientTape` would need gradients that are deleted
            return graph(*arguments)

    def get_concrete_function(self) -> Any:
        """Returns the traced function as a `ConcreteFunction` of TensorFlow."""
        return self._current().get_concrete_function()

    def _current(self) -> Any:
        """Returns the `tf.function`, traced again if the model has other variables than at the last trace."""
        with self._lock:
            variables = self._model.variables
            if self._traced is None or not _same(self._traced[0], variables):
                graph = tf.function(self._function, input_signature=self._signature, autograph=False)
                forget_gradients(graph.get_concrete_function().graph)
                is_traced_again = self._traced is not None
                self._traced = variables, graph
                if is_traced_again:
                    gc.collect()  # see `GraphCache`
            return self._traced[1]


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Returns whether two sequences have the same objects in the same order."""
    return len(first) == len(second) and all(map(operator.is_, first, second))


def forget_gradients(graph: tf.Graph) -> None:
    """Deletes the gradient functions of every `custom_gradient` in a traced graph, to free their memory.

    TensorFlow would keep these functions and the graph until the process ends. After the call, no gradient can be
    computed through the graph.
    """
    definition = graph.as_graph_def()
    for nodes in (definition.node, *(function.node_def for function in definition.library.function)):
        for node in nodes:
            if "_gradient_op_type" in node.attr:
                gradient_registry._registry.pop(node.attr["_gradient_op_type"].s.decode(), None)


class LastUsed:
    """A cache of the most recently used values (LRU cache). Several threads may use it.

    Args:
        most: the largest number of values in the cache.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Returns the value of a key. If the cache does not have the value, it calls `make` and stores the result.

        If the cache has too many values then, the least recently used one is removed.
        """
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
        """Called after a value was removed from the cache; does nothing here."""


class GraphCache(LastUsed):
    """A cache of the `MOST_GRAPHS` most recently used graphs. A value is a `ModelGraph` or an object that has some."""

    def __init__(self) -> None:
        super().__init__(MOST_GRAPHS)

    def after_forgetting(self) -> None:
        """Frees the memory of the removed graph at once.

        A graph has reference cycles, which Python's garbage collector would free much later.
        """
        gc.collect()
