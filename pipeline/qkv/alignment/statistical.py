"""Links between the words of parallel text by statistics alone: IBM model 1 and a hidden Markov model (HMM).

The models have two directions: one explains each target word by a source word (forward), the other each source word by
a target word (backward). EM trains both at once, on what they agree about: an expected link counts as the product of
its two probabilities (Liang, Taskar and Klein 2006, "Alignment by agreement").

- Model 1 (Brown et al. 1993): word j is drawn from t(word | e_i) of a word i, every i being equally likely.
- HMM (Vogel, Ney and Tillmann 1996; Och and Ney 2003): the probability of i depends on the jump from the i before.
- A word may be drawn from no word instead, with the probability `NULL`. The position then stays.

Most words are rare, and links of rare words are where such models go wrong. So expected counts start from small counts
(`SMOOTHING`), larger for two words that begin with the same letters (`COGNATES`), as names and loanwords do.

Nothing is random, and the links do not depend on the order of the pairs. The memory for N pairs is 4 bytes for each
pair of a source word and a target word in a sentence pair, and about 80 bytes for each distinct one.
"""

import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..text.corpora.word_links import Link

MODEL_1_UPDATES = 4
HMM_UPDATES = 5
NULL = 0.05
"""The probability that a word is drawn from no word of the other sentence."""
SMOOTHING = 0.003
"""The count that each pair of words that occur together starts from."""
COGNATES = 0.1
"""The count that two equal words start from, besides `SMOOTHING`."""
UNIFORM_JUMPS = 0.02
"""The share of a uniform distribution in the probabilities of jumps."""
LONGEST_JUMP = 20
"""Longer jumps count as jumps of this many words."""
THRESHOLD = 0.4
"""The mean of a link's probabilities in the two directions, above which it is a link."""
LONGEST_SENTENCE = 256
"""Pairs with a sentence of more words get no links, because the time for a pair grows with the cube of its length."""
COMPARED_LETTERS = 12
BLOCK_CELLS = 1 << 18
"""The maximum number of word pairs in a block, unless a single sentence pair has more."""


class Block(NamedTuple):
    """Distinct sentence pairs with I source words and J target words each.

    Attributes:
        first: the number of the first of the B pairs. The others follow.
        counts: how often each pair occurs in the text, float32 `(B,)`.
        source: the numbers of the source words, int32 `(I, B)`.
        target: the numbers of the target words, int32 `(J, B)`.
        entries: the index of each pair of words in the lexicon, int32 `(J, B, I)`.
    """

    first: int
    counts: np.ndarray
    source: np.ndarray
    target: np.ndarray
    entries: np.ndarray


class LinkedWords(NamedTuple):
    """The lexicon: all pairs of words that occur together in a sentence pair, and the start of their counts.

    Attributes:
        source: the number of the source word of each entry, int32.
        target: the number of the target word of each entry, int32.
        start: the count of each entry before any text is read, float64.
    """

    source: np.ndarray
    target: np.ndarray
    start: np.ndarray


