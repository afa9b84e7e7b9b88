"""The settings of a list of corpora to train on: weights and tags."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, field_validator

from .base import MOST_COUNTED, composed
from .corpus import CorpusSettings, has_files

LONGEST_TAG = 64


class ListedCorpusSettings(CorpusSettings):
    """One corpus of several to train on."""

    weight: float | None = Field(
        default=None,
        ge=0,
        le=MOST_COUNTED,
        description="Share of this corpus in the pairs of every epoch, in proportion to the weights of the others; "
        "null, for all of them: every pair comes once in an epoch.",
    )
    tag: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_TAG,
        description="A token of its own, such as <back>, that is put before every source sentence of this corpus.",
    )

    _composed = field_validator("tag")(composed)

    @field_validator("tag")
    @classmethod
    def _check_tag(cls, value: str | None) -> str | None:
        return value if value is None else check_tag(value)


def check_tag(value: str) -> str:
    """Refuses a tag that is not one word, or that is the name of a special token.

    Raises:
        ValueError: it is.
    """
    if value.split() != [value] or not value.isprintable() or "\u2581" in value:
        raise ValueError(f"expected one word without spaces, such as <back>, found {value!r}")
    if value in ("<pad>", "<unk>", "<s>", "</s>"):
        raise ValueError(f"{value} is a special token of every vocabulary; expected another word, such as <back>")
    return value


def _form_of(value: Any) -> str:
    return "null" if value is None else "list" if isinstance(value, list | tuple) else "files"


TrainingTextSettings = Annotated[
    Annotated[CorpusSettings, Tag("files")]
    | Annotated[tuple[ListedCorpusSettings, ...], Tag("list")]
    | Annotated[None, Tag("null")],
    Discriminator(_form_of),
]
"""One corpus, or a list of several."""


def check_list(corpora: Sequence[ListedCorpusSettings]) -> None:
    """Checks what the corpora of a list say about each other.

    Raises:
        ValueError: there are none, only some of them have a weight, or all weights are zero.
    """
    if not corpora:
        raise ValueError("expected at least one corpus in the list, found none")
    for corpus in corpora:
        has_files(corpus)
    unweighted = [number for number, corpus in enumerate(corpora) if corpus.weight is None]
    if len(unweighted) == len(corpora):
        return
    if unweighted:
        raise ValueError(
            f"expected a weight for every corpus of the list or for none; corpus {unweighted[0]}, counted from 0, has "
            "none"
        )
    if not any(corpus.weight for corpus in corpora):
        raise ValueError("expected a weight above 0 for at least one corpus, found 0 for all of them")
