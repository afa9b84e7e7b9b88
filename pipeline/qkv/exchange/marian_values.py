"""The values of a file of JSON from others, each checked when it is asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.json import read_json_object


def is_number(value: Any, least: int, most: int) -> bool:
    """Returns whether a value of JSON is an integer of a range."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


class Values:
    """The values of a file of JSON, with those of another where it has none.

    Args:
        path: the file.
        otherwise: the values of the other.

    Raises:
        InputError: the file cannot be read; and of every method, a value is not what it must be.
    """

    def __init__(self, path: Path, otherwise: Mapping[str, Any] | None = None) -> None:
        self.path = path
        try:
            own = read_json_object(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(
                f"{path}: cannot be read: {reason}; expected the file that save_pretrained wrote"
            ) from None
        self.given = {**(otherwise or {}), **own}

    def refused(self, key: str, expected: str) -> InputError:
        """Returns the error that names a key, what was expected and what was found."""
        found = repr(self.given[key])[:60] if key in self.given else "nothing"
        return InputError(f"{self.path}: {key}: expected {expected}, found {found}; this model cannot be imported")

    def number(self, key: str, least: int, most: int, default: int | None = None) -> int:
        """Returns an integer of a range; a list of one is that one."""
        value = self.given.get(key)
        value = default if value is None else value
        if isinstance(value, list) and len(value) == 1:  # eos_token_id may be a list
            value = value[0]
        if not is_number(value, least, most):
            raise self.refused(key, f"an integer from {least} to {most}")
        return int(value)  # type: ignore[arg-type]

    def equal(self, key: str, other: str, most: int) -> int:
        """Returns an integer that two keys must agree on."""
        if self.given.get(other) != self.given.get(key):
            raise self.refused(other, f"as {key}, {self.given.get(key)!r:.60}")
        return self.number(key, 1, most)

    def switch(self, key: str, default: bool) -> bool:
        """Returns true or false."""
        value = self.given.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.refused(key, "true or false")
        return value

    def share(self, key: str) -> float:
        """Returns a number from 0 to below 1; 0 if it is not given."""
        value = self.given.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise self.refused(key, "a number from 0 to below 1")
        return float(value)

    def choice(self, key: str, names: Mapping[str, str]) -> str:
        """Returns our name for one of theirs."""
        value = self.given.get(key)
        if not isinstance(value, str) or value not in names:
            raise self.refused(key, f"one of {', '.join(names)}")
        return names[value]
