"""Text whose lines may begin with a tag, such as `<back>` before sources that were translated back (Caswell et al.
2019) or `<de>` before those whose translation is German (Johnson et al. 2017)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .subword_model import SubwordModel  # loads SentencePiece, and help texts must be fast


def find_tag(line: str, tags: Collection[str]) -> str | None:
    """Returns the tag that a line begins with, as its first word; None if there is none."""
    first = line.split(" ", 1)[0]
    return first if first in tags else None


def without_tag(line: str, tags: Collection[str]) -> str:
    """Returns a line without the tag that it begins with, if any."""
    tag = find_tag(line, tags)
    return line if tag is None else line[len(tag) + 1 :]


def beyond_tag(change: Callable[[str], str], tags: Collection[str]) -> Callable[[str], str]:
    """Returns a function that changes a line but for the tag that it begins with, if any."""
    if not tags:
        return change

    def change_rest(line: str) -> str:
        tag = find_tag(line, tags)
        return change(line) if tag is None else f"{tag} {change(without_tag(line, tags))}"

    return change_rest


def tagged_lines(lines: Sequence[str], tags: Iterable[str | None]) -> list[str]:
    """Returns lines with their tags, as text, before them."""
    return [line if tag is None else f"{tag} {line}" for line, tag in zip(lines, tags, strict=True)]


class TaggedSubwords:
    """A subword model with tags: a text that begins with one has it as its first token; one with nothing else is empty.
    See `SubwordModel`.

    Args:
        model: what applies to the rest of a text.
        tags: the ids of the tags.
    """

    def __init__(self, model: "SubwordModel", tags: Mapping[str, int]) -> None:
        self._model, self._tags = model, tags

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        tags = [find_tag(text, self._tags) for text in texts]
        rest = self._model.encode([without_tag(text, self._tags) for text in texts])
        return [[self._tags[tag], *ids] if tag and ids else ids for tag, ids in zip(tags, rest, strict=True)]

    def ends(self, texts: Sequence[str]) -> list[list[int]]:
        tags = [find_tag(text, self._tags) for text in texts]
        rest = self._model.ends([without_tag(text, self._tags) for text in texts])
        sizes = [0 if tag is None else len(tag.encode()) for tag in tags]
        return [
            [size, *(end + size + 1 for end in ends)] if size and ends else ends
            for size, ends in zip(sizes, rest, strict=True)
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return self._model.decode(ids)
