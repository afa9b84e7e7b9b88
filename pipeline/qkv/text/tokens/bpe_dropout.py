"""Segmentations of the training text by BPE-dropout (Provilkov et al. 2020), which skips merges at random.

SentencePiece can draw them too. But since version 0.2.2 its random generator depends on the process as well as on the
seed, so training with the same seed would give another model each time.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np

from ..corpora.corpus import Corpus, chunks
from ..lines.line import visible, words_of
from .encoding import EncodedPairs, EncodedSentences, SentenceStore
from .special_tokens import EOS, UNK, WORD_START
from .subword_models import SentencePieceModel
from .token_links import TokenLinker
from .tokenizer import Tokenizer

SEGMENTATIONS = 10  # the number of segmentations that are drawn with BPE-dropout; epochs use them in turn


def segmentation_names(dropout: float) -> list[str]:
    """Returns for each segmentation the name of its files of training pairs. If `dropout` is 0, there is only one."""
    return [f"train-{number}" for number in range(SEGMENTATIONS)] if dropout else ["train"]


def draw_segmentations(
    corpus: Corpus,
    encoded: EncodedPairs,
    tokenizer: Tokenizer,
    linker: TokenLinker | None,
    *,
    dropout: float,
    longest: tuple[int, int],
    seed: int,
) -> list[EncodedPairs]:
    """Draws `SEGMENTATIONS` segmentations of pairs by BPE-dropout.

    Args:
        corpus: the pairs.
        encoded: the pairs in their usual segmentation.
        tokenizer: the tokenizer of the run.
        linker: links the tokens of the pairs. None leaves them without links.
        dropout: the probability that a merge is skipped. 0: no BPE-dropout, so the usual segmentation is the only one.
        longest: the maximum number of tokens in a source and in a target; see `sample_segmentation`.
        seed: the seed of all draws.

    Returns:
        The pairs in each segmentation.
    """
    if not dropout:
        return [encoded if linker is None else linker.link(encoded)]
    sampler = BPEDropout.of(tokenizer, dropout)
    # Every segmentation and side has its own seed, or both sides would lose the same merges.
    seeds = np.random.SeedSequence(seed).generate_state(2 * SEGMENTATIONS).reshape(-1, 2).tolist()
    texts = corpus.source, corpus.target
    models = tokenizer.side_models if linker else (None, None)
    segmentations = []
    for seeds_of_sides in seeds:
        drawn = map(sample_segmentation, texts, encoded.sides, [sampler] * 2, seeds_of_sides, longest, models)
        sides, ends = zip(*drawn, strict=True)
        pairs = EncodedPairs(*sides)
        segmentations.append(linker.link(pairs, ends) if linker else pairs)
    return segmentations


def sample_segmentation(
    sentences: Sequence[str],
    encoded: EncodedSentences,
    sampler: "BPEDropout",
    seed: int,
    longest: int,
    model: SentencePieceModel | None = None,
) -> tuple[EncodedSentences, EncodedSentences | None]:
    """Encodes sentences in randomly drawn subwords. The same seed gives the same ids, on every machine.

    Args:
        sentences: the sentences.
        encoded: the sentences in their usual segmentation.
        sampler: draws the subwords of words.
        seed: the seed of the draws.
        longest: the maximum number of tokens. A sentence that becomes longer has its usual segmentation.
        model: the model of the usual segmentation. None if the ends of tokens are not needed.

    Returns:
        The ids of each sentence. And for each of its tokens the number of bytes of the sentence up to the token's end;
        None if `model` is None.
    """
    generator = np.random.default_rng(seed)
    ids, ends = SentenceStore(np.int32), SentenceStore(np.int32)
    first = 0
    for chunk in chunks(sentences):
        rows, character_ends = map(list, zip(*_sample(chunk, sampler, generator), strict=True))
        too_long = [number for number, row in enumerate(rows) if len(row) > longest]
        for number in too_long:
            rows[number] = encoded[first + number]
        ids.add_rows(rows)
        if model is not None:
            byte_ends = list(map(_byte_ends, chunk, character_ends))
            usual_ends = model.ends([chunk[number] for number in too_long])
            for number, ends_of_sentence in zip(too_long, usual_ends, strict=True):
                byte_ends[number] = np.array(ends_of_sentence, np.int64)
            ends.add_rows(byte_ends)
        first += len(chunk)
    return ids.finish(), ends.finish() if model else None


def _byte_ends(sentence: str, ends: np.ndarray) -> np.ndarray:
    """Returns for each token the number of bytes of a sentence up to the token's end, int64 `(tokens,)`.

    Args:
        sentence: the sentence.
        ends: for each token the number of characters up to its end. One mark before each word is counted, and spaces
            are not.
    """
    bytes_before: list[int] = []
    for word in re.finditer(rb"[^ ]+", sentence.encode()):
        bytes_before += accumulate((len(character.encode()) for character in word[0].decode()), initial=word.start())
    return np.array(bytes_before, np.int64)[ends - 1]


def _sample(
    sentences: Sequence[str], sampler: "BPEDropout", generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draws the subwords of sentences.

    Yields:
        For each sentence the ids of its tokens, and for each token the number of characters up to its end, see
        `_byte_ends`. Neighbouring unknown characters are one token.
    """
    words: dict[str, int] = {}
    index: list[int] = []
    ends = [0]
    for sentence in sentences:
        # SentencePiece reads a mark that is in the text as a space, too, and drops it at the end.
        marked = "".join(WORD_START + word for word in words_of(visible(sentence))).rstrip(WORD_START)
        index += [words.setdefault(WORD_START + word, len(words)) for word in marked.split(WORD_START)[1:]]
        ends.append(len(index))
    drawn = sampler.draw(list(words), np.array(index, int), generator) if index else []
    for first, end in pairwise(ends):
        ids = np.concatenate([np.zeros(0, int), *drawn[first:end]])
        repeated = (ids == UNK) & (np.roll(ids, 1) == UNK)
        repeated[:1] = False
        yield ids[~repeated], np.cumsum(sampler.lengths[ids])[~np.roll(repeated, -1)]


