"""The place of a span of source words in the translation, by the probabilities of word links.

A span's place is the range of target words that agrees best, in expectation, with the smallest range that covers all
words linked with the span's words. Wrong links have low probabilities, or are far from the right ones, so a single one
moves no border.

Letters: I source words, J target words.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..alignment.aligned_text import AlignedText
from ..alignment.linking import Direction
from ..alignment.word_statistics import WordStatistics, find_word_statistics
from ..text.lines.line import words_of
from ..text.tokens.words import joins

if TYPE_CHECKING:
    import keras

    from ..alignment.readout import AlignmentReadout
    from ..inspection.record import Record
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


# The factors of a link's odds were chosen on `data/manythings/alignments` and on the demo's validation set.
OTHER_KIND_ODDS = 0.1
"""The factor of the odds of a link between a word and a punctuation mark."""
SAME_WORD_ODDS = 4.0
"""The factor of the odds of a link between two equal words, such as names and numbers."""
DISTANT_ODDS = 0.018
"""The factor of the odds of a link between the beginning of one text and the end of the other; smaller distances count
less, exponentially."""


def link_texts(run: "TrainedRun", texts: Sequence[str], translations: Sequence[str]) -> Iterator[LinkedText]:
    """Yields the words of texts and of their translations, and the probabilities of the links between them.

    The model reads each pair once more. The probabilities are the calibrated ones of the run's readout. Without gold
    alignments in the run's config, they are computed from the weights of the guided head or, without one, of the mean
    of the last layer's heads; see `_shared_weights`. The readout is chosen at the first call for a model.

    Args:
        run: the run.
        texts: the source sentences as the user wrote them. `data.normalize` of the run is applied for the model.
        translations: the translation of each sentence as the user reads it, by the run or by others.

    Raises:
        InputError: the model has no cross-attention.
    """
    readout = _known_readout(run)
    words = [[find_words(text) for text in side] for side in (texts, translations)]
    spelt = [
        [[text[slice(*word)] for word in ranges] for text, ranges in zip(side, words_of_side, strict=True)]
        for side, words_of_side in zip((texts, translations), words, strict=True)
    ]
    source_lines, target_lines = ([" ".join(words_of_text) for words_of_text in side] for side in spelt)
    text = AlignedText(texts, translations, (source_lines, target_lines))
    records = Direction(run, text, readout, normalizes=True).records()
    statistics = known_statistics(run)
    for record, source, target, *spelling in zip(records, *words, *spelt, strict=True):
        probabilities = link_matrix(readout, record, *spelling)
        if statistics is not None:
            probabilities = statistics.mean_with(probabilities, *spelling)
        yield LinkedText(source, target, probabilities)


def link_matrix(
    readout: "AlignmentReadout", record: "Record", source: Sequence[str], target: Sequence[str]
) -> np.ndarray:
    """Returns the probabilities of the links of a sentence pair, `(J, I)`.

    Args:
        readout: the readout. Without a calibration, see `_shared_weights`.
        record: the sentence pair, with its words numbered as in `source` and `target`.
        source: the spelling of the I source words.
        target: the spelling of the J target words.
    """
    calibration = readout.calibration
    matrix = readout.word_weights(record) if calibration is None else calibration.matrix([record])
    filled = np.zeros((len(target), len(source)))  # the model may have cut words off
    if not filled.size:
        return filled
    part = matrix[: len(target), : len(source)]
    filled[: part.shape[0], : part.shape[1]] = np.clip(part, 0.0, 1.0)
    odds = _link_odds(source, target)
    probabilities = filled * odds / (1 - filled + filled * odds)
    return _shared_weights(probabilities) if calibration is None else probabilities


_readouts: "WeakKeyDictionary[keras.Model, AlignmentReadout]" = WeakKeyDictionary()
"""The readout of each model, which takes from 30 ms to some seconds to find."""


def _known_readout(run: "TrainedRun") -> "AlignmentReadout":
    """Returns the readout of a run: a saved or chosen one, the guided head, or the last layer."""
    from ..alignment.readout_selection import find_readout, last_layer_readout  # not at the top: it imports Keras

    if run.model not in _readouts:
        _readouts[run.model] = find_readout(run, None) or last_layer_readout(run)
    return _readouts[run.model]


def known_statistics(run: "TrainedRun") -> WordStatistics | None:
    """Returns the statistics of a run's training text; None if there are none, see `find_word_statistics`."""
    divides_at_spaces = run.config.data.tokenized
    return find_word_statistics(
        run, words_of if divides_at_spaces else lambda line: [line[slice(*word)] for word in find_words(line)]
    )


