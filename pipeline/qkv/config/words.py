"""The settings of words: what counts as one on each side of the text."""

from typing import Annotated

from pydantic import Field

from .base import OneOf, Settings
from .names import WORD_UNITS, describe

Unit = Annotated[str, OneOf(WORD_UNITS)]


class WordSettings(Settings):
    """What counts as a word where attention is shown and words are aligned."""

    source: Unit | None = Field(
        default=None,
        description=f"What counts as a word of the source. {describe(WORD_UNITS)}. null: spaces, or subwords if the "
        "text is found to have no spaces between words.",
    )
    target: Unit | None = Field(default=None, description="The same for the target.")
