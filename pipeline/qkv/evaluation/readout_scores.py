"""The scores of an archive that no run of ours has written: of its alignments, its translations, its likelihoods."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..alignment.gold import GoldSet, gold_set_of
from ..alignment.head_scores import (
    HeadCounts,
    alignment_metrics,
    choose_readout,
    head_counts,
    head_table,
    score_probable,
    sentence_counts_of,
    table_of_counts,
)
from ..alignment.readout import ChosenReadout, ProbableReadout, aligned_sites
from ..config.names.inspection import PROBABLE
from ..errors import InputError
from ..inspection.archive import AttentionArchive
from ..inspection.record import Record
from ..metrics.bleu import score_translations
from ..text.corpora.word_links import GoldAlignment


@dataclass(frozen=True)
class ReadoutScores:
    """The chosen readout, and its scores on the set's gold alignments.

    Args:
        readout: where links are read; None without gold alignments by which to choose, or without cross-attention.
        table: every readout's scores on the set; None if the set has no gold alignments.
        sentences: what each sentence counts in them, for the heads of the chosen readout's site, read as it is.
        metrics: the chosen readout's scores on the set; None if the set has no gold alignments.
        reliability: the probabilities of links compared with the set's gold alignments; None without either.
    """

    readout: ChosenReadout | None = None
    table: pd.DataFrame | None = None
    sentences: pd.DataFrame | None = None
    metrics: dict[str, Any] | None = None
    reliability: pd.DataFrame | None = None


def score_alignments(
    archive: AttentionArchive,
    name: str,
    gold: Sequence[GoldAlignment] | None,
    choose_on: tuple[AttentionArchive, str] | None = None,
    gold_file: Path | None = None,
) -> ReadoutScores:
    """Chooses the readout of an archive, and scores it on gold alignments.

    Args:
        archive: the archive.
        name: what messages and reports call it.
        gold: its gold alignments, if there are any.
        choose_on: the archive of the same model on other sentences, with gold alignments, by which the readout is
            chosen; and its name. Without it, the readout is chosen on the archive itself, which is optimistic.
        gold_file: the file of the gold alignments; None if they are the archive's own.

    Raises:
        InputError: gold alignments do not fit the sentences, or the archives have other layers or heads.
    """
    if 0 in archive.manifest["sites"].get("cross", [0]):
        return ReadoutScores()
    own = gold_set_of(archive, name, gold, gold_file) if gold is not None else None
    counts = head_counts(aligned_records(archive), own) if own else None
    table = choice = table_of_counts(counts) if counts is not None else None
    reason = f"{name} itself (optimistic)"
    if choose_on is not None:
        other, reason = choose_on
        if other.gold is None:
            raise InputError(f"{reason}: no gold alignments to choose by; expected an archive that has some")
        sites = other.manifest["sites"], archive.manifest["sites"]
        if sites[0] != sites[1]:
            raise InputError(
                f"{reason} has sites with [layers, heads] {sites[0]}, {name} has {sites[1]}; expected one model"
            )
        choice = _score(other, gold_set_of(other, reason, other.gold))
    if choice is None or choice["aer"].isna().all():
        return ReadoutScores()
    readout = choose_readout(choice, reason)
    if own is None or table is None or counts is None:
        return ReadoutScores(readout)
    return scores_of_readout(readout, counts, table, own)


def scores_of_readout(
    readout: ChosenReadout, counts: HeadCounts, table: pd.DataFrame, gold_set: GoldSet
) -> ReadoutScores:
    """Returns the scores of a readout on a set with gold alignments, whose `counts` and `table` those of all are."""
    sentences = sentence_counts_of(counts, readout.site, readout.side, readout.extraction)
    return ReadoutScores(readout, table, sentences, alignment_metrics(table, readout, gold_set))


def scores_with_probabilities(
    readout: ProbableReadout, counts: HeadCounts, table: pd.DataFrame, gold_set: GoldSet, records: Iterable[Record]
) -> ReadoutScores:
    """Returns what `scores_of_readout` does, with the links above the threshold as one more way of linking and with how
    reliable all probabilities are.

    Args:
        readout: the readout.
        counts: see `scores_of_readout`.
        table: see `scores_of_readout`.
        gold_set: the set.
        records: the cross-attention over its pairs.
    """
    found = score_probable(readout, records, gold_set)
    plain = scores_of_readout(readout.plain, counts, table, gold_set)
    assert plain.metrics is not None
    row = found.row | {"eos_share": plain.metrics["eos_share"] / 100}
    table = pd.concat([table, pd.DataFrame([row], columns=table.columns)], ignore_index=True)
    metrics = alignment_metrics(table, readout, gold_set)
    metrics["expected_calibration_error"] = None if math.isnan(found.error) else 100 * found.error
    sentences = found.sentences if readout.extraction == PROBABLE else plain.sentences
    return ReadoutScores(readout, table, sentences, metrics, found.reliability)


def archive_metrics(
    archive: AttentionArchive, name: str, readouts: ReadoutScores, bleu_tokenizer: str | None
) -> dict[str, Any]:
    """Returns what `metrics.json` holds of an archive.

    Translations are scored where every sentence has a reference, unless `bleu_tokenizer` is None; given targets where
    all log-probabilities are known.
    """
    lines = [archive.sentence(id_) for id_ in archive.ids]
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


def aligned_records(archive: AttentionArchive) -> Iterator[Record]:
    """Reads the sentences with the sites from which alignments can be read."""
    return archive.records([site for site in aligned_sites() if site in archive.manifest["sites"]])


def _score(archive: AttentionArchive, gold_set: GoldSet) -> pd.DataFrame:
    return head_table(aligned_records(archive), gold_set)
