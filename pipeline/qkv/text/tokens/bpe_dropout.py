"""Segmentations of the training text by BPE-dropout (Provilkov et al. 2020), which leaves out merges at random.

SentencePiece draws them too, but from version 0.2.2 on its generator takes something of its own from every process
besides the seed, so the same seed would train another model in every process.
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

SEGMENTATIONS = 10  # of the training text with BPE-dropout; epochs use them in turn


def segmentation_names(dropout: float) -> list[str]:
    """Returns the names of the files of the training pairs, one for each segmentation."""
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
    """Draws every segmentation of the pairs; without BPE-dropout there is just one, `encoded`.

    Args:
        corpus: the pairs.
        encoded: their usual segmentation.
        tokenizer: the run's.
        linker: links the tokens; None: they have no links.
        dropout: the probability that a merge is left out; 0: no BPE-dropout.
        longest: numbers of tokens of source and target.
        seed: of all draws.
    """
    if not dropout:
        return [encoded if linker is None else linker.link(encoded)]
    sampler = BPEDropout.of(tokenizer, dropout)
    # Every segmentation and side has its own seed, or both sides would lose the same merges.
    seeds = np.random.SeedSequence(seed).generate_state(2 * SEGMENTATIONS).reshape(-1, 2).tolist()
    texts = corpus.source, corpus.target
    models = tokenizer.side_models if linker else (None, None)
    segmentations = []
    for own_seeds in seeds:
        drawn = map(sample_segmentation, texts, encoded.sides, [sampler] * 2, own_seeds, longest, models)
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
    """Encodes sentences in subwords that are drawn. The same seed gives the same ids, on every machine.

    Args:
        sentences: the text.
        encoded: its usual segmentation, taken for a sentence that becomes longer than `longest` tokens.
        sampler: draws the subwords of words.
        seed: the seed of the draws.
        longest: number of tokens.
        model: says where the usual tokens end in the text; None if that is of no use.

    Returns:
        The ids, and the byte after each token or None.
    """
    generator = np.random.default_rng(seed)
    ids, ends = SentenceStore(np.int32), SentenceStore(np.int32)
    first = 0
    for chunk in chunks(sentences):
        rows, after = map(list, zip(*_sample(chunk, sampler, generator), strict=True))
        too_long = [number for number, row in enumerate(rows) if len(row) > longest]
        for number in too_long:
            rows[number] = encoded[first + number]
        ids.add_rows(rows)
        if model is not None:
            bytes_after = list(map(_byte_ends, chunk, after))
            for number, usual in zip(too_long, model.ends([chunk[number] for number in too_long]), strict=True):
                bytes_after[number] = np.array(usual, np.int64)
            ends.add_rows(bytes_after)
        first += len(chunk)
    return ids.finish(), ends.finish() if model else None


def _byte_ends(sentence: str, ends: np.ndarray) -> np.ndarray:
    """Returns the byte after each token from the character after it, which counts the mark of each word."""
    after: list[int] = []
    for word in re.finditer(rb"[^ ]+", sentence.encode()):
        after += accumulate((len(character.encode()) for character in word[0].decode()), initial=word.start())
    return np.array(after, np.int64)[ends - 1]


def _sample(
    sentences: Sequence[str], sampler: "BPEDropout", generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draws the ids of each sentence, and the character after each; neighbouring unknown ones are one token."""
    words: dict[str, int] = {}
    index: list[int] = []
    ends = [0]
    for sentence in sentences:
        # SentencePiece takes the mark in a text for a space, too, and drops it at the end.
        marked = "".join(WORD_START + word for word in words_of(visible(sentence))).rstrip(WORD_START)
        index += [words.setdefault(WORD_START + word, len(words)) for word in marked.split(WORD_START)[1:]]
        ends.append(len(index))
    drawn = sampler.draw(list(words), np.array(index, int), generator) if index else []
    for first, end in pairwise(ends):
        ids = np.concatenate([np.zeros(0, int), *drawn[first:end]])
        repeated = (ids == UNK) & (np.roll(ids, 1) == UNK)
        repeated[:1] = False
        yield ids[~repeated], np.cumsum(sampler.lengths[ids])[~np.roll(repeated, -1)]


CELLS = 1 << 20  # symbols that are merged at a time, to bound memory