class ParallelWords:
    """The words of parallel text as numbers, in blocks of sentence pairs of equal lengths.

    Equal sentence pairs are kept once. Words and pairs are numbered in sorted order, so that the order of the text does
    not matter.

    Args:
        sources: the words of each source sentence.
        targets: the words of each target sentence; as many sentences.

    Attributes:
        blocks: the blocks.
        lexicon: the pairs of words that occur together.
        vocabularies: the distinct source words and the distinct target words, as `plain_word` returns them, sorted.
        pair_numbers: for each pair of the text the number of the distinct pair, int64; -1 if a sentence of the pair has
            no words or more than `LONGEST_SENTENCE`.
        pairs: the number of distinct pairs.
        too_long: the number of pairs of the text with more than `LONGEST_SENTENCE` words in a sentence.
    """

    def __init__(self, sources: Iterable[Sequence[str]], targets: Iterable[Sequence[str]]) -> None:
        (source_words, source, source_ends), (target_words, target, target_ends) = map(_number, (sources, targets))
        lengths = np.stack([np.diff(source_ends), np.diff(target_ends)])
        self.vocabularies = source_words, target_words
        self.pair_numbers = np.full(lengths.shape[1], -1, np.int64)
        self.pairs = 0
        self.blocks: list[Block] = []
        self.too_long = int((lengths > LONGEST_SENTENCE).any(axis=0).sum())
        usable = np.flatnonzero(((lengths > 0) & (lengths <= LONGEST_SENTENCE)).all(axis=0))
        shapes, shape_of = np.unique(lengths[:, usable], axis=1, return_inverse=True)
        in_order = usable[np.argsort(shape_of.reshape(-1), kind="stable")]
        ends = np.cumsum(np.bincount(shape_of.reshape(-1), minlength=1))[:-1]
        for (n_source, n_target), rows in zip(shapes.T.tolist(), np.split(in_order, ends), strict=False):
            both = [source[source_ends[rows, None] + np.arange(n_source)]]
            both.append(target[target_ends[rows, None] + np.arange(n_target)])
            distinct, numbers, counts = np.unique(np.hstack(both), axis=0, return_inverse=True, return_counts=True)
            self.pair_numbers[rows] = self.pairs + numbers.reshape(-1)
            size = max(1, BLOCK_CELLS // (n_source * n_target))
            for start in range(0, len(distinct), size):
                words = np.ascontiguousarray(distinct[start : start + size].T)
                times = counts[start : start + size].astype(np.float32)
                block = Block(self.pairs + start, times, words[:n_source], words[n_source:], np.empty(0, np.int32))
                self.blocks.append(block)
            self.pairs += len(distinct)
        self._make_lexicon()

    def _make_lexicon(self) -> None:
        """Sets `lexicon`, and the entries of each block."""
        source_words, target_words = self.vocabularies

        def codes(block: Block) -> np.ndarray:
            return block.source.T.astype(np.int64) * len(target_words) + block.target[:, :, None]

        known = np.empty(0, np.int64)
        waiting: list[np.ndarray] = []
        for block in self.blocks:
            waiting.append(np.unique(codes(block)))
            if sum(map(len, waiting)) > max(len(known), 1 << 20):
                known, waiting = np.unique(np.concatenate([known, *waiting])), []
        known = np.unique(np.concatenate([known, *waiting]))
        for number, block in enumerate(self.blocks):
            distinct, inverse = np.unique(codes(block), return_inverse=True)
            shape = (*block.target.shape, len(block.source))
            entries = np.searchsorted(known, distinct).astype(np.int32)[inverse.reshape(shape)]
            self.blocks[number] = block._replace(entries=entries)
        source, target = (half.astype(np.int32) for half in np.divmod(known, max(1, len(target_words))))
        self.lexicon = LinkedWords(source, target, start_counts(source_words, target_words, source, target))


def _number(sentences: Iterable[Sequence[str]]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Numbers the words of sentences, read as `plain_word` does, in the order of their spelling.

    Returns:
        `(vocabulary, numbers, ends)`: the distinct words, sorted; the number of each word of the text, int32; and the
        number of words before each sentence, and in total, int64 `(sentences + 1,)`.
    """
    seen: dict[str, int] = {}
    numbers, ends = array("i"), array("q", [0])
    for words in sentences:
        numbers.extend([seen.setdefault(plain_word(word), len(seen)) for word in words])
        ends.append(len(numbers))
    vocabulary = sorted(seen)
    rank = np.empty(len(seen), np.int32)
    rank[[seen[word] for word in vocabulary]] = np.arange(len(seen))
    return vocabulary, rank[np.frombuffer(numbers, np.intc)], np.frombuffer(ends, np.int64)


def plain_word(word: str) -> str:
    """Returns a word without case, and without the punctuation marks around its letters or digits."""
    folded = word.casefold()
    if folded.isalnum():
        return folded
    inner = [number for number, letter in enumerate(folded) if letter.isalnum()]
    return folded[inner[0] : inner[-1] + 1] if inner else folded


def start_counts(
    source_words: list[str], target_words: list[str], source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Returns the count of pairs of words before any text is read.

    It depends on how alike the two words are: the letters of their common prefix as a share of the longer word.
    Accents are ignored, and letters after `COMPARED_LETTERS`.

    Args:
        source_words: the source vocabulary.
        target_words: the target vocabulary.
        source: the numbers of source words, int `(N,)`.
        target: the numbers of the target words to compare with them, int `(N,)`.

    Returns:
        float64 `(N,)`, from `SMOOTHING` to `SMOOTHING + COGNATES`.
    """
    spelt = [_spell(words) for words in (source_words, target_words)]
    likeness = np.empty(len(source))
    for start in range(0, len(source), BLOCK_CELLS):
        rows = slice(start, start + BLOCK_CELLS)
        first, second = spelt[0][source[rows]], spelt[1][target[rows]]
        prefix = np.logical_and.accumulate((first == second) & (first > 0), axis=1).sum(axis=1)
        longer = np.maximum((first > 0).sum(axis=1), (second > 0).sum(axis=1))
        likeness[rows] = prefix / np.maximum(longer, 1)
    return SMOOTHING + COGNATES * likeness**3


def _spell(words: list[str]) -> np.ndarray:
    """Returns the first letters of words, without accents, as code points; int32, 0 after the end."""
    letters = np.zeros((len(words), COMPARED_LETTERS), np.int32)
    for number, word in enumerate(words):
        parts = unicodedata.normalize("NFD", word)
        first = [ord(letter) for letter in parts if not unicodedata.combining(letter)][:COMPARED_LETTERS]
        letters[number, : len(first)] = first
    return letters


class Direction:
    """The models of one direction: the words of one side (drawn) are explained by those of the other side (given).

    Args:
        given: the given word of each entry of the lexicon.
        start: the start of the counts, see `LinkedWords`.
        frequencies: the number of times that each drawn word occurs in the text.

    Attributes:
        translation: t(drawn word | given word) of each entry.
        null: t(drawn word | no word) of each drawn word.
        jumps: the relative frequency of each jump from `-LONGEST_JUMP` to `LONGEST_JUMP` words.
        log_likelihood: the log-likelihood of the text that `expect` has read since the last update.
    """

    def __init__(self, given: np.ndarray, start: np.ndarray, frequencies: np.ndarray) -> None:
        self._given = given
        self._start = start
        self._started = np.bincount(given, start)
        self.translation = start / self._started[given]
        self.null = frequencies / frequencies.sum()
        self.jumps = np.exp(-0.5 * np.abs(np.arange(-LONGEST_JUMP, LONGEST_JUMP + 1) - 1))
        self._forget()

    def _forget(self) -> None:
        """Sets the expected counts to 0."""
        self.log_likelihood = 0.0
        self._null_counts = np.zeros(len(self.null))
        self._jump_counts = np.zeros(len(self.jumps))

    def expect(self, entries: np.ndarray, drawn: np.ndarray, counts: np.ndarray, has_jumps: bool) -> np.ndarray:
        """Computes the probabilities of links by the present model, and adds to the expected counts of jumps and nulls.

        Args:
            entries: the entry of each pair of words, int `(drawn words, B, given words)`.
            drawn: the drawn words, int `(drawn words, B)`.
            counts: how often each sentence pair occurs, float32 `(B,)`.
            has_jumps: whether the model is the HMM. If False, it is model 1.

        Returns:
            float32, of the shape of `entries`. Each row sums to one minus the probability of no word.
        """
        lexical = ((1 - NULL) * self.translation).astype(np.float32)[entries]
        null = (NULL * self.null).astype(np.float32)[drawn]
        if has_jumps:
            transitions = position_probabilities(self.jumps, entries.shape[-1])
            links, nulls, jumps, likelihood = forward_backward(lexical, null, transitions, counts)
            np.add.at(self._jump_counts, _jump_indices(entries.shape[-1]), jumps)
        else:
            links = lexical / np.float32(entries.shape[-1])
            totals = links.sum(axis=-1) + null
            links /= totals[..., None]
            nulls = null / totals
            likelihood = np.log(totals).sum(axis=0, dtype=np.float64)
        self.log_likelihood += float(likelihood @ counts)
        np.add.at(self._null_counts, drawn, nulls * counts)
        return links

    def update(self, counts: np.ndarray) -> None:
        """Sets the probabilities to what maximises the likelihood of the expected counts, which are then forgotten.

        Args:
            counts: the expected count of each entry of the lexicon.
        """
        totals = np.bincount(self._given, counts) + self._started
        self.translation = (counts + self._start) / totals[self._given]
        self.null = self._null_counts / self._null_counts.sum()
        if self._jump_counts.any():
            self.jumps = self._jump_counts / self._jump_counts.sum() + 1e-8
        self._forget()


def position_probabilities(jumps: np.ndarray, length: int) -> np.ndarray:
    """Returns the probability of each next position, given the last one.

    Args:
        jumps: see `Direction.jumps`.
        length: the number of positions.

    Returns:
        float32 `(length + 1, length)`. The first row is of the position before the first word.
    """
    probabilities = jumps[_jump_indices(length)]
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return ((1 - UNIFORM_JUMPS) * probabilities + UNIFORM_JUMPS / length).astype(np.float32)


def _jump_indices(length: int) -> np.ndarray:
    """Returns the index in `Direction.jumps` of each jump, int `(length + 1, length)`; see `position_probabilities`."""
    jumps = np.arange(length) - np.arange(-1, length)[:, None]
    return jumps.clip(-LONGEST_JUMP, LONGEST_JUMP) + LONGEST_JUMP


def forward_backward(
    lexical: np.ndarray, null: np.ndarray, transitions: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sums over all alignments of J drawn words to I given words by the HMM.

    Args:
        lexical: the probability that each drawn word is drawn from each given word, float32 `(J, B, I)`.
        null: the probability that it is drawn from no word, float32 `(J, B)`.
        transitions: see `position_probabilities`, float32 `(I + 1, I)`.
        counts: how often each sentence pair occurs, float32 `(B,)`.

    Returns:
        - the probability of each link, float32 `(J, B, I)`;
        - the probability of no word, float32 `(J, B)`;
        - the expected number of each transition, float32 `(I + 1, I)`;
        - the log-likelihood of each sentence pair, float64 `(B,)`.
    """
    n_drawn, n_pairs, n_given = lexical.shape
    before = np.zeros((n_drawn + 1, n_pairs, n_given + 1), np.float32)  # of the position before each word
    before[0, :, 0] = 1
    links = np.empty_like(lexical)
    scales = np.empty_like(null)
    for j in range(n_drawn):
        np.matmul(before[j], transitions, out=links[j])
        links[j] *= lexical[j]
        after = before[j] * null[j, :, None]
        after[:, 1:] += links[j]
        scales[j] = after.sum(axis=1)
        np.divide(after, scales[j, :, None], out=before[j + 1])
    rest = np.ones((n_pairs, n_given + 1), np.float32)  # the scaled probability of the words that follow
    nulls = np.empty_like(null)
    jumps = np.zeros_like(transitions)
    for j in range(n_drawn - 1, -1, -1):
        scaled = rest[:, 1:] / scales[j, :, None]
        links[j] *= scaled
        scaled *= lexical[j]
        jumps += (before[j] * counts[:, None]).T @ scaled
        rest *= (null[j] / scales[j])[:, None]
        nulls[j] = (before[j] * rest).sum(axis=1)
        rest += scaled @ transitions.T
    return links, nulls, jumps * transitions, np.log(scales).sum(axis=0, dtype=np.float64)


class StatisticalAligner:
    """The two directions, and the text that they are trained on.

    Args:
        text: the text.

    Attributes:
        text: the text.
        forward: the direction that draws target words.
        backward: the direction that draws source words.
        counts: the expected count of each entry of the lexicon at the last update, without the start; float64.
    """

    def __init__(self, text: ParallelWords) -> None:
        self.text = text
        lexicon = text.lexicon
        source_frequencies, target_frequencies = (np.zeros(len(words)) for words in text.vocabularies)
        for block in text.blocks:
            np.add.at(source_frequencies, block.source, block.counts)
            np.add.at(target_frequencies, block.target, block.counts)
        self.forward = Direction(lexicon.source, lexicon.start, target_frequencies)
        self.backward = Direction(lexicon.target, lexicon.start, source_frequencies)
        self.counts = np.zeros(len(lexicon.start))

    def train(self, report: Callable[[int, int], None] = lambda update, updates: None) -> None:
        """Updates model 1, then the HMM.

        Args:
            report: called after each update with its number, from 1, and the number of all updates.
        """
        updates = MODEL_1_UPDATES + HMM_UPDATES
        for update in range(updates):
            counts = np.zeros(len(self.text.lexicon.start))
            for block in self.text.blocks:
                forward, backward = self._expect(block, has_jumps=update >= MODEL_1_UPDATES)
                forward *= backward
                forward *= block.counts[:, None]
                np.add.at(counts, block.entries, forward)
            for direction in (self.forward, self.backward):
                direction.update(counts)
            self.counts = counts
            report(update + 1, updates)

    def _expect(self, block: Block, has_jumps: bool) -> tuple[np.ndarray, np.ndarray]:
        """Returns the probabilities of links in both directions, both float32 `(J, B, I)`; see `Direction.expect`."""
        forward = self.forward.expect(block.entries, block.target, block.counts, has_jumps)
        turned = np.ascontiguousarray(block.entries.T)
        backward = self.backward.expect(turned, block.source, block.counts, has_jumps)
        return forward, backward.T

    def probabilities(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the probabilities of links in both directions for each block, both float32 `(J, B, I)`."""
        for block in self.text.blocks:
            yield self._expect(block, has_jumps=True)

    def links(self) -> Iterator[list[Link]]:
        """Yields the links of each sentence pair of the text, in its order; a pair without words has none."""
        parts = []
        for block, (forward, backward) in zip(self.text.blocks, self.probabilities(), strict=True):
            target, pair, source = np.nonzero(forward + backward > 2 * THRESHOLD)
            order = np.argsort(pair, kind="stable")
            parts.append((block.first + pair[order], source[order].astype(np.int16), target[order].astype(np.int16)))
        pairs, sources, targets = map(np.concatenate, zip(*parts, strict=True)) if parts else [np.empty(0)] * 3
        ends = np.searchsorted(pairs, np.arange(self.text.pairs + 1))
        for number in self.text.pair_numbers.tolist():
            rows = slice(ends[number], ends[number + 1]) if number >= 0 else slice(0)
            yield list(zip(sources[rows].tolist(), targets[rows].tolist(), strict=True))
