"""An archive that no run of ours has written: the scores of its alignments, its translations and its likelihoods, and
the files that are written of it."""

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
        name: what messages and reports call it.
        gold: its gold alignments, if there are any.
        choose_on: the archive of the same model on other sentences, with gold alignments that choose the readout; and
            its name. Without it, the readout is chosen on the archive itself, which is optimistic.
        gold_file: the file of the gold alignments; None if they are the archive's own.
        first_index: the number of the first word in that file.

    Raises:
        InputError: gold alignments do not fit the sentences, or the archives have other layers or heads.
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
            found = other.manifest["sites"]
            raise InputError(f"{reason} has sites with [layers, heads] {found}, {name} has {sites}; expected one model")
        readout = _score(other, GoldScores(gold_set_of(other, reason, other.gold)), reason).readout
    if gold is None:
        return ReadoutScores(readout)
    return _score(archive, GoldScores(gold_set_of(archive, name, gold, gold_file, first_index), readout), reason)


def _score(archive: AttentionArchive, scores: GoldScores, chosen_on: str) -> ReadoutScores:
    for record in archive.records(aligned_sites()):
        scores.add(record)
    return scores.scores(chosen_on)


def archive_metrics(
    archive: AttentionArchive, name: str, readouts: ReadoutScores, bleu_tokenizer: str | None
) -> dict[str, Any]:
    """Returns what `metrics.json` holds of an archive.

    Translations are scored where every sentence has a reference, unless `bleu_tokenizer` is None; given targets where
    all log-probabilities are known.
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
    """Raises an `InputError` if a file is there that `write_archive_files` would replace, and no command wrote it."""
    tables = folder.heads, folder.head_types, folder.sentence_heads, folder.sentences
    of_links = folder.alignments, folder.head_alignment, folder.sentence_alignment
    folder.check_own((folder.metrics, *tables, *of_links), "name another folder with --folder")


def write_archive_files(
    archive: AttentionArchive,
    gold: Sequence[GoldAlignment] | None,
    readouts: ReadoutScores,
    metrics: dict[str, Any],
    folder: EvaluationDirectory,
) -> None:
    """Writes everything that is measured of an archive, `metrics.json` last, and lists these files."""
    folder.root.mkdir(parents=True, exist_ok=True)
    readout = readouts.readout
    tables = SetTables(None if gold is None else dict(zip(archive.ids, gold, strict=False)), readout)
    for record in archive.records([*TYPED_SITES, *([readout.site] if readout else [])]):
        tables.add(record)
    with folder.written.recording():
        tables.write(folder)
        write_readout_scores(readouts, folder)
        write_json(folder.metrics, metrics)
