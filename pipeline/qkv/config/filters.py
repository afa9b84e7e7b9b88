"""The settings of filters: which further pairs are left out of the training text."""

from typing import Annotated

from pydantic import Field, field_validator

from .base import OneOf, Settings
from .names import SCRIPTS


class FilterSettings(Settings):
    """Which further training pairs are left out. All are off unless they are set; `corpus_report.json` counts what each
    leaves out."""

    source_script: Annotated[str, OneOf(SCRIPTS)] | None = Field(
        default=None, description="Script of the source, such as Latin; null: not judged."
    )
    target_script: Annotated[str, OneOf(SCRIPTS)] | None = Field(
        default=None, description="Script of the target; null: not judged."
    )
    script_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Leave out pairs with a side of which fewer letters than this share are of its script.",
    )
    identical: bool = Field(
        default=False,
        description="Whether to leave out pairs with the same text on both sides, white space and capitals apart.",
    )
    digits: bool = Field(
        default=False,
        description="Whether to leave out pairs whose sides have different digits, whatever their order and script.",
    )
    max_character_ratio: float | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Leave out pairs whose longer side, of more than 20 characters, has more than this many times as "
        "many characters as the shorter; null: keep them.",
    )
    near_duplicates: bool = Field(
        default=False,
        description="Whether to leave out pairs that equal an earlier one but for capitals, digits, marks and spaces.",
    )

    @field_validator("source_script", "target_script", mode="before")
    @classmethod
    def _spell_script(cls, value: object) -> object:
        return value.title() if isinstance(value, str) else value
