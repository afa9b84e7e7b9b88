"""An attention archive made of tokens and arrays, whatever program has computed them: they are checked before they are
archived. docs/use/archive.md has recipes."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from ..config.names import describe
from ..config.names.inspection import RECORD_MODES, SITES
from ..config.names.text import WORD_MARKS
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
"""Tokens that belong to no word."""


@dataclass(frozen=True)
class Sentence:
    """A sentence pair and its tokens, for `write_archive`.

    Args:
        source_tokens: the keys of the cross-attention, as text, special tokens such as `</s>` included.
        target_tokens: what its rows predict: the labels, not the decoder's input; `</s>` included.
        source: the sentence; by default it is spelled from its tokens.
        target: the translation; by default it is spelled from its tokens.
        reference: a given translation to compare with.
        source_words: for each source token the number of its word, from 0; None for tokens that belong to no word. By
            default the marks in the tokens' spelling tell.
        target_words: the same for the target tokens.
        log_probabilities: the natural logarithm of each target token's probability, where they are known.
        start: the decoder's first input, from which it predicts the first target token: `<pad>` of T5 and Marian.
        truncated: whether the target was cut short.
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
    """Writes an archive that `qkv view`, `measure`, `draw` and `compare` read like one of `evaluate.py`.

    Args:
        folder: where it is written; made if missing.
        sentences: the sentence pairs with their tokens.
        weights: for each sentence the cross-attention `(layer, head, target token, source token)`, after the softmax
            and before dropout, without padding; or a mapping from sites (`cross` and others of
            `config.names.inspection.SITES`) to such arrays. NumPy arrays, or what NumPy can read. They may come from a
            generator: the weights of 256 sentences are held in memory.
        marks: how the spelling of tokens shows where words begin, one of `config.names.text.WORD_MARKS`; or one for the
            source and one for the target.
        special_tokens: tokens that belong to no word, such as `</s>`.
        mode: where the targets come from: `forced` for given text, `greedy`, `beam` or `sampling` for the model's own.
        gold: the gold alignment of each pair, see `qkv.text.corpora.word_links.read_pharaoh`; for mode `forced`.
        partial_rows: whether rows may sum to less than one, as in a decoder-only model, whose rows also attend to the
            target.
        manifest: facts to keep with the archive, ready for JSON, such as the model's name.

    Returns:
        The archive, open for reading.

    Raises:
        InputError: lists and arrays do not fit together; the message names the sentence, and what was expected.
    """
    folder = Path(folder)
    facts = dict(manifest or {})
    both = (marks, marks) if isinstance(marks, str) else (marks[0], marks[1])
    _check_marks(sentences, both)
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
        raise InputError(f"manifest: expected what JSON can hold: {error}") from None
    with ArchiveWriter(folder, manifest=facts) as writer:
        if gold is not None:
            write_gold(folder / GOLD, gold)
        arrays = iter(weights)
        for number, (sentence, given) in enumerate(zip(sentences, arrays, strict=False)):
            try:
                record = _make_record(number, sentence, mode=mode, marks=both, special_tokens=special_tokens)
                by_site = given if isinstance(given, Mapping) else {"cross": given}
                if unknown := by_site.keys() - SITES.keys():
                    raise InputError(f"expected attention of sites among {', '.join(SITES)}, found {[*unknown]!r:.60}")
                for site, of_site in by_site.items():
                    record.attention[site] = _read_weights(site, of_site, record, partial_rows)
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
            writer.append(record)
        found = len(writer.ids) if len(writer.ids) < len(sentences) else "more"
        if found != "more" or any(True for _ in arrays):
            raise InputError(f"weights: expected weights of {len(sentences)} sentences, found {found}")
    return AttentionArchive(folder)


MOST_WORDS = 1_000_000  # of a sentence


def _check_marks(sentences: Sequence[Sentence], marks: tuple[str, str]) -> None:
    for side, name in zip(("source", "target"), marks, strict=True):
        if name not in WORD_MARKS:
            raise InputError(f"marks: expected one of {', '.join(WORD_MARKS)}, found {name!r}")
        unnumbered = [getattr(one, f"{side}_tokens") for one in sentences if getattr(one, f"{side}_words") is None]
        if found := other_marks(([token for token in tokens if _is_text(token)] for tokens in unnumbered), name):
            advice = f"name the tokens' own marks, or give {side}_words ({describe(WORD_MARKS)})"
            raise InputError(f"marks: {name} for the {side}, but {found}; {advice}")