CELLS = 1 << 20  # the number of symbols that are merged at a time, which bounds memory


class BPEDropout:
    """Draws the subwords of words by BPE-dropout.

    When two symbols become neighbours and could be merged, the merge is skipped with a fixed probability, as in
    SentencePiece. Among the merges that are not skipped, the one with the best score comes first; among equal scores,
    the leftmost one.

    Args:
        pieces: the spelling of each id. Ids up to EOS are special tokens.
        scores: the score of each id.
        dropout: the probability that a merge is skipped, from 0 to 1.
    """

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], dropout: float) -> None:
        self.dropout = dropout
        self._ids = {piece: token for token, piece in enumerate(pieces) if token > EOS}
        self.lengths = np.array([1 if token == UNK else len(piece) for token, piece in enumerate(pieces)])
        self._padding = len(pieces)
        merges = sorted(
            (self._pair_number(self._ids[piece[:cut]], self._ids[piece[cut:]]), scores[token], token)
            for piece, token in self._ids.items()
            for cut in range(1, len(piece))
            if piece[:cut] in self._ids and piece[cut:] in self._ids
        )
        # The last entry stands for no merge.
        self._keys = np.array([key for key, _, _ in merges] + [np.iinfo(np.int64).max])
        self._scores = np.array([score for _, score, _ in merges] + [-np.inf])
        self._merged = np.array([token for _, _, token in merges] + [UNK])

    @classmethod
    def of(cls, tokenizer: Tokenizer, dropout: float) -> "BPEDropout":
        """Returns a sampler with the merges of a tokenizer. Its tags are never among the drawn subwords."""
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        return cls(["" if piece in tokenizer.tags else piece for piece in pieces], tokenizer.scores, dropout)

    def draw(self, words: Sequence[str], index: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
        """Draws the subwords of each occurrence of a word.

        Args:
            words: the different words, each with `WORD_START` in front.
            index: for each occurrence the index of its word, int `(occurrences,)`.
            generator: the generator of the draws.

        Returns:
            The ids of each occurrence.
        """
        lengths = np.array([len(word) for word in words])[index]
        drawn: list[np.ndarray] = [np.zeros(0, int)] * len(index)
        symbols = [np.array([self._ids.get(character, UNK) for character in word]) for word in words]
        for rows in _chunks_of_words(lengths):
            padded = np.full((len(rows), lengths[rows].max()), self._padding)
            for row, occurrence in zip(padded, rows, strict=True):
                row[: lengths[occurrence]] = symbols[index[occurrence]]
            for row, ids in self._merge(padded, generator):
                drawn[rows[row]] = ids[ids != self._padding]
        return drawn

    def _merge(self, ids: np.ndarray, generator: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
        """Merges one pair of neighbours in every row, again and again, until no row has a merge left.

        Args:
            ids: the symbols of each word as ids, int `(words, longest)`, padded with `_padding`.
            generator: the generator of the draws.

        Yields:
            The number of a row that is finished, and its ids with padding.
        """
        rows = np.arange(len(ids))
        pairs = self._draw_pairs(ids[:, :-1], ids[:, 1:], generator)
        while pairs.shape[1]:
            scores = self._scores[pairs]
            best = scores.argmax(1)
            has_merge = np.take_along_axis(scores, best[:, None], 1)[:, 0] > -np.inf
            yield from zip(rows[~has_merge].tolist(), ids[~has_merge], strict=True)
            rows = rows[has_merge]
            ids = ids[has_merge]
            pairs = pairs[has_merge]
            best = best[has_merge]
            all_rows = np.arange(len(rows))
            ids[all_rows, best] = self._merged[pairs[all_rows, best]]
            ids = _without_column(ids, best + 1)
            pairs = _without_column(pairs, best)
            last = pairs.shape[1]
            for column, has_pair in ((best - 1, best > 0), (best, best < last)):  # the merged symbol's new pairs
                at = all_rows[has_pair], column[has_pair]
                pairs[at] = self._draw_pairs(ids[at], ids[at[0], at[1] + 1], generator)
        yield from zip(rows.tolist(), ids, strict=True)

    def _draw_pairs(self, left: np.ndarray, right: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Draws which merges of pairs of symbols are skipped.

        Args:
            left: the id of the first symbol of each pair, an int array of any shape.
            right: the id of the second symbol of each pair, of the same shape.
            generator: the generator of the draws.

        Returns:
            The index of each pair's merge, of the same shape; the last index if the pair has no merge or its merge is
            skipped.
        """
        keys = self._pair_number(left, right)
        merges = np.searchsorted(self._keys, keys)
        is_skipped = (self._keys[merges] != keys) | (generator.random(keys.shape) < self.dropout)
        return np.where(is_skipped, len(self._keys) - 1, merges)

    def _pair_number(self, left, right):
        """Returns a number that identifies a pair of ids; for two arrays of ids, an array with one for each pair."""
        return left * (self._padding + 1) + right


def _chunks_of_words(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the indices of words in chunks of similar lengths, shortest first.

    A chunk has at most `CELLS` symbols, padding included. A word of more symbols is a chunk by itself.
    """
    order = np.argsort(lengths, kind="stable")
    while len(order):
        fitting = int(np.sum(lengths[order] * np.arange(1, len(order) + 1) <= CELLS))
        chunk, order = np.split(order, [max(fitting, 1)])
        yield chunk


def _without_column(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Removes one entry from each row of an array.

    Args:
        rows: the array, `(R, C)`.
        columns: for each row the index of the entry to remove, int `(R,)`.

    Returns:
        A new array, `(R, C - 1)`.
    """
    stays = np.ones(rows.shape, bool)
    stays[np.arange(len(rows)), columns] = False
    return rows[stays].reshape(len(rows), rows.shape[1] - 1)
