"""The place of a span of source words in the translation, by the probabilities of word links.

The span of a translation is the one that agrees best, in expectation, with the smallest span that covers all words
linked with the span's words; see `hull_probabilities`. One wrong link far away thus moves no border.

Letters: I source words, J target words.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..alignment.aligned_text import AlignedText
from ..alignment.linking import Direction
from ..text.tokens.words import joins

if TYPE_CHECKING:
    from ..run.trained_run import TrainedRun

Range = tuple[int, int]
"""The index of the first character or word of a span, and the index after its last one. Both are equal for a point."""


class LinkedText(NamedTuple):
    """The words of a text and of its translation, with the probabilities of the links between them.

    - source: the character range of each word of the text, see `find_words`; in order.
    - target: the character range of each word of the translation.
    - probabilities: float `(J, I)`, from 0 to 1.
    """

    source: list[Range]
    target: list[Range]
    probabilities: np.ndarray


def find_words(text: str) -> list[Range]:
    """Returns the character ranges of the words and of the single punctuation marks of a text.

    An apostrophe ends the word before it if a letter follows, as in `l'` and `eau`. A point, comma or colon between two
    digits belongs to their number. In scripts that are written without spaces, each character is a word, with its
    combining marks.
    """
    words: list[list[int]] = []
    for index, character in enumerate(text):
        if character.isspace():
            continue
        if words and words[-1][1] == index and _continues(text, index, words[-1][0]):
            words[-1][1] = index + 1
        else:
            words.append([index, index + 1])
    return [(start, stop) for start, stop in words]


APOSTROPHES = frozenset("'\u2019")
ZERO_WIDTH_JOINER = "\u200d"  # joins two emoji to one


def _continues(text: str, index: int, start: int) -> bool:
    """Returns whether the character at `index` belongs to the word of the character before it, which is at `start`."""
    before, character, after = text[index - 1], text[index], text[index + 1 : index + 2]
    if unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf") or before == ZERO_WIDTH_JOINER:
        return True
    if character in APOSTROPHES:
        return joins(before) and after != "" and joins(after)
    if character in ".,:":
        return before.isdigit() and after.isdigit()
    if before in ".,:":
        return character.isdigit() and start < index - 1
    return joins(before) and joins(character)


def link_texts(run: "TrainedRun", texts: Sequence[str], translations: Sequence[str]) -> Iterator[LinkedText]:
    """Yields the words of texts and of their translations, and the probabilities of the links between them.

    Args:
        run: the run.
        texts: the source sentences as the user wrote them. `data.normalize` of the run is applied for the model.
        translations: the translation of each sentence as the user reads it, by the run or by others.

    Raises:
        InputError: the model has no cross-attention.
    """
    from ..alignment.readout_selection import find_readout, last_layer_readout  # not at the top: it imports Keras

    readout = find_readout(run, None) or last_layer_readout(run)
    words = [list(map(find_words, side)) for side in (texts, translations)]
    divided = tuple(
        [" ".join(text[slice(*word)] for word in ranges) for text, ranges in zip(side, found, strict=True)]
        for side, found in zip((texts, translations), words, strict=True)
    )
    direction = Direction(run, AlignedText(texts, translations, divided), readout, normalizes=True)
    for source, target, record in zip(*words, direction.records(), strict=True):
        calibration = readout.calibration
        matrix = calibration.matrix([record]) if calibration else readout.word_weights(record)
        padded = np.zeros((len(target), len(source)))
        padded[: matrix.shape[0], : matrix.shape[1]] = matrix[: len(target), : len(source)]
        yield LinkedText(source, target, padded)


def project_spans(
    spans: Sequence[Range], linked: LinkedText, parents: Sequence[int | None] | None = None
) -> list[Range]:
    """Returns the range of the translation for each range of the source text, in characters.

    A result begins and ends at borders of words. It lies in the result of the parent of its span, and does not overlap
    the results of the parent's other children. If a span has all words of its parent, so has the result. The result of
    a span without words is a point; so is the result of a span whose words are not translated.

    Args:
        spans: the character ranges of the source text. Two ranges are nested or apart.
        linked: the words of the text and of the translation, and their links.
        parents: for each span the index of the span around it, which is smaller than its own index; None for a span
            that is in no other span. It decides whether a point at the border of a span is inside. By default, the
            parent is the smallest range around a span; of equal ranges, the first one is the outer one, and a point at
            the border of a range is outside.
    """
    if parents is None:
        parents = _find_parents(spans)
    words = [_words_in(span, linked.source) for span in spans]
    results: list[Range] = [(0, 0)] * len(spans)
    children: dict[int | None, list[int]] = {}
    for index, parent in enumerate(parents):
        children.setdefault(parent, []).append(index)
    whole = (0, len(linked.source)), (0, len(linked.target))
    for parent in (None, *range(len(spans))):
        inside = children.get(parent, [])
        source, target = whole if parent is None else (words[parent], results[parent])
        placed = place_apart([words[index] for index in inside], source, target, linked.probabilities)
        for index, result in zip(inside, placed, strict=True):
            results[index] = result
    return _in_characters(spans, results, parents, linked)


def _find_parents(spans: Sequence[Range]) -> list[int | None]:
    """Returns the index of the smallest range around each range, see `project_spans`."""
    parents: list[int | None] = []
    for index, (start, stop) in enumerate(spans):
        around = [
            (last - first, -other)
            for other, (first, last) in enumerate(spans)
            if first <= start
            and stop <= last
            and ((first, last) != (start, stop) or other < index)
            and (start < stop or first < start < last)
        ]
        parents.append(-min(around)[1] if around else None)
    return parents


def _words_in(span: Range, words: Sequence[Range]) -> Range:
    """Returns the range of the words that overlap a character range. For a point, both numbers are those before it."""
    inside = [index for index, (start, stop) in enumerate(words) if start < span[1] and span[0] < stop]
    if inside and span[0] < span[1]:
        return inside[0], inside[-1] + 1
    before = sum(stop <= span[0] for _, stop in words)
    return before, before


def place_apart(spans: Sequence[Range], source: Range, target: Range, probabilities: np.ndarray) -> list[Range]:
    """Places spans of source words that are apart, so that their places are apart, too.

    A target word that is linked best with the words of one span is in no other span's place.

    Args:
        spans: the ranges of source words.
        source: the range of source words that the spans are in.
        target: the range of target words that the places are in.
        probabilities: the probabilities of links, `(J, I)`.

    Returns:
        The range of target words of each span. It is empty for an empty span, and if no target word is left.
    """
    places: list[Range | None] = [None] * len(spans)
    linked = np.array([_linked_with(span, probabilities) for span in spans]).reshape(len(spans), len(probabilities))
    owner = np.where(linked.max(axis=0, initial=0.0) >= LEAST_PROBABILITY, linked.argmax(axis=0), -1) if spans else []
    free = np.zeros(len(probabilities), bool)
    free[slice(*target)] = True
    by_certainty = sorted(range(len(spans)), key=lambda index: -linked[index].max(initial=0.0))
    for index in by_certainty:
        if spans[index] == source and source[0] < source[1]:
            places[index] = target
        elif spans[index][0] < spans[index][1]:
            allowed = free & ((owner == index) | (owner == -1))
            places[index] = _best_place(linked[index], allowed)
        if (place := places[index]) is not None:
            free[slice(*place)] = False
    taken = [place for place in places if place is not None]
    return [
        place or (border := _best_border(span, source, target, taken, probabilities), border)
        for span, place in zip(spans, places, strict=True)
    ]


LEAST_PROBABILITY = 0.1
"""A span has a place only if a target word is linked with its words with this probability or a higher one."""


def _linked_with(span: Range, probabilities: np.ndarray) -> np.ndarray:
    """Returns the probability that a target word is linked with a word of a span, `(J,)`."""
    return 1 - np.prod(1 - probabilities[:, slice(*span)], axis=1)


def hull_probabilities(linked: np.ndarray) -> np.ndarray:
    """Returns the probability that each word is in the smallest span that covers all linked words.

    A word is in it if it is linked, or if there is a linked word before it and one after it. Links are taken as
    independent.

    Args:
        linked: the probability that each word is linked, `(J,)`.
    """
    none_yet = np.concatenate([[1.0], np.cumprod(1 - linked)])
    none_after = np.concatenate([np.cumprod((1 - linked)[::-1])[::-1], [1.0]])
    return linked + (1 - linked) * (1 - none_yet[:-1]) * (1 - none_after[1:])


def _best_place(linked: np.ndarray, allowed: np.ndarray) -> Range | None:
    """Returns the range of allowed words that agrees best with the smallest span of all linked words, in expectation.

    The agreement is the F1 of words: 2 |A and B| / (|A| + |B|), with the expected sizes of B and of A and B.

    Args:
        linked: the probability that each word is linked, `(J,)`.
        allowed: bool `(J,)`, False for a word that may not be in the range.

    Returns:
        The range; None if no allowed word is linked with `LEAST_PROBABILITY`.
    """
    if not np.any(linked[allowed] >= LEAST_PROBABILITY):
        return None
    linked = np.where(allowed, linked, 0.0)
    inside = hull_probabilities(linked)
    sums = np.concatenate([[0.0], np.cumsum(inside)])
    barred = np.concatenate([[0], np.cumsum(~allowed)])
    starts, stops = np.triu_indices(len(linked) + 1, 1)
    agreement = 2 * (sums[stops] - sums[starts]) / (stops - starts + sums[-1])
    agreement[barred[stops] > barred[starts]] = -1.0
    best = int(agreement.argmax())
    return int(starts[best]), int(stops[best])


NEIGHBOUR_DECAY = 0.5
"""The weight of a source word for the place of a point, relative to that of the next word towards the point."""


def _best_border(span: Range, source: Range, target: Range, taken: Sequence[Range], probabilities: np.ndarray) -> int:
    """Returns the border of target words that best divides the translations of the words before and after a point.

    Args:
        span: the point, or the span without a place, as a range of source words.
        source: the range of source words that the point is in.
        target: the range of target words that the border is in, ends included.
        taken: the ranges of target words that the border may not be inside of.
        probabilities: the probabilities of links, `(J, I)`.

    Returns:
        The index of the target word after the border.
    """
    first, last = target
    if span[0] <= source[0] or first == last:
        return first
    if span[1] >= source[1]:
        return last
    words = np.arange(probabilities.shape[1])
    signs = (words < span[0]).astype(float) - (words >= span[1])  # 1 before the point, -1 after it
    distances = np.where(words < span[0], span[0] - 1 - words, words - span[1])
    weights = probabilities @ (signs * NEIGHBOUR_DECAY ** np.maximum(distances, 0))
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    borders = [border for border in range(first, last + 1) if not any(a < border < b for a, b in taken)]
    return max(borders, key=lambda border: sums[border])


def _in_characters(
    spans: Sequence[Range], places: Sequence[Range], parents: Sequence[int | None], linked: LinkedText
) -> list[Range]:
    """Returns ranges of target words as ranges of characters.

    A point that touches the end of a source word is put at the end of the target word before it, other points at the
    beginning of the target word after it; but no point leaves the place of its parent.

    Args:
        spans: the character ranges of the source text.
        places: the range of target words of each span.
        parents: see `project_spans`.
        linked: the words of both sides.
    """
    ends = {stop for _, stop in linked.source}
    results: list[Range] = []
    for (start, _), (first, last), parent in zip(spans, places, parents, strict=True):
        around = (0, len(linked.target)) if parent is None else places[parent]
        if first < last:
            results.append((linked.target[first][0], linked.target[last - 1][1]))
        elif around[0] == around[1]:
            results.append((0, 0) if parent is None else results[parent])
        else:
            is_after_word = first > around[0] and (first == around[1] or start in ends)
            position = linked.target[first - 1][1] if is_after_word else linked.target[first][0]
            results.append((position, position))
    return results