def _make_record(
    id_: int, sentence: Sentence, *, mode: str, marks: tuple[str, str], special_tokens: Collection[str]
) -> Record:
    """Makes the record of a sentence, without attention."""
    for name in ("reference", "start"):
        if not _is_text(text := getattr(sentence, name)) and (name, text) != ("reference", None):
            raise InputError(f"{name}: expected text, found {text!r:.60}")
    (source, source_tokens, source_words, source_unit), (target, target_tokens, target_words, target_unit) = (
        _read_side(sentence, side, name, special_tokens) for side, name in zip(("source", "target"), marks, strict=True)
    )
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
    """Returns the text of a side, its tokens, the word of each, and what counts as a word."""
    tokens, text, given = list(getattr(sentence, f"{side}_tokens")), getattr(sentence, side), f"{side}_words"
    if not tokens:
        raise InputError(f"{side}_tokens: expected at least one token, such as </s>, found none")
    for token in tokens:
        if not _is_text(token):
            raise InputError(f"{side}_tokens: expected tokens as text, found {token!r:.60}: convert ids to tokens")
    words, unit = words_by_marks(tokens, marks, special_tokens), "subwords" if marks == "none" else "spaces"
    spelled = getattr(sentence, given) is None
    if not spelled:
        words, unit = list(getattr(sentence, given)), "spaces"
        if len(words) != len(tokens):
            raise InputError(f"{given}: expected {len(tokens)} entries, one per token, found {len(words)}")
        for word in words:
            if word is not None and not (isinstance(word, Integral) and 0 <= word < MOST_WORDS):
                raise InputError(f"{given}: expected numbers of words from 0 on, or None, found {quoted(word)}")
        words = [None if word is None else int(word) for word in words]
    spelling = spell_words(tokens, words, marks)
    if text is None:
        if "" in spelling:
            raise InputError(f"{given}: no token has word {spelling.index('')}, so the text must be given as {side}")
        return " ".join(spelling), tokens, words, unit
    if not _is_text(text):
        raise InputError(f"{side}: expected text, found {text!r:.60}")
    found = len(words_of(text))
    exact = spelled and not sentence.truncated
    if unit == "spaces" and (len(spelling) > found or (exact and len(spelling) < found)):
        raise InputError(
            f"{side}: its tokens spell {len(spelling)} words ({' '.join(spelling):.60}), and the text has {found} "
            f"between spaces ({text:.60}): leave it out, put spaces where the words are cut, or give {given}"
        )
    return text, tokens, words, unit


def _read_log_probabilities(given: Sequence[float]) -> list[float]:
    for value in given:
        if not (isinstance(value, Real) and -1e30 < value < 0.01):  # also not-a-number
            raise InputError(
                f"log_probabilities: expected natural logarithms, 0 or less and finite, found {quoted(value)}"
            )
    return [float(value) for value in given]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_unicode(value)


TOLERANCE = 0.01  # of the sum of a row; weights may have been computed in 16 bits


def _read_weights(site: str, given: Any, record: Record, partial_rows: bool) -> np.ndarray:
    """Returns the attention of a site as archives hold it."""
    try:
        weights = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # of PyTorch, for one on a GPU or with a gradient
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
    numbers = {"finite numbers": ~np.isfinite(weights), "weights after the softmax, from 0 to 1": weights < 0}
    for meaning, wrong in numbers.items():
        if wrong.any():
            layer = np.argwhere(wrong)[0][0]
            raise InputError(f"{site}, layer {layer}: expected {meaning}, found {weights[wrong][0]:g}")
    sums = weights.sum(axis=-1, dtype=np.float64)
    wrong = sums >= 1 + TOLERANCE if partial_rows else np.abs(sums - 1) >= TOLERANCE
    if wrong.any():
        layer, head, row = np.argwhere(wrong)[0]
        wanted = "at most 1" if partial_rows else "1 (at most 1 with partial_rows=True)"
        raise InputError(
            f"{site}, layer {layer}, head {head}, row {row}: expected weights that sum to {wanted}, found a sum of "
            f"{sums[layer, head, row]:.4g}; give weights after the softmax and before dropout"
        )
    return weights.astype(np.float32)
