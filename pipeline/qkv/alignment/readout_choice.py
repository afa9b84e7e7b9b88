"""The readout of a run: as the command line names it, as gold alignments choose it, as two runs of opposite directions
agree on it, or its last layer.

Heads that align words agree in both directions; heads that do something else have no reason to (Liang et al. 2006
trained aligners to agree; Zenkel et al. 2020 judge attention by its agreement).
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from ..config import RunConfig
from ..config.names.inspection import EXTRACTIONS, LABEL_SIDES, SITES
from ..errors import InputError, quoted
from ..files.paths import sha256
from ..inspection.record import Record
from ..run.trained_run import TrainedRun
from ..text.corpora.word_links import GoldAlignment
from .gold import GoldSet, read_choice_set
from .head_scores import HeadCounts, best_row
from .link_probabilities import MOST_PAIRS, calibrate
from .readout import MEAN_HEAD, AlignmentReadout, aligned_sites, read_links
from .word_matrix import heads_and_mean


def find_readout(run: TrainedRun, at: str | None) -> AlignmentReadout | None:
    """Returns the readout that `LAYER,HEAD,SIDE[,LINKS[,SITE]]` names; without it the one that the gold alignments of
    the run's config choose, None if they are missing.

    Raises:
        InputError: the run has no such layer or head.
    """
    if at is not None:
        return _parse_readout(at, run)
    gold_set = read_choice_set(run.config, run.cutter)
    return None if gold_set is None else choose_on_gold(run, gold_set)


def last_layer(run: TrainedRun) -> AlignmentReadout:
    """Returns the readout of the mean of the last layer's heads.

    Raises:
        InputError: the model has no cross-attention.
    """
    record = next(run.recorder(["cross"]).record_references(["a"], ["a"]))
    if not len(record.attention["cross"]):
        raise InputError(f"{run.directory.root}: its model has no cross-attention, and so no links to read")
    layer = len(record.attention["cross"]) - 1
    return AlignmentReadout(layer, MEAN_HEAD, "output", chosen_on="nothing: it is the last layer")


def choose_on_gold(run: TrainedRun, gold_set: GoldSet, recorded: Sequence[str] = ()) -> AlignmentReadout | None:
    """Returns the readout with the lowest error rate on a set, with the probabilities of its links if the set is large
    enough to calibrate them; None for a model without cross-attention.

    The set is read once: the first pairs' cross-attention is kept for the calibration.

    Args:
        run: the run.
        gold_set: the set.
        recorded: the sites of a recorder of the run that is used for other sets too, so that one graph is traced; by
            default the sites that are compared.
    """
    sites = alignment_sites(run.config)
    recorder = run.recorder(recorded or sites, gold_set.units)
    heads = HeadCounts(gold_set.gold, gold_set.word_counts)
    kept: list[tuple[Record, GoldAlignment]] = []
    records = recorder.record_references(gold_set.corpus.source, gold_set.corpus.target, sites)
    for record, gold in zip(records, gold_set.gold, strict=True):
        heads.add(record)
        if len(kept) < MOST_PAIRS and (gold.sure or not record.has_empty_side):
            kept.append((replace(record, attention={"cross": record.attention["cross"]}), gold))
    table = heads.table()
    if table.empty:
        return None
    best = best_row(table)
    readout = AlignmentReadout.from_row(best, gold_set.name)
    calibration = calibrate(([one] for one, _ in kept), [gold for _, gold in kept], [readout.layer], gold_set.name)
    if calibration is None:
        return readout
    return readout.calibrated(replace(calibration, weights=(sha256(run.weights),)), float(best["aer"]))


def _parse_readout(text: str, run: TrainedRun) -> AlignmentReadout:
    form = re.fullmatch(
        rf"([0-9]{{1,9}}),([0-9]{{1,9}}|{MEAN_HEAD}),({'|'.join(LABEL_SIDES)})"
        rf"(?:,({'|'.join(map(re.escape, EXTRACTIONS))})(?:,({'|'.join(aligned_sites())}))?)?",
        text if isinstance(text, str) else "",
    )
    if form is None:
        raise InputError(
            "expected LAYER,HEAD,SIDE such as 1,mean,output or 2,0,input, perhaps with ,LINKS "
            f"({', '.join(EXTRACTIONS)}) and ,SITE ({', '.join(aligned_sites())}); found {quoted(text)}"
        )
    layer, head, side, extraction, site = form.groups(default="")
    place = int(layer), head if head == MEAN_HEAD else int(head), side
    readout = AlignmentReadout(*place, extraction or "target", site or "cross", "the command line")
    record = next(run.recorder(["cross", readout.site]).record_references(["a"], ["a"]))
    layers, heads = record.attention[readout.site].shape[:2]
    if not layers:
        raise InputError(f"{run.directory.root}: its model has no cross-attention, and so no links to read")
    if readout.layer >= layers or (readout.head != MEAN_HEAD and int(readout.head) >= heads):
        raise InputError(f"{run.directory.root} has {layers} layers of {heads} heads, from 0; found {quoted(text)}")
    return readout


def most_agreeing(
    forward: Iterable[Record], backward: Iterable[Record]
) -> tuple[AlignmentReadout, AlignmentReadout, float]:
    """Compares every layer, head and side of one model with every layer, head and side of the other.

    Args:
        forward: records of pairs.
        backward: records of the same pairs with source and target exchanged, in the same order.

    Returns:
        The two readouts that agree most, and 2 |A and B| / (|A| + |B|) of their links A and B over all sentences, 0 to
        1.

    Raises:
        ValueError: there are no pairs, the numbers of records differ, or a model has no cross-attention.
    """
    shared: np.ndarray | int = 0  # links of both, (forward readouts, backward readouts)
    total: np.ndarray | int = 0  # links of forward plus links of backward
    readouts: list[list[AlignmentReadout]] = [[], []]
    for record, opposite in zip(forward, backward, strict=True):
        readouts = [_all_readouts(one) for one in (record, opposite)]
        links, opposite_links = _flat_links(record), _flat_links(opposite, turned=True)
        if links.shape[1] != opposite_links.shape[1]:
            raise ValueError(f"sentence {record.id}: expected the same words in both directions, found others")
        shared = shared + links @ opposite_links.T
        total = total + links.sum(axis=1)[:, None] + opposite_links.sum(axis=1)[None]
    if [] in readouts:
        raise ValueError("there is no cross-attention to compare")
    agreement = 2 * shared / np.maximum(total, 1)
    i, j = np.unravel_index(np.argmax(agreement), agreement.shape)
    return readouts[0][i], readouts[1][j], float(agreement[i, j])


def _flat_links(record: Record, turned: bool = False) -> np.ndarray:
    """Returns 0 or 1 for each readout and word pair, `(readouts, source words * target words)`; `turned` if the
    record's source is the target."""
    weights = heads_and_mean(record)
    links = np.stack([read_links(record, weights, side, "target") for side in LABEL_SIDES])
    if not turned:
        links = np.swapaxes(links, -1, -2)
    # No `reshape(-1, ...)`: a sentence may have no words.
    return links.reshape(math.prod(links.shape[:3]), -1).astype(np.float64)


def _all_readouts(record: Record) -> list[AlignmentReadout]:
    """Returns the readouts of `_flat_links`, by side, then layer, then head; the mean over heads comes last."""
    layers, heads = record.attention["cross"].shape[:2]
    places = product(LABEL_SIDES, range(layers), [*range(heads), MEAN_HEAD])
    return [AlignmentReadout(layer, head, side) for side, layer, head in places]


def alignment_sites(config: RunConfig) -> tuple[str, ...]:
    """Returns the sites from which alignments are read; `gradients`, which takes long, only if the config lists it."""
    return tuple(site for site in aligned_sites() if SITES[site].forced or site in config.inspection.attention)
