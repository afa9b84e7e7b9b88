"""What is done with a value on a model's way: it is read, or replaced.

A value that a loop computes position by position is visited as often; its parts are rows of one array, along the last
axis but one.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

import keras
import numpy as np
from keras import ops

from ..errors import InputError


class Visit(Protocol):
    """Takes a value `(1, ..., T, size)` by its name, and returns the one with which the model goes on."""

    def __call__(self, name: str, value: Any) -> Any: ...

    def lack(self, name: str, reason: str) -> None:
        """Hears that a value which other models have does not exist in this one."""


class Read:
    """Reads all values.

    Attributes:
        lacking: for each value that there could be and is not, the reason.
    """

    def __init__(self) -> None:
        self.lacking: dict[str, str] = {}
        self._parts: dict[str, list[np.ndarray]] = {}

    def __call__(self, name: str, value: Any) -> Any:
        self._parts.setdefault(name, []).append(keras.ops.convert_to_numpy(value)[0])
        return value

    def lack(self, name: str, reason: str) -> None:
        self.lacking[name] = reason

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays by name, without the batch axis."""
        return {name: np.concatenate(parts, axis=-2) for name, parts in self._parts.items()}


class Replace:
    """Replaces values.

    Args:
        given: arrays of `Read.arrays`.
    """

    def __init__(self, given: Mapping[str, np.ndarray]) -> None:
        self.given = given
        self.rows: Counter[str] = Counter()

    def __call__(self, name: str, value: Any) -> Any:
        if name not in self.given:
            return value
        first, count = self.rows[name], value.shape[-2]
        other = self.given[name][..., first : first + count, :]
        self.rows[name] += count
        if other.shape != tuple(value.shape[1:]):
            raise self._refusal(name)
        return ops.convert_to_tensor(other[None])

    def lack(self, name: str, reason: str) -> None:
        """A name that is lacking was refused when the values were read."""

    def check_all_used(self) -> None:
        """Checks that no rows are left over.

        Raises:
            InputError: the other sentence has fewer tokens.
        """
        for name, array in self.given.items():
            if self.rows[name] != array.shape[-2]:
                raise self._refusal(name)

    def _refusal(self, name: str) -> InputError:
        return InputError(
            f"{name}: expected clean and corrupted sentences of the same number of tokens, found others: that of the "
            f"clean one has the shape {self.given[name].shape}; change words for others of as many tokens"
        )
