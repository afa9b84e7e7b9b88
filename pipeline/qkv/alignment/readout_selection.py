"""The readout of a run: as the command line names it, as gold alignments choose it, as two runs of opposite directions
agree on it, or its last layer.

What gold alignments have chosen is kept in the run as `alignment.json`. So a run that is moved away from its text reads
the same links, with the same probabilities.

Heads that align words agree in both directions; heads that do something else have no reason to (Liang et al. 2006
trained aligners to agree; Zenkel et al. 2020 judge attention by its agreement).
"""

import hashlib
import json
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ..config.choices.inspection import EXTRACTIONS, LABEL_SIDES
from ..errors import InputError, quoted
from ..files.json import read_json_object, write_json
from ..files.paths import sha256
from ..inspection.record import Record
from ..run.trained_run import TrainedRun
from ..text.corpora.word_links import GoldAlignment
from .gold import GoldSet, alignment_sites, choice_settings, missing_choice_file, read_choice_set
from .head_scores import HeadCounts, best_row
from .link_probabilities import MOST_PAIRS, calibrate, link_features
from .readout import MEAN_HEAD, AlignmentReadout, aligned_sites, extract_word_links
from .word_matrix import heads_and_mean

log = logging.getLogger(__name__)


def find_readout(run: TrainedRun, at: str | None) -> AlignmentReadout | None:
    """Returns the readout that `LAYER,HEAD,SIDE[,LINKS[,SITE]]` names; without it the one that the gold alignments of
    the run's config choose, or have chosen. None if they are missing and the run keeps no choice.

    Raises:
        InputError: the run has no such layer or head.
    """
    if at is not None:
        return _parse_readout(at, run)
    return choose_readout(run, read_choice_set(run.config, run.reader.segmenter))


def choose_readout(
    run: TrainedRun, gold_set: GoldSet | None, recorded: Sequence[str] = (), keeps: bool = True
) -> AlignmentReadout | None:
    """Returns the readout that the run keeps, if it was chosen by the same weights, settings and set. Otherwise chooses
    one on the set and keeps it in the run.

    Args:
        run: the run.
        gold_set: the set on which readouts are chosen; None if it is not there, and then any set of the same settings
            will do.
        recorded: see `choose_on_gold`.
        keeps: whether the choice is written into the run.

    Returns:
        The readout; None without a set and a kept choice, or for a model without cross-attention.

    Raises:
        InputError: what the run keeps is damaged, or is of another model.
    """
    choice = read_choice(run)
    if choice is not None and (gold_set is None or choice.gold == gold_digest(gold_set)):
        _check_kept(run, choice.readout, recorded)
        return choice.readout
    if gold_set is None:
        if missing := missing_choice_file(run.config):
            log.warning("%s: there is no such file, so that no layer and head can be chosen by it", missing)
        return None
    readout = choose_on_gold(run, gold_set, recorded)
    if readout is not None and keeps:
        keep_choice(run, readout, gold_set)
    return readout


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


def kept_readout(run: TrainedRun) -> AlignmentReadout | None:
    """Returns the readout that a run keeps, if the set that has chosen it is not there; None otherwise.

    Raises:
        InputError: as for `choose_readout`.
    """
    return choose_readout(run, None) if missing_choice_file(run.config) else None


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


FORMAT = 1  # of `alignment.json`
_READOUTS = TypeAdapter(list[AlignmentReadout], config=ConfigDict(strict=True, allow_inf_nan=False, extra="forbid"))


class KeptChoice(NamedTuple):
    """A readout, and the digest of the set that has chosen it, see `gold_digest`."""

    readout: AlignmentReadout
    gold: str


