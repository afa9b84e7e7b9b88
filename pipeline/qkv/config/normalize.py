"""The settings of the normalisation of typed text."""

from typing import Self

from pydantic import Field, model_validator

from .base import Settings


class NormalizeSettings(Settings):
    """What is done to a sentence that a person has written, so that it looks like the training text.

    Sentences that look like it already stay as they are; sets are never changed.
    """

    lowercase: bool = Field(
        default=False,
        description="Whether to lower-case it. Where the training text has capitals, only the first word is "
        "lower-cased, unless the training text has it with its capital or begins its sentences with capitals.",
    )
    moses: bool = Field(
        default=False,
        description="Whether to unify punctuation and to divide words from marks as Moses does for the language.",
    )
    europarl: bool = Field(
        default=False,
        description="Whether to divide and lower-case words as the text of data/manythings is (English and French).",
    )

    @model_validator(mode="after")
    def _check_division(self) -> Self:
        if self.moses and self.europarl:
            raise ValueError("expected either moses or europarl, found both")
        return self
