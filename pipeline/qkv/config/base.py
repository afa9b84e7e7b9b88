"""The base class and the types of all sections of settings."""

import unicodedata
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationInfo, field_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ..errors import did_you_mean
from ..files.paths import is_unicode

MOST_UNITS = 65_536
"""The largest width of a layer."""

MOST_COUNTED = 1_000_000_000
"""The largest number of updates, epochs, sentences and the like: more than a training of years has."""

Probability = Annotated[float, Field(ge=0, lt=1)]


def composed(value: str | None) -> str | None:
    """Returns text that a config gives to the model in the normal form of all text, see `text.line.compose`."""
    return value if value is None else unicodedata.normalize("NFC", value)


class OneOf:
    """Annotates text that must be one of some names.

    Unlike those of `typing.Literal`, the names are looked up when a value is checked, so that plugins can add to them.

    Args:
        names: a table of `qkv.config.names`, or a function that lists names.
        extensible: whether plugins can add to them.
    """

    def __init__(self, names: Iterable[str] | Callable[[], Iterable[str]], extensible: bool = False) -> None:
        self._names = names
        self._extensible = extensible

    @property
    def names(self) -> list[str]:
        """The names as they are now."""
        return list(self._names() if callable(self._names) else self._names)

    @property
    def expectation(self) -> str:
        """What is expected, in words."""
        return f"one of {', '.join(self.names)}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: str) -> str:
        if value not in self.names:
            hint = did_you_mean(value, self.names)
            if self._extensible:
                hint += "; the name of a plugin needs --plugins FILE"
            raise ValueError(f"expected {self.expectation}, found {value!r}{hint}")
        return value


class Settings(BaseModel):
    """A section of settings: unknown keys are refused, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_true_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and field.annotation is not bool:
            raise PydanticCustomError("switch", "true or false")  # pydantic would read true as the number 1
        if isinstance(value, str) and ("\0" in value or not is_unicode(value)):
            raise ValueError(f"expected text without zero bytes and in UTF-8, found {value[:40]!r}")
        return value
