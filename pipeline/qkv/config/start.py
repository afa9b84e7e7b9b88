"""The settings of training about what it starts from, what it leaves as it is, and what else follows it."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from .base import OneOf, Settings
from .names import CALLBACKS, MODEL_PARTS, REFUSED_CALLBACKS, describe

PLAIN = (str, int, float, bool, type(None))
CallbackName = Annotated[str, OneOf(lambda: CALLBACKS, extensible=True)]


class CallbackSettings(Settings):
    """A callback, and the arguments that it is made with."""

    name: CallbackName = Field(description=f"Which callback. {describe(CALLBACKS)}.")
    arguments: dict[str, Any] = Field(default={}, description="Its arguments: text, numbers, true, false, null.")

    @field_validator("name", mode="before")
    @classmethod
    def _refuse_what_has_a_setting(cls, value: Any) -> Any:
        if isinstance(value, str) and (name := value.removeprefix("keras.callbacks.")) in REFUSED_CALLBACKS:
            raise ValueError(f"keras.callbacks.{name} cannot be used here: {REFUSED_CALLBACKS[name]}")
        return value.removeprefix("keras.callbacks.") if isinstance(value, str) else value

    @field_validator("arguments")
    @classmethod
    def _check_arguments(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, argument in value.items():
            items = argument if isinstance(argument, list) else [argument]
            if not all(isinstance(item, PLAIN) for item in items):
                raise ValueError(f"{name}: expected text, a number, true, false, null or a list of these")
        return value


class StartSettings(Settings):
    """What a training starts from."""

    start_from: Path | None = Field(
        default=None,
        description="Folder of a run, trained, in training or imported, whose weights and tokenizer the training "
        "starts from; relative to the working directory, and read once: the new run keeps a copy. null: fresh weights.",
    )
    freeze: tuple[Annotated[str, OneOf(MODEL_PARTS)], ...] = Field(
        default=(),
        description=f"Parts of the model whose weights training does not change. {describe(MODEL_PARTS)}.",
    )
    callbacks: tuple[CallbackSettings, ...] = Field(
        default=(),
        description="Further callbacks, called after the run's own: a list of {name, arguments}, see "
        f"pipeline/qkv/training/README.md. {describe(CALLBACKS)}.",
    )
