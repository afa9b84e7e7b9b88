"""The evaluation of an attention archive that was not made from a run: alignments, metrics and files."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..alignment.gold import gold_set_of
from ..alignment.head_scores import GoldScores, ReadoutScores
from ..alignment.readout import aligned_sites
from ..errors import InputError
from ..files.json import write_json
from ..files.run_directory import EvaluationDirectory
from ..inspection.archive import AttentionArchive
from ..inspection.head_types import TYPED_SITES
from ..metrics.bleu import score_translations
from ..text.corpora.word_links import GoldAlignment
from .tables import SetTables, write_readout_scores


def score_alignments(
    archive: AttentionArchive,
    name: str,
    gold: Sequence[GoldAlignment] | None,
    choose_on: tuple[AttentionArchive, str] | None = None,
    gold_file: Path | None = None,
    first_index: int = 0,
) -> ReadoutScores:
    """Chooses the readout of an archive, and scores it on gold alignments.

    Args:
        archive: the archive.
        name: the name of the archive in messages and reports.
        gold: the gold alignment of each sentence; None if there are none.
        choose_on: an archive of the same model on other sentences, and its name. The readout is chosen on its gold
            alignments. None to choose it on `archive` itself, which gives optimistic scores.
        gold_file: the file that `gold` was read from; None if the gold alignments are part of the archive.
        first_index: the number of the first word in that file, 0 or 1.

    Returns:
        The scores. All fields are None if the archive has no cross-attention. All fields but the readout are None if
        `gold` is None.

    Raises:
        InputError: gold alignments do not fit their sentences, see `alignment.gold.gold_set_of`; the archive of
            `choose_on` has no gold alignments; or the two archives differ in layers or heads.
    """
    sites = archive.manifest["sites"]
    if 0 in sites.get("cross", [0]):
        return ReadoutScores()
    readout = None
    reason = f"{name} itself (optimistic)"
    if choose_on is not None:
        other, reason = choose_on
        if other.gold is None:
            raise InputError(f"{reason}: no gold alignments to choose by; expected an archive that has some")
        if other.manifest["sites"] != sites:
            other_sites = other.manifest["sites"]
            raise InputError(
                f"{reason} has sites with [layers, heads] {other_sites}, {name} has {sites}; expected one model"
            )
        readout = _score(other, GoldScores(gold_set_of(other, reason, other.gold)), reason).readout
    if gold is None:
        return ReadoutScores(readout)
    return _score(archive, GoldScores(gold_set_of(archive, name, gold, gold_file, first_index), readout), reason)


def _score(archive: AttentionArchive, scores: GoldScores, chosen_on: str) -> ReadoutScores:
    """Adds all records of an archive to the scores, and returns the result of `GoldScores.scores`."""
    for record in archive.records(aligned_sites()):
        scores.add(record)
    return scores.scores(chosen_on)


def archive_metrics(
    archive: AttentionArchive, name: str, readouts: ReadoutScores, bleu_tokenizer: str | None
) -> dict[str, Any]:
    """Returns the content of `metrics.json` for an archive.

    It has `loss` and `perplexity` only if all targets are references and the archive has their log-probabilities.

    Args:
        archive: the archive.
        name: the name of the archive.
        readouts: the scores of its alignments.
        bleu_tokenizer: the tokenizer of BLEU. Translations are scored if all sentences have a reference. If it is None,
            translations are not scored.
    """
    lines = archive.lines
    forced = bool(lines) and all(line["mode"] == "forced" for line in lines)
    metrics: dict[str, Any] = {
        "name": name,
        "mode": "forced" if forced else "translated",
        "sentences": len(lines),
        "search": " and ".join(sorted({line["mode"] for line in lines})),
        "truncated": sum(line["truncated"] for line in lines),
    }
    references = [line["reference"] for line in lines]
    if bleu_tokenizer and lines and not forced and None not in references:
        texts = [line["hypothesis"] for line in lines]
        metrics |= score_translations(texts, references, tokenizer=bleu_tokenizer)
    if forced and all(line["token_log_probabilities"] for line in lines):
        likelihoods = [value for line in lines for value in line["token_log_probabilities"]]
        loss = -sum(likelihoods) / len(likelihoods)
        metrics |= {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
    if readouts.metrics:
        metrics["alignment"] = readouts.metrics
    return metrics


def check_archive_files(folder: EvaluationDirectory) -> None:
    """Raises an `InputError` if `write_archive_files` would replace a file that no command wrote."""
    tables = folder.heads, folder.head_types, folder.sentence_heads, folder.sentences
    link_files = folder.alignments, folder.head_alignment, folder.sentence_alignment
    folder.refuse_other_files((folder.metrics, *tables, *link_files), "name another folder with --folder")


def write_archive_files(
    archive: AttentionArchive,
    gold: Sequence[GoldAlignment] | None,
    readouts: ReadoutScores,
    metrics: dict[str, Any],
    folder: EvaluationDirectory,
) -> None:
    """Writes the tables of an archive and `metrics.json` into a folder, and adds them to the folder's list of files.

    `metrics.json` is written last.

    Args:
        archive: the archive.
        gold: the gold alignment of each sentence; None if there are none.
        readouts: the scores of the alignments.
        metrics: the content of `metrics.json`.
        folder: the folder. It is created if it does not exist.
    """
    folder.root.mkdir(parents=True, exist_ok=True)
    readout = readouts.readout
    tables = SetTables(None if gold is None else dict(zip(archive.ids, gold, strict=False)), readout)
    for record in archive.records([*TYPED_SITES, *([readout.site] if readout else [])]):
        tables.add(record)
    with folder.written.recording():
        tables.write(folder)
        write_readout_scores(readouts, folder)
        write_json(folder.metrics, metrics)
