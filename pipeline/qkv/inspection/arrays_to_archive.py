"""Writes an attention archive from tokens and arrays, whatever program has computed them: ARCHIVE.md has recipes."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config.names.inspection import RECORD_MODES
from ..errors import InputError
from ..text.corpora.word_links import GoldAlignment, write_gold
from .archive import AttentionArchive
from .archive_format import GOLD
from .archive_writer import ArchiveWriter
from .given_sentence import SPECIAL_TOKENS, Sentence, check_marks, make_record
from .given_weights import read_attention

_NO_MORE = object()


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
            generator: those of 256 sentences are held in memory.
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
    folder, facts = Path(folder), dict(manifest or {})
    both = (marks, marks) if isinstance(marks, str) else (marks[0], marks[1])
    check_marks(sentences, both)
    _check_arguments(folder, len(sentences), mode, gold, facts)
    with ArchiveWriter(folder, manifest=facts) as writer:
        if gold is not None:
            write_gold(folder / GOLD, gold)
        arrays = iter(weights)
        for number, sentence in enumerate(sentences):
            if (given := next(arrays, _NO_MORE)) is _NO_MORE:
                raise InputError(f"weights: expected those of {len(sentences)} sentences, found {number}")
            try:
                record = make_record(number, sentence, mode=mode, marks=both, special_tokens=special_tokens)
                record = replace(record, attention=read_attention(given, record, partial_rows))
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
            writer.append(record)
        if next(arrays, _NO_MORE) is not _NO_MORE:
            raise InputError(f"weights: expected those of {len(sentences)} sentences, found more")
    return AttentionArchive(folder)


def _check_arguments(
    folder: Path, sentences: int, mode: str, gold: Sequence[GoldAlignment] | None, facts: dict[str, Any]
) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is a file; expected the name of a folder")
    if mode not in RECORD_MODES:
        raise InputError(f"mode: expected one of {', '.join(RECORD_MODES)}, found {mode!r:.60}")
    if gold is not None and mode != "forced":
        raise InputError(f"gold: expected mode 'forced', since gold links belong to a given text, found {mode!r}")
    if gold is not None and len(gold) != sentences:
        raise InputError(f"gold: expected one alignment for each of {sentences} sentences, found {len(gold)}")
    try:
        json.dumps(facts, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"manifest: expected what JSON can hold: {error}") from None
