"""Writes an attention archive from the tokens and arrays of any program. They are checked first.

docs/use/archive.md has recipes for several programs.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from ..config.choices import describe_names
from ..config.choices.inspection import RECORD_MODES, SITES
from ..config.choices.text import WORD_MARKS
from ..errors import InputError, quoted
from ..files.paths import is_unicode
from ..text.corpora.word_links import GoldAlignment, write_gold
from ..text.lines.line import words_of
from ..text.tokens.words import other_marks, spell_words, words_by_marks
from .archive import GOLD, ArchiveWriter, AttentionArchive
from .record import Record

SPECIAL_TOKENS = frozenset(
    [
        *("<s>", "</s>", "<pad>", "<bos>", "<eos>", "[CLS]", "[SEP]", "[PAD]", "[BOS]", "[EOS]"),
        *("<|startoftext|>", "<|endoftext|>"),
    ]
)
"""The default tokens that belong to no word."""


@dataclass(frozen=True)
class Sentence:
    """A sentence pair with its tokens, for `write_archive`.

    Args:
        source_tokens: the source tokens as text, special tokens such as `</s>` included; the keys of cross-attention.
        target_tokens: the tokens that the rows of cross-attention predict, as text, `</s>` included: the labels, not
            the input of the decoder.
        source: the text of the source; None if it is spelled by the tokens.
        target: the text of the translation; None if it is spelled by the tokens.
        reference: the text of a reference translation; None if there is none.
        source_words: the index of the word of each source token, from 0, or None for a token that belongs to no word.
            If the whole argument is None, the words follow from the word marks in the tokens.
        target_words: the same for the target tokens.
        log_probabilities: the natural logarithm of the probability of each target token; empty if unknown.
        start: the first input token of the decoder, from which it predicts the first target token, such as `<pad>` for
            T5 and Marian.
        truncated: True if the target stopped at a length limit, without EOS.
    """

    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    source: str | None = None
    target: str | None = None
    reference: str | None = None
    source_words: Sequence[int | None] | None = None
    target_words: Sequence[int | None] | None = None
    log_probabilities: Sequence[float] = ()
    start: str = "<s>"
    truncated: bool = False


def write_archive(
    folder: str | Path,
    sentences: Sequence[Sentence],
    weights: Iterable[Any],
    *,
    marks: str | tuple[str, str] = "sentencepiece",
    special_tokens: Collection[str] = SPECIAL_TOKENS,
    mode: str = "forced",
    gold: Sequence[GoldAlignment] | None = None,
    partial_rows: bool = False,
    manifest: Mapping[str, Any] | None = None,
) -> AttentionArchive:
    """Writes an archive that `qkv view`, `measure`, `draw` and `compare` read like an archive of `evaluate.py`.

    Args:
        folder: the folder of the archive; created if missing.
        sentences: the sentence pairs with their tokens.
        weights: an iterable, possibly a generator, with one item for each sentence: the cross-attention
            `(layer, head, target token, source token)`, after the softmax and before dropout, without padding; or a
            mapping from sites (`cross` and others of `config.choices.inspection.SITES`) to such arrays. Arrays may
            have any type that NumPy can convert. The weights of 256 sentences are held in memory.
        marks: the marks by which tokens show where words begin, one of `config.choices.text.WORD_MARKS`; or a pair for
            source and target.
        special_tokens: the tokens that belong to no word, such as `</s>`.
        mode: the origin of the targets: `forced` for a given text; `greedy`, `beam` or `sampling` for translations by
            the model.
        gold: the gold alignment of each pair, see `qkv.text.corpora.word_links.read_pharaoh`. It needs the mode
            `forced`. None if there are no gold alignments.
        partial_rows: if True, rows may sum to less than 1, as in a decoder-only model, whose rows also attend to the
            target.
        manifest: further entries of the archive's manifest, such as the name of the model; JSON values by name.

    Returns:
        The archive, open for reading.

    Raises:
        InputError: an argument has a wrong type or value, or the sizes of lists and arrays do not match. The message
            names the argument or sentence, and the expected value.
    """
    folder = Path(folder)
    facts = dict(manifest or {})
    both_marks = (marks, marks) if isinstance(marks, str) else (marks[0], marks[1])
    _check_marks(sentences, both_marks)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is a file; expected the name of a folder")
    if mode not in RECORD_MODES:
        raise InputError(f"mode: expected one of {', '.join(RECORD_MODES)}, found {mode!r:.60}")
    if gold is not None and mode != "forced":
        raise InputError(f"gold: expected mode 'forced', since gold links belong to a given text, found {mode!r}")
    if gold is not None and len(gold) != len(sentences):
        raise InputError(f"gold: expected one alignment for each of {len(sentences)} sentences, found {len(gold)}")
    try:
        json.dumps(facts, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"manifest: expected values that JSON can hold: {error}") from None
    with ArchiveWriter(folder, manifest=facts) as writer:
        if gold is not None:
            write_gold(folder / GOLD, gold)
        arrays = iter(weights)
        for number, (sentence, item) in enumerate(zip(sentences, arrays, strict=False)):
            try:
                record = _make_record(number, sentence, mode=mode, marks=both_marks, special_tokens=special_tokens)
                by_site = item if isinstance(item, Mapping) else {"cross": item}
                if unknown := by_site.keys() - SITES.keys():
                    raise InputError(f"expected attention of sites among {', '.join(SITES)}, found {[*unknown]!r:.60}")
                for site, array in by_site.items():
                    record.attention[site] = _read_weights(site, array, record, partial_rows)
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
            writer.append(record)
        count = len(writer.ids) if len(writer.ids) < len(sentences) else "more"
        if count != "more" or any(True for _ in arrays):
            raise InputError(f"weights: expected weights of {len(sentences)} sentences, found {count}")
    return AttentionArchive(folder)


MOST_WORDS = 1_000_000
"""An upper limit of the index of a word in a sentence."""


def _check_marks(sentences: Sequence[Sentence], marks: tuple[str, str]) -> None:
    """Checks the word marks of the source and of the target, the two elements of `marks`.

    Raises:
        InputError: the marks are unknown, or the tokens of that side have other marks.
    """
    for side, name in zip(("source", "target"), marks, strict=True):
        if name not in WORD_MARKS:
            raise InputError(f"marks: expected one of {', '.join(WORD_MARKS)}, found {name!r}")
        token_lists = (
            [token for token in getattr(sentence, f"{side}_tokens") if _is_text(token)]
            for sentence in sentences
            if getattr(sentence, f"{side}_words") is None
        )
        if sign := other_marks(token_lists, name):
            advice = f"name the marks of the tokens, or give {side}_words ({describe_names(WORD_MARKS)})"
            raise InputError(f"marks: {name} for the {side}, but {sign}; {advice}")


def _make_record(
    id_: int, sentence: Sentence, *, mode: str, marks: tuple[str, str], special_tokens: Collection[str]
) -> Record:
    """Makes the record of a sentence, without attention; `marks` are the word marks of the source and of the target.

    Raises:
        InputError: a field of the sentence has a wrong type, value or length.
    """
    for name in ("reference", "start"):
        if not _is_text(text := getattr(sentence, name)) and (name, text) != ("reference", None):
            raise InputError(f"{name}: expected text, found {text!r:.60}")
    source, source_tokens, source_words, source_unit = _read_side(sentence, "source", marks[0], special_tokens)
    target, target_tokens, target_words, target_unit = _read_side(sentence, "target", marks[1], special_tokens)
    return Record(
        id=id_,
        source=source,
        reference=sentence.reference,
        hypothesis=target,
        source_tokens=source_tokens,
        target_input_tokens=[sentence.start, *target_tokens[:-1]],
        target_output_tokens=target_tokens,
        source_words=source_words,
        target_words=target_words,
        token_log_probabilities=_read_log_probabilities(sentence.log_probabilities),
        mode=mode,
        truncated=bool(sentence.truncated),
        attention={},
        source_unit=source_unit,
        target_unit=target_unit,
    )


def _read_side(
    sentence: Sentence, side: str, marks: str, special_tokens: Collection[str]
) -> tuple[str, list[str], list[int | None], str]:
    """Checks a side of a sentence, `source` or `target`.

    Returns:
        The text, the tokens, the index of each token's word (None if it belongs to no word), and the unit of words:
        `subwords` if the words follow from the marks `none`, otherwise `spaces`.

    Raises:
        InputError: there is no token, a token is not text, the words do not match the tokens, or the text does not
            match the words.
    """
    tokens = list(getattr(sentence, f"{side}_tokens"))
    text = getattr(sentence, side)
    words_argument = f"{side}_words"
    if not tokens:
        raise InputError(f"{side}_tokens: expected at least one token, such as </s>, found none")
    for token in tokens:
        if not _is_text(token):
            raise InputError(f"{side}_tokens: expected tokens as text, found {token!r:.60}: convert ids to tokens")
    words = words_by_marks(tokens, marks, special_tokens)
    unit = "subwords" if marks == "none" else "spaces"
    words_follow_from_marks = getattr(sentence, words_argument) is None
    if not words_follow_from_marks:
        words = list(getattr(sentence, words_argument))
        unit = "spaces"
        if len(words) != len(tokens):
            raise InputError(f"{words_argument}: expected {len(tokens)} entries, one per token, found {len(words)}")
        for word in words:
            if word is not None and not (isinstance(word, Integral) and 0 <= word < MOST_WORDS):
                raise InputError(
                    f"{words_argument}: expected numbers of words from 0 on, or None, found {quoted(word)}"
                )
        words = [None if word is None else int(word) for word in words]
    spelling = spell_words(tokens, words, marks)
    if text is None:
        if "" in spelling:
            missing = spelling.index("")
            raise InputError(
                f"{words_argument}: no token has word {missing}, so the text is needed as the argument {side}"
            )
        return " ".join(spelling), tokens, words, unit
    if not _is_text(text):
        raise InputError(f"{side}: expected text, found {text!r:.60}")
    text_words = len(words_of(text))
    must_be_equal = words_follow_from_marks and not sentence.truncated
    if unit == "spaces" and (len(spelling) > text_words or (must_be_equal and len(spelling) < text_words)):
        raise InputError(
            f"{side}: its tokens spell {len(spelling)} words ({' '.join(spelling):.60}), and the text has {text_words} "
            f"between spaces ({text:.60}): leave it out, put spaces where the words are cut, or give {words_argument}"
        )
    return text, tokens, words, unit


def _read_log_probabilities(log_probabilities: Sequence[float]) -> list[float]:
    """Returns the log-probabilities as floats; raises an `InputError` if one is not finite or above 0.01."""
    for value in log_probabilities:
        if not (isinstance(value, Real) and -1e30 < value < 0.01):  # False for NaN, too
            raise InputError(
                f"log_probabilities: expected natural logarithms, 0 or less and finite, found {quoted(value)}"
            )
    return [float(value) for value in log_probabilities]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_unicode(value)


ROW_SUM_TOLERANCE = 0.01
"""The largest deviation of the sum of a row; weights may have been computed in 16 bits."""


def _read_weights(site: str, array: Any, record: Record, partial_rows: bool) -> np.ndarray:
    """Checks the attention of a site and converts it to float32 `(layer, head, query, key)`.

    Args:
        site: the name of the site.
        array: the weights, of any type that NumPy can convert.
        record: the sentence, whose tokens decide the shape.
        partial_rows: if True, rows may sum to less than 1.

    Raises:
        InputError: NumPy cannot convert the array, or it has a wrong shape, type, value or sum of a row.
    """
    try:
        weights = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:  # PyTorch raises these for a GPU's tensor or a gradient's
        raise InputError(f"{site}: cannot be read as an array: {error}; give NumPy arrays") from None
    query, key = SITES[site].axes
    expected = SITES[site].pick(len(record.source_tokens), len(record.target_output_tokens))
    if weights.ndim != 4 or weights.shape[2:] != expected:
        advice = "cut the padding off, and keep the special tokens"
        if weights.ndim != 4:
            advice = "stack the layers, and take one sentence out of the batch"
        elif weights.shape[2:] == expected[::-1]:
            advice = "exchange the last two axes"
        shape = f"(layers, heads, {expected[0]} {query} tokens, {expected[1]} {key} tokens)"
        raise InputError(f"{site}: expected shape {shape}, found {weights.shape}; {advice}")
    if weights.dtype.kind != "f":
        raise InputError(f"{site}: expected floating-point numbers, found {weights.dtype}; convert them to float32")
    mistakes = {"finite numbers": ~np.isfinite(weights), "weights after the softmax, from 0 to 1": weights < 0}
    for expectation, is_wrong in mistakes.items():
        if is_wrong.any():
            layer = np.argwhere(is_wrong)[0][0]
            raise InputError(f"{site}, layer {layer}: expected {expectation}, found {weights[is_wrong][0]:g}")
    sums = weights.sum(axis=-1, dtype=np.float64)
    is_wrong = sums >= 1 + ROW_SUM_TOLERANCE if partial_rows else np.abs(sums - 1) >= ROW_SUM_TOLERANCE
    if is_wrong.any():
        layer, head, row = np.argwhere(is_wrong)[0]
        expected_sum = "at most 1" if partial_rows else "1 (at most 1 with partial_rows=True)"
        raise InputError(
            f"{site}, layer {layer}, head {head}, row {row}: expected weights that sum to {expected_sum}, found a "
            f"sum of {sums[layer, head, row]:.4g}; give weights after the softmax and before dropout"
        )
    return weights.astype(np.float32)