class BPEDropout:
    """Draws the subwords of words.

    Every pair of neighbouring symbols that could be merged is left out with a fixed probability when it first becomes a
    pair, as in SentencePiece; of the others, the pair with the best score is merged first, and the leftmost of equals.

    Args:
        pieces: the spelling of each id; those up to EOS are special.
        scores: the score of each id.
        dropout: the probability, from 0 to 1.
    """

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], dropout: float) -> None:
        self.dropout = dropout
        self._ids = {piece: token for token, piece in enumerate(pieces) if token > EOS}
        self.lengths = np.array([1 if token == UNK else len(piece) for token, piece in enumerate(pieces)])
        self._padding = len(pieces)
        merges = sorted(
            (self._key(self._ids[piece[:cut]], self._ids[piece[cut:]]), scores[token], token)
            for piece, token in self._ids.items()
            for cut in range(1, len(piece))
            if piece[:cut] in self._ids and piece[cut:] in self._ids
        )
        # The last one stands for no merge.
        self._keys = np.array([key for key, _, _ in merges] + [np.iinfo(np.int64).max])
        self._scores = np.array([score for _, score, _ in merges] + [-np.inf])
        self._merged = np.array([token for _, _, token in merges] + [UNK])

    @classmethod
    def of(cls, tokenizer: Tokenizer, dropout: float) -> "BPEDropout":
        """Makes one of a tokenizer's merges; no text is cut into its tags."""
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        return cls(["" if piece in tokenizer.tags else piece for piece in pieces], tokenizer.scores, dropout)

    def draw(self, words: Sequence[str], index: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
        """Draws the ids of `words[i]` for each i of `index`; the words differ, each with its mark in front."""
        lengths = np.array([len(word) for word in words])[index]
        drawn: list[np.ndarray] = [np.zeros(0, int)] * len(index)
        symbols = [np.array([self._ids.get(character, UNK) for character in word]) for word in words]
        for rows in _chunks(lengths):
            padded = np.full((len(rows), lengths[rows].max()), self._padding)
            for row, occurrence in zip(padded, rows, strict=True):
                row[: lengths[occurrence]] = symbols[index[occurrence]]
            for row, ids in self._merge(padded, generator):
                drawn[rows[row]] = ids[ids != self._padding]
        return drawn

    def _merge(self, ids: np.ndarray, generator: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
        """Merges one pair of every row in turn until none is left; yields the numbers and symbols of finished rows."""
        rows = np.arange(len(ids))
        pairs = self._draw_pairs(ids[:, :-1], ids[:, 1:], generator)
        while pairs.shape[1]:
            scores = self._scores[pairs]
            best = scores.argmax(1)
            going = np.take_along_axis(scores, best[:, None], 1)[:, 0] > -np.inf
            yield from zip(rows[~going].tolist(), ids[~going], strict=True)
            rows, ids, pairs, best = rows[going], ids[going], pairs[going], best[going]
            each = np.arange(len(rows))
            ids[each, best] = self._merged[pairs[each, best]]
            ids, pairs = _without(ids, best + 1), _without(pairs, best)
            last = pairs.shape[1]
            for column, has_pair in ((best - 1, best > 0), (best, best < last)):
                at = each[has_pair], column[has_pair]
                pairs[at] = self._draw_pairs(ids[at], ids[at[0], at[1] + 1], generator)
        yield from zip(rows.tolist(), ids, strict=True)

    def _draw_pairs(self, left: np.ndarray, right: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Returns the index of each pair's merge; the last one where there is none or it is left out."""
        keys = self._key(left, right)
        found = np.searchsorted(self._keys, keys)
        left_out = (self._keys[found] != keys) | (generator.random(keys.shape) < self.dropout)
        return np.where(left_out, len(self._keys) - 1, found)

    def _key(self, left, right):
        return left * (self._padding + 1) + right


def _chunks(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the indices of words of about the same length, `CELLS` symbols at a time."""
    order = np.argsort(lengths, kind="stable")
    while len(order):
        fitting = int(np.sum(lengths[order] * np.arange(1, len(order) + 1) <= CELLS))
        chunk, order = np.split(order, [max(fitting, 1)])
        yield chunk


def _without(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Takes one column out of every row."""
    kept = np.ones(rows.shape, bool)
    kept[np.arange(len(rows)), columns] = False
    return rows[kept].reshape(len(rows), rows.shape[1] - 1)
