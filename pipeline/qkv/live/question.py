"""The requests of a live page, read from JSON and checked: questions of three kinds, and answers to save."""

from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import InputError
from ..inspection.experiments.intervention import CHANGES

LONGEST_QUESTION = 5000
MOST_TOKENS = 10_000
MOST_BEAM = 10
MOST_KEPT = 200  # answers that can be saved

Index = Annotated[int, Field(ge=0, le=MOST_TOKENS)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class HeadReference(_Part):
    """One head.

    Attributes:
        site: its place, one of `config.choices.model.ATTENTION_SITES`.
        layer: index of its layer.
        head: its index.
    """

    site: str
    layer: Index
    head: Index


class HeadChange(HeadReference):
    """One head whose weights are replaced.

    Attributes:
        change: the replacement, a key of `inspection.experiments.intervention.CHANGES`.
    """

    change: Literal[*CHANGES]  # type: ignore[valid-type]


class GivenRow(HeadReference):
    """One row of a head's weights that is given.

    Attributes:
        query: index of the row.
        weights: from 0 to 1, one for each key.
    """

    query: Index
    weights: list[Annotated[float, Field(ge=0, le=1)]] = Field(max_length=MOST_TOKENS)


class TextQuestion(_Part):
    """A question to one run.

    Attributes:
        text: the sentence as it was typed.
        run: index of the run.
    """

    text: str = Field(max_length=LONGEST_QUESTION)
    run: Index = 0


class Question(TextQuestion):
    """The question for a translation and its attention.

    Attributes:
        beam_size: hypotheses that are kept; 1 is greedy search.
        n_best: how many translations are wanted, at most `beam_size`.
        prefix: ids of the tokens with which the translation begins.
        target: ids of the whole translation, which is read as it is instead of searched; None to search one.
        changes: heads that are changed.
        row: a row of weights that is given; needs `target`.
    """

    beam_size: int = Field(default=1, ge=1, le=MOST_BEAM)
    n_best: int = Field(default=1, ge=1, le=MOST_BEAM)
    prefix: list[Index] = Field(default=[], max_length=MOST_TOKENS)
    target: list[Index] | None = Field(default=None, max_length=MOST_TOKENS)
    changes: list[HeadChange] = Field(default=[], max_length=MOST_TOKENS)
    row: GivenRow | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best: expected at most beam_size, {self.beam_size}, found {self.n_best}")
        if self.row is not None and self.target is None:
            raise ValueError("row: expected a target as well, since rows of weights are changed in a given translation")
        return self


class LogitQuestion(TextQuestion):
    """The question why a token of a translation was written, as the model has it.

    Attributes:
        target: ids of the translation.
        query: index of the row that predicts the token.
    """

    target: list[Index] = Field(max_length=MOST_TOKENS)
    query: Index


class ScoreQuestion(LogitQuestion, HeadReference):
    """The question why a head looks where it looks in one row."""


class SaveRequest(_Part):
    """The request to keep answers as an attention archive.

    Attributes:
        answers: their numbers, as the server gave them.
    """

    answers: list[int] = Field(min_length=1, max_length=MOST_KEPT)


Asked = TypeVar("Asked", bound=_Part)


def read_request(kind: type[Asked], body: bytes) -> Asked:
    """Reads a request of a kind from JSON.

    Raises:
        InputError: it is not one.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "question"
        raise InputError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"question: expected JSON, found something else: {error}") from None
