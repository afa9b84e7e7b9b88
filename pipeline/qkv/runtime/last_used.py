"""A memory of limited size: the values that were used last."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

Value = TypeVar("Value")


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