def _link_odds(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """Returns the factor of the odds of each link by the spelling and the positions of its words, `(J, I)`."""
    source_marks, target_marks = (
        np.array([not any(map(str.isalnum, word)) for word in words], bool) for words in (source, target)
    )
    source_lower, target_lower = (np.array([word.lower() for word in words], object) for words in (source, target))
    source_middles, target_middles = ((np.arange(len(words)) + 0.5) / len(words) for words in (source, target))
    kinds = np.where(target_marks[:, None] != source_marks, OTHER_KIND_ODDS, 1.0)
    equal = np.where(target_lower[:, None] == source_lower, SAME_WORD_ODDS, 1.0)
    return kinds * equal * DISTANT_ODDS ** np.abs(target_middles[:, None] - source_middles)


def _shared_weights(weights: np.ndarray) -> np.ndarray:
    """Computes numbers for probabilities of links from weights of attention, `(J, I)`.

    Each weight, a share of the target word's row, is multiplied by its share of the source word's column; the result is
    the root of the product. A target word that attends to a word of another translation is thus linked less.
    """
    columns = weights.sum(axis=0, keepdims=True)
    return weights / np.sqrt(np.where(columns > 0, np.maximum(columns, weights), 1.0))


def project_spans(
    spans: Sequence[Range], linked: LinkedText, parents: Sequence[int | None] | None = None
) -> list[Range]:
    """Returns the range of the translation for each range of the source text, in characters.

    A result begins and ends at borders of words. It lies in the result of the parent of its span, and does not overlap
    the results of the parent's other children. If a span has all words of its parent, so has the result. The result of
    a span without words is a point; so is the result of a span whose words have no links.

    Args:
        spans: the character ranges of the source text. Two ranges are nested or apart.
        linked: the words of the text and of the translation, and their links.
        parents: for each span the index of the span around it; None for a span that is in no other span. It decides
            whether a point at the border of a span is inside. By default, the parent is the smallest range around a
            span; of equal ranges, the first one is the outer one, and a point at the border of a range is outside.
    """
    if parents is None:
        parents = _find_parents(spans)
    words = [_words_in(span, linked.source) for span in spans]
    leans = [_lean(span, linked.source) for span in spans]
    children: dict[int | None, list[int]] = {}
    for index, parent in enumerate(parents):
        children.setdefault(parent, []).append(index)
    places: list[Range] = [(0, 0)] * len(spans)
    waiting: list[int | None] = [None]
    while waiting:
        parent = waiting.pop()
        inside = children.get(parent, [])
        source = (0, len(linked.source)) if parent is None else words[parent]
        target = (0, len(linked.target)) if parent is None else places[parent]
        placed = _place_apart(
            [words[index] for index in inside], [leans[index] for index in inside], source, target, linked.probabilities
        )
        for index, place in zip(inside, placed, strict=True):
            places[index] = place
        waiting += inside
    return _in_characters(leans, places, parents, linked.target)


def _find_parents(spans: Sequence[Range]) -> list[int | None]:
    """Returns the index of the smallest range around each range, see `project_spans`."""
    parents: list[int | None] = []
    for index, (start, stop) in enumerate(spans):
        around = [
            (last - first, -other)
            for other, (first, last) in enumerate(spans)
            if first <= start and stop <= last and ((first, last) != (start, stop) or other < index)
            if start < stop or first < start < last
        ]
        parents.append(-min(around)[1] if around else None)
    return parents


def _words_in(span: Range, words: Sequence[Range]) -> Range:
    """Returns the range of the words that overlap a character range; an empty range after the words before a point."""
    inside = [index for index, (start, stop) in enumerate(words) if start < span[1] and span[0] < stop]
    if inside and span[0] < span[1]:
        return inside[0], inside[-1] + 1
    before = sum(stop <= span[0] for _, stop in words)
    return before, before


def _lean(span: Range, words: Sequence[Range]) -> int:
    """Returns -1 if a range touches only the end of the word before it, 1 if only the beginning of the next; else 0."""
    return any(start == span[1] for start, _ in words) - any(stop == span[0] for _, stop in words)


def _place_apart(
    spans: Sequence[Range], leans: Sequence[int], source: Range, target: Range, probabilities: np.ndarray
) -> list[Range]:
    """Places spans of source words that are apart, so that their places are apart, too.

    A target word that is linked best with the words of one span is in the place of no other span.

    Args:
        spans: the ranges of source words.
        leans: see `_lean`.
        source: the range of source words that the spans are in.
        target: the range of target words that the places are in.
        probabilities: the probabilities of links, `(J, I)`.

    Returns:
        The range of target words of each span. It is empty for an empty span, and if no linked target word is left.
    """
    if not spans:
        return []
    places: list[Range | None] = [None] * len(spans)
    linked = np.array([1 - np.prod(1 - probabilities[:, slice(*span)], axis=1) for span in spans])
    owners = np.where(linked.max(axis=0) >= LEAST_PROBABILITY, linked.argmax(axis=0), -1)
    free = np.zeros(len(probabilities), bool)
    free[slice(*target)] = True
    for index in sorted(range(len(spans)), key=lambda index: -linked[index].max(initial=0.0)):
        if spans[index][0] == spans[index][1]:
            continue
        if spans[index] == source and free[slice(*target)].all():
            place: Range | None = target
        else:
            place = _best_place(linked[index], free & ((owners == index) | (owners == -1)))
        if place is not None:
            places[index] = place
            free[slice(*place)] = False
    taken = [place for place in places if place is not None]
    for index, place in enumerate(places):
        if place is None:
            border = _best_border(spans[index], leans[index], source, target, taken, probabilities)
            places[index] = border, border
    return [place for place in places if place is not None]


LEAST_PROBABILITY = 0.1
"""A span has a place only if a target word is linked with its words with this probability or a higher one."""
DISTANCE_DECAY = 0.8
"""The factor by which a link says less about the words behind its neighbour, for each word; see `covered`. Chosen on
the demo's validation set and `data/manythings/alignments`."""


def covered(linked: np.ndarray) -> np.ndarray:
    """Returns the probability that each word is in the smallest range that covers all linked words, `(J,)`.

    A word is in the range if it is linked, or if there is a linked word before it and one after it. The chance of a
    linked word on one side is the largest probability there, times `DISTANCE_DECAY` for each word in between: a link
    far from the others is more often wrong.

    Args:
        linked: the probability that each word is linked, `(J,)`.
    """
    words = np.arange(len(linked))
    distances = words[:, None] - words  # from the second word to the first
    decayed = linked * DISTANCE_DECAY ** np.maximum(np.abs(distances) - 1, 0)
    before, after = (np.where(sign * distances > 0, decayed, 0.0).max(axis=1, initial=0.0) for sign in (1, -1))
    return linked + (1 - linked) * before * after


def _best_place(linked: np.ndarray, allowed: np.ndarray) -> Range | None:
    """Returns the range of allowed words that agrees best with the smallest range of all linked words, in expectation.

    The agreement is the F1 of words: 2 |A and B| / (|A| + |B|), with the expected sizes of B and of A and B.

    Args:
        linked: the probability that each word is linked, `(J,)`.
        allowed: bool `(J,)`, False for a word that may not be in the range.

    Returns:
        The range; None if no allowed word is linked with `LEAST_PROBABILITY`.
    """
    linked = np.where(allowed, linked, 0.0)
    if linked.max(initial=0.0) < LEAST_PROBABILITY:
        return None
    sums = np.concatenate([[0.0], np.cumsum(covered(linked))])
    barred = np.concatenate([[0], np.cumsum(~allowed)])
    starts, stops = np.triu_indices(len(sums), 1)
    agreement = 2 * (sums[stops] - sums[starts]) / (stops - starts + sums[-1])
    best = int(np.where(barred[stops] > barred[starts], -1.0, agreement).argmax())
    return int(starts[best]), int(stops[best])


NEIGHBOUR_DECAY = 0.5
"""The weight of a source word for the place of a point, relative to that of the next word towards the point."""
TOUCHED_WEIGHT = 2.0
"""The factor of the weights of the words on the side that a point touches."""


def _best_border(
    span: Range, lean: int, source: Range, target: Range, taken: Sequence[Range], probabilities: np.ndarray
) -> int:
    """Returns the border of target words that best divides the translations of the words before and after a point.

    Args:
        span: the point, or a span without a place, as a range of source words.
        lean: see `_lean`.
        source: the range of source words that the point is in.
        target: the range of target words that the border is in, ends included.
        taken: the ranges of target words that the border may not be inside of.
        probabilities: the probabilities of links, `(J, I)`.

    Returns:
        The index of the target word after the border.
    """
    if span[0] == source[0]:
        return target[0]
    if span[1] == source[1]:
        return target[1]
    weights = np.zeros(probabilities.shape[1])  # above 0 before the point, below 0 after it
    weights[: span[0]] = NEIGHBOUR_DECAY ** np.arange(span[0])[::-1] * (TOUCHED_WEIGHT if lean < 0 else 1.0)
    weights[span[1] :] = -(NEIGHBOUR_DECAY ** np.arange(len(weights) - span[1])) * (TOUCHED_WEIGHT if lean > 0 else 1.0)
    sums = np.concatenate([[0.0], np.cumsum(probabilities @ weights)])
    borders = [border for border in range(target[0], target[1] + 1) if not any(a < border < b for a, b in taken)]
    return max(borders, key=lambda border: sums[border])


def _in_characters(
    leans: Sequence[int], places: Sequence[Range], parents: Sequence[int | None], target: Sequence[Range]
) -> list[Range]:
    """Returns ranges of target words as ranges of characters.

    A point that touches the word before it in the source does so in the translation. Other points are at the beginning
    of the word after them. No point leaves the place of its parent.

    Args:
        leans: see `_lean`.
        places: the range of target words of each span.
        parents: see `project_spans`.
        target: the character ranges of the target words.
    """

    def in_characters(index: int) -> Range:
        first, last = places[index]
        if first < last:
            return target[first][0], target[last - 1][1]
        lean, parent = leans[index], parents[index]
        while parent is not None and places[parent][0] == places[parent][1]:
            lean, parent = leans[parent], parents[parent]  # all points at one place
        start, stop = (0, len(target)) if parent is None else places[parent]
        if start == stop:
            return 0, 0
        is_after_word = first > start and (first == stop or lean < 0)
        position = target[first - 1][1] if is_after_word else target[first][0]
        return position, position

    return [in_characters(index) for index in range(len(places))]
