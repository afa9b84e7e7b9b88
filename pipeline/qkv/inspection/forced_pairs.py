"""Sentence pairs whose attention is recorded: sources with the translations that a search found, or with references."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..decoding.translator import Translation
from ..text.tokens.special_tokens import EOS
from ..text.tokens.tokenizer import Tokenizer

ENCODED_SENTENCES = 4096


@dataclass(frozen=True)
class ForcedPair:
    """A source and the target that the model is made to read.

    Args:
        id: position of the sentence in its file, from 0.
        source: its text.
        reference: its given translation, or None.
        hypothesis: the text of the target that is read.
        source_ids: without EOS.
        target_ids: ending in EOS unless truncated.
        mode: where the target comes from: `greedy`, `beam`, `sampling` or `forced`.
        truncated: whether source or target was cut to the maximum number of tokens that the model accepts.
        log_probabilities: of the target's tokens, where they are known.
        prefix_tokens: how many of the target's tokens were given to the search.
        required: the phrases that the search had to find.
    """

    id: int
    source: str
    reference: str | None
    hypothesis: str
    source_ids: list[int]
    target_ids: list[int]
    mode: str
    truncated: bool
    log_probabilities: list[float] | None = None
    prefix_tokens: int = 0
    required: Sequence[str] = ()


def pair_translations(
    sources: Sequence[str], references: Sequence[str] | None, translations: Sequence[Translation], mode: str
) -> Iterator[ForcedPair]:
    """Pairs each source with the translation that a search found."""
    for i, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        given = translation.prefix_tokens or translation.required
        yield ForcedPair(
            i,
            source,
            references[i] if references is not None else None,
            translation.text,
            translation.source_ids,
            translation.ids,
            mode,
            translation.truncated,
            # An empty source was not searched.
            translation.log_probabilities if translation.source_ids or given else None,
            translation.prefix_tokens,
            translation.required,
        )


def encode_references(
    tokenizer: Tokenizer, sources: Sequence[str], references: Sequence[str], max_positions: int
) -> Iterator[ForcedPair]:
    """Pairs texts as `pair_references`; they are read and encoded some at a time."""
    for first in range(0, len(sources), ENCODED_SENTENCES):
        part = slice(first, first + ENCODED_SENTENCES)
        texts = sources[part], references[part]
        ids = tokenizer.encode(texts[0]), tokenizer.of_target.encode(texts[1])
        yield from pair_references(*texts, *ids, max_positions, first)


def pair_references(
    sources: Sequence[str],
    references: Sequence[str],
    source_ids: Iterable[Sequence[int]],
    reference_ids: Iterable[Sequence[int]],
    max_positions: int,
    first: int = 0,
) -> Iterator[ForcedPair]:
    """Pairs each source with its reference, both cut to `max_positions` tokens with EOS.

    Args:
        sources: the texts.
        references: their given translations.
        source_ids: the tokens of each source, without EOS.
        reference_ids: the tokens of each reference, without EOS.
        max_positions: the maximum number of tokens that the model accepts on either side.
        first: the position of the first source in its file.
    """
    longest = max_positions - 1  # one more for EOS or BOS
    for i, (source, reference, source_row, target_row) in enumerate(
        zip(sources, references, source_ids, reference_ids, strict=True), first
    ):
        yield ForcedPair(
            i,
            source,
            reference,
            reference,
            list(source_row[:longest]),
            [*target_row, EOS][:max_positions],
            "forced",
            len(source_row) > longest or len(target_row) > longest,
        )
