"""The requests of the live page: questions of three kinds, and answers to save. They are read from JSON and checked."""

from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import InputError
from ..inspection.experiments.intervention import CHANGES

LONGEST_QUESTION = 5000
"""The largest number of characters of a sentence."""

MOST_QUESTION_TOKENS = 10_000
"""The largest number of tokens of a sentence, and of anything else that is counted by an index."""

MOST_BEAM = 10
"""The largest beam size."""

MOST_KEPT = 200
"""The number of last answers that can be saved."""

Index = Annotated[int, Field(ge=0, le=MOST_QUESTION_TOKENS)]


class _Part(BaseModel):
    """A request, or a part of a request. Unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class HeadReference(_Part):
    """A reference to one head.

    Attributes:
        site: the site of the head, one of `config.choices.model.ATTENTION_SITES`.
        layer: the index of the head's layer.
        head: the index of the head in the layer.
    """

    site: str
    layer: Index
    head: Index


class HeadChange(HeadReference):
    """A change of one head: the replacement of its weights.

    Attributes:
        change: the kind of change, a key of `inspection.experiments.intervention.CHANGES`.
    """

    change: Literal[*CHANGES]  # type: ignore[valid-type]


class RowReplacement(HeadReference):
    """A replacement for one row of a head's weights.

    Attributes:
        query: the index of the row.
        weights: the new weights, one for each key, from 0 to 1.
    """

    query: Index
    weights: list[Annotated[float, Field(ge=0, le=1)]] = Field(max_length=MOST_QUESTION_TOKENS)


class TextQuestion(_Part):
    """A question about a sentence to one run.

    Attributes:
        text: the sentence as the user typed it.
        run: the index of the run on the page.
    """

    text: str = Field(max_length=LONGEST_QUESTION)
    run: Index = 0


class Question(TextQuestion):
    """A question that asks for the translation of a sentence and its attention.

    Attributes:
        beam_size: the beam size; 1 stands for greedy search.
        n_best: the number of translations to return, at most `beam_size`.
        prefix: the ids of the tokens with which the translation begins.
        target: the ids of a translation, to get its attention without a search; None to search a translation.
        changes: the changed heads.
        row: a replacement for a row of weights, only together with `target`; None for no replacement.
    """

    beam_size: int = Field(default=1, ge=1, le=MOST_BEAM)
    n_best: int = Field(default=1, ge=1, le=MOST_BEAM)
    prefix: list[Index] = Field(default=[], max_length=MOST_QUESTION_TOKENS)
    target: list[Index] | None = Field(default=None, max_length=MOST_QUESTION_TOKENS)
    changes: list[HeadChange] = Field(default=[], max_length=MOST_QUESTION_TOKENS)
    row: RowReplacement | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best: expected at most beam_size, {self.beam_size}, found {self.n_best}")
        if self.row is not None and self.target is None:
            raise ValueError("row: expected a target as well, because a row belongs to one translation")
        return self


class LogitQuestion(TextQuestion):
    """A question about the logit of a token of a translation, computed by the model without changes.

    Attributes:
        target: the ids of the translation.
        query: the index of the row that predicts the token.
    """

    target: list[Index] = Field(max_length=MOST_QUESTION_TOKENS)
    query: Index


class RowQuestion(LogitQuestion, HeadReference):
    """A question about one row of a head: its query, keys and values, or the parts of its scores."""


class SaveRequest(_Part):
    """A request to save answers as an attention archive.

    Attributes:
        answers: the numbers of the answers; each answer of the server states its number.
    """

    answers: list[int] = Field(min_length=1, max_length=MOST_KEPT)


RequestType = TypeVar("RequestType", bound=_Part)


def read_request(kind: type[RequestType], body: bytes) -> RequestType:
    """Returns the request of a class in the body of an HTTP request.

    Args:
        kind: the class of the request.
        body: JSON in UTF-8.

    Raises:
        InputError: the body is not JSON, or has a key or value that the class does not allow.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"])) or "question"
        raise InputError(f"{key}: {first['msg'].removeprefix('Value error, ')}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"question: expected JSON, found something else: {error}") from None