def read_choice(run: TrainedRun) -> KeptChoice | None:
    """Reads the choice that a run keeps; None if it keeps none for its weights and settings.

    Raises:
        InputError: the file is damaged, or names a place that no model has.
    """
    path = run.directory.alignment
    if not path.exists():
        return None
    try:
        content = read_json_object(path)
        if content["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, found {content['format']!r:.40}")
        (readout,) = _READOUTS.validate_json(json.dumps([content["readout"]]))
        _check_readout(readout)
        chosen_by: Mapping[str, Any] = content["chosen_by"]
        weights, settings, gold = (chosen_by[name] for name in ("weights", "settings", "gold"))
    except ValidationError as error:
        place = ".".join(map(str, ("readout", *error.errors()[0]["loc"][1:])))
        raise _damaged(path, f"{place}: {error.errors()[0]['msg']}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None
    is_same = weights == sha256(run.weights) and settings == _settings(run)
    return KeptChoice(readout, str(gold)) if is_same else None


def keep_choice(run: TrainedRun, readout: AlignmentReadout, gold_set: GoldSet) -> None:
    """Writes the choice into the run, unless the run cannot be written, or its weights are those of a training that
    goes on."""
    if run.weights not in (run.directory.model, run.directory.checkpoints / "best.npz"):
        return
    chosen_by = {"weights": sha256(run.weights), "settings": _settings(run), "gold": gold_digest(gold_set)}
    with suppress(OSError):  # a run may be read-only
        write_json(run.directory.alignment, {"format": FORMAT, "readout": asdict(readout), "chosen_by": chosen_by})


def gold_digest(gold_set: GoldSet) -> str:
    """Returns the SHA-256 of the pairs and links of a set."""
    links = [[sorted(one.sure), sorted(one.possible)] for one in gold_set.gold]
    content = [list(gold_set.corpus.source), list(gold_set.corpus.target), links, gold_set.units]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _settings(run: TrainedRun) -> dict[str, Any]:
    """Returns the settings on which a choice depends, as JSON has them; files in the run by their names within it."""
    choice, data, root = choice_settings(run.config), run.config.data, run.directory.root
    settings = {
        "choose_on": {} if choice is None else choice.model_dump(),
        "sites": alignment_sites(run.config),
        "words": data.words.model_dump(),
        "tokenized": data.tokenized,
    }

    def name_file(value: Any) -> str:
        return str((value.relative_to(root) if value.is_relative_to(root) else value).as_posix())

    return json.loads(json.dumps(settings, default=name_file))


def _check_readout(readout: AlignmentReadout) -> None:
    """Raises a `ValueError` if no model has such a place, or the calibration is of another one."""
    names = {
        "side": (readout.side, LABEL_SIDES),
        "extraction": (readout.extraction, EXTRACTIONS),
        "site": (readout.site, aligned_sites()),
    }
    for name, (value, known) in names.items():
        if value not in known:
            raise ValueError(f"{name}: expected one of {', '.join(known)}, found {value!r:.40}")
    if readout.layer < 0 or not (readout.head == MEAN_HEAD or (isinstance(readout.head, int) and readout.head >= 0)):
        raise ValueError(f"expected a layer and a head from 0, found {readout.layer} and {readout.head!r:.40}")
    calibration = readout.calibration
    if readout.likely and calibration is None:
        raise ValueError("expected a calibration of likely links, found none")
    if calibration and calibration.layers != (readout.layer,):
        raise ValueError(f"expected a calibration of layer {readout.layer}, found {calibration.layers}")
    if calibration and not (0 <= calibration.threshold <= 1 and 0 <= calibration.aer <= 1):
        raise ValueError(
            f"expected a threshold and an aer from 0 to 1, found {calibration.threshold}, {calibration.aer}"
        )


def _damaged(path: Path, found: str) -> InputError:
    return InputError(
        f"{path}: expected the layer and head that gold alignments have chosen, as evaluate.py and qkv align write "
        f"them, found {found}; delete the file: it is written again where the gold alignments are"
    )


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
    _check_place(run, readout, text)
    return readout


def _check_kept(run: TrainedRun, readout: AlignmentReadout, recorded: Sequence[str]) -> None:
    """Raises an `InputError` if a readout that the run keeps is of another model."""
    path = run.directory.alignment
    record = _check_place(run, readout, path.name, recorded)
    calibration = readout.calibration
    if calibration and len(calibration.coefficients) != 1 + link_features(record, readout.layer)[0].shape[-1]:
        raise InputError(f"{path}: expected coefficients of the run's heads, found others; delete the file")


def _check_place(run: TrainedRun, readout: AlignmentReadout, origin: str, recorded: Sequence[str] = ()) -> Record:
    """Returns the record of a short pair; raises an `InputError` if the run has no such layer or head."""
    record = next(run.recorder(recorded or ["cross", readout.site]).record_references(["a"], ["a"]))
    if readout.site not in record.attention:
        raise InputError(
            f"{run.directory.root}: its model has no attention of the site {readout.site}, as in {origin!r}"
        )
    layers, heads = record.attention[readout.site].shape[:2]
    if not layers:
        raise InputError(f"{run.directory.root}: its model has no cross-attention, and so no links to read")
    if readout.layer >= layers or (readout.head != MEAN_HEAD and int(readout.head) >= heads):
        raise InputError(f"{run.directory.root} has {layers} layers of {heads} heads, from 0; found {quoted(origin)}")
    return record


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
    links = np.stack([extract_word_links(record, weights, side, "target") for side in LABEL_SIDES])
    if not turned:
        links = np.swapaxes(links, -1, -2)
    # No `reshape(-1, ...)`: a sentence may have no words.
    return links.reshape(math.prod(links.shape[:3]), -1).astype(np.float64)


def _all_readouts(record: Record) -> list[AlignmentReadout]:
    """Returns the readouts of `_flat_links`, by side, then layer, then head; the mean over heads comes last."""
    layers, heads = record.attention["cross"].shape[:2]
    places = product(LABEL_SIDES, range(layers), [*range(heads), MEAN_HEAD])
    return [AlignmentReadout(layer, head, side) for side, layer, head in places]
