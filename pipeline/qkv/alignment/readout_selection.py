"""The selection of a run's readout.

There are five ways: the user names it on the command line; it has the lowest error rate on gold alignments; it is the
head that training guided by word links; it agrees most with a run of the opposite direction; or it is the mean of the
last layer's heads.

A choice on gold alignments is saved in the run as `alignment.json`. A run that is moved away from its text thus reads
the same links, with the same probabilities.

Heads that align words agree in both directions. Other heads have no reason to agree (Liang et al. 2006 trained aligners
to agree; Zenkel et al. 2020 judge attention by its agreement).
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

import keras
import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ..config.choices.inspection import EXTRACTIONS, LABEL_SIDES
from ..errors import InputError, quoted
from ..files.json import read_json_object, write_json
from ..inspection.record import Record
from ..model.transformer import Transformer
from ..run.trained_run import TrainedRun
from ..text.corpora.word_links import GoldAlignment
from .gold import GoldSet, alignment_sites, choice_settings, missing_choice_file, read_choice_set
from .head_scores import HeadCounts, best_row
from .link_probabilities import MOST_PAIRS, calibrate, number_of_features
from .readout import MEAN_HEAD, AlignmentReadout, aligned_sites, extract_word_links
from .word_matrix import heads_and_mean

log = logging.getLogger(__name__)


def find_readout(run: TrainedRun, at: str | None) -> AlignmentReadout | None:
    """Returns the readout that the user names, or that the run's config decides.

    Args:
        run: the run.
        at: the readout as `LAYER,HEAD,SIDE[,LINKS[,SITE]]`; None for the choice on gold alignments, see
            `choose_readout`; without them, for the guided head, see `guided_readout`.

    Returns:
        The readout. If `at` is None: None if there are neither gold alignments nor a saved choice nor a guided head, or
        if the model has no cross-attention.

    Raises:
        InputError: `at` does not have this form; the run has no such layer or head; the choice set cannot be read;
            or see `choose_readout`.
    """
    if at is not None:
        return _parse_readout(at, run)
    return choose_readout(run, read_choice_set(run.config, run.reader.segmenter)) or guided_readout(run)


def guided_readout(run: TrainedRun) -> AlignmentReadout | None:
    """Returns the readout of the head that `training.guided_attention` taught word links; None if there is none."""
    guided = run.config.training.guided_attention
    if guided is None:
        return None
    return AlignmentReadout(guided.layer, guided.head, guided.side, "grow-diag", chosen_on="training.guided_attention")


def choose_readout(
    run: TrainedRun, gold_set: GoldSet | None, recorded: Sequence[str] = (), saves: bool = True
) -> AlignmentReadout | None:
    """Returns the saved readout of a run, or chooses a readout on gold alignments and saves it.

    The saved readout counts only if it was chosen for the same weights and settings, and on the same pairs and links.

    Args:
        run: the run.
        gold_set: the choice set of the run, see `alignment.gold`. None if there is none or if its files are missing;
            the pairs and links of the saved readout are then not compared.
        recorded: see `choose_on_gold`.
        saves: if True, a new choice is written into the run.

    Returns:
        The readout. None if there is no saved readout and no gold set, or if the model has no cross-attention.

    Raises:
        InputError: `alignment.json` is damaged, or does not fit the model.
    """
    choice = read_choice(run)
    if choice is not None and (gold_set is None or choice.gold == gold_digest(gold_set)):
        _check_saved(run, choice.readout)
        return choice.readout
    if gold_set is None:
        if missing := missing_choice_file(run.config):
            log.warning("%s: there is no such file, so no layer and head can be chosen on it", missing)
        return None
    readout = choose_on_gold(run, gold_set, recorded)
    if readout is not None and saves:
        save_choice(run, readout, gold_set)
    return readout


def last_layer_readout(run: TrainedRun) -> AlignmentReadout:
    """Returns the readout of the mean of the last layer's heads.

    Raises:
        InputError: the model has no cross-attention.
    """
    layers, _ = _count_layers_and_heads(run.model, "cross")
    if not layers:
        raise _no_cross_attention(run)
    return AlignmentReadout(layers - 1, MEAN_HEAD, "output", chosen_on="nothing: it is the last layer")


def saved_readout(run: TrainedRun) -> AlignmentReadout | None:
    """Returns the saved readout of a run if a file of its choice set is missing.

    Returns None if no file is missing, since the readout can then be chosen on the set; or if no readout is saved.

    Raises:
        InputError: see `choose_readout`.
    """
    return choose_readout(run, None) if missing_choice_file(run.config) else None


def choose_on_gold(run: TrainedRun, gold_set: GoldSet, recorded: Sequence[str] = ()) -> AlignmentReadout | None:
    """Chooses the readout with the lowest alignment error rate on a set.

    The model reads the set once; the cross-attention of the first pairs is kept in memory for the calibration.

    Args:
        run: the run.
        gold_set: the set.
        recorded: the sites of a recorder that the caller already has, so that its traced graph is used again. They must
            include `alignment_sites`. If it is empty, only these sites are recorded.

    Returns:
        The readout, with a calibration if the set is large enough, see `alignment.link_probabilities.calibrate`. None
        if the model has no cross-attention.
    """
    sites = alignment_sites(run.config)
    recorder = run.recorder(recorded or sites, gold_set.units)
    heads = HeadCounts(gold_set.gold, gold_set.word_counts)
    calibration_records: list[Record] = []
    calibration_gold: list[GoldAlignment] = []
    records = recorder.record_references(gold_set.corpus.source, gold_set.corpus.target, sites)
    for record, gold in zip(records, gold_set.gold, strict=True):
        heads.add(record)
        if len(calibration_records) < MOST_PAIRS and (gold.sure or not record.has_empty_side):
            calibration_records.append(replace(record, attention={"cross": record.attention["cross"]}))
            calibration_gold.append(gold)
    table = heads.table()
    if table.empty:
        return None
    best = best_row(table)
    readout = AlignmentReadout.from_row(best, gold_set.name)
    pairs = ([record] for record in calibration_records)
    calibration = calibrate(pairs, calibration_gold, [readout.layer], gold_set.name)
    if calibration is None:
        return readout
    return readout.calibrated(replace(calibration, weights=(run.weights_sha256(),)), float(best["aer"]))


CHOICE_FORMAT = 1
"""The version of the format of `alignment.json`."""

_READOUTS = TypeAdapter(list[AlignmentReadout], config=ConfigDict(strict=True, allow_inf_nan=False, extra="forbid"))


class SavedChoice(NamedTuple):
    """The content of `alignment.json`.

    - readout: the readout.
    - gold: the digest of the set on which it was chosen, see `gold_digest`.
    """

    readout: AlignmentReadout
    gold: str


def read_choice(run: TrainedRun) -> SavedChoice | None:
    """Reads the saved choice of a run.

    Returns:
        The choice; None if there is none, or if it was made for other weights or settings.

    Raises:
        InputError: the file is damaged, or has values that no readout can have.
    """
    path = run.directory.alignment
    if not path.exists():
        return None
    try:
        content = read_json_object(path)
        if content["format"] != CHOICE_FORMAT:
            raise ValueError(f"expected format {CHOICE_FORMAT}, found {content['format']!r:.40}")
        (readout,) = _READOUTS.validate_json(json.dumps([content["readout"]]))
        _check_readout(readout)
        chosen_by: Mapping[str, Any] = content["chosen_by"]
        weights, settings, gold = (chosen_by[name] for name in ("weights", "settings", "gold"))
    except ValidationError as error:
        key = ".".join(map(str, ("readout", *error.errors()[0]["loc"][1:])))
        raise _damaged(path, f"{key}: {error.errors()[0]['msg']}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None
    is_same = weights == run.weights_sha256() and settings == _settings(run)
    return SavedChoice(readout, str(gold)) if is_same else None


def save_choice(run: TrainedRun, readout: AlignmentReadout, gold_set: GoldSet) -> None:
    """Writes a choice into the run as `alignment.json`.

    Nothing is written if the weights are neither the final nor the best ones of the training, if they were changed in
    memory, or if the run is read-only, as the one in the package.

    Args:
        run: the run.
        readout: the readout.
        gold_set: the set on which it was chosen.
    """
    if (
        run.directory.is_packaged
        or run.is_changed
        or run.weights not in (run.directory.model, run.directory.checkpoints / "best.npz")
    ):
        return
    chosen_by = {"weights": run.weights_sha256(), "settings": _settings(run), "gold": gold_digest(gold_set)}
    content = {"format": CHOICE_FORMAT, "readout": asdict(readout), "chosen_by": chosen_by}
    with suppress(OSError):  # the run may be read-only
        write_json(run.directory.alignment, content)


def gold_digest(gold_set: GoldSet) -> str:
    """Returns the SHA-256, in hexadecimal digits, of the sentences, links and word units of a set."""
    links = [[sorted(alignment.sure), sorted(alignment.possible)] for alignment in gold_set.gold]
    content = [list(gold_set.corpus.source), list(gold_set.corpus.target), links, gold_set.units]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _settings(run: TrainedRun) -> dict[str, Any]:
    """Returns the settings on which a choice depends, with values that JSON can hold.

    Paths of files in the run's folder are relative to it, so the settings stay equal if the run is moved.
    """
    choice = choice_settings(run.config)
    data = run.config.data
    root = run.directory.root
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
    """Raises a `ValueError` if a value of a saved readout is invalid, or if its calibration is of another layer."""
    allowed_values = {
        "side": (readout.side, LABEL_SIDES),
        "extraction": (readout.extraction, EXTRACTIONS),
        "site": (readout.site, aligned_sites()),
    }
    for name, (value, allowed) in allowed_values.items():
        if value not in allowed:
            raise ValueError(f"{name}: expected one of {', '.join(allowed)}, found {value!r:.40}")
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


def _damaged(path: Path, problem: str) -> InputError:
    """Returns the error about a damaged `alignment.json`."""
    return InputError(
        f"{path}: expected the layer and head that gold alignments have chosen, as evaluate.py and qkv align write "
        f"them, found {problem}; delete the file: it is written again if the gold alignments can be read"
    )


def _parse_readout(text: str, run: TrainedRun) -> AlignmentReadout:
    """Returns the readout that `LAYER,HEAD,SIDE[,LINKS[,SITE]]` names.

    Raises:
        InputError: the text does not have that form, or the run has no such layer or head.
    """
    match = re.fullmatch(
        rf"([0-9]{{1,9}}),([0-9]{{1,9}}|{MEAN_HEAD}),({'|'.join(LABEL_SIDES)})"
        rf"(?:,({'|'.join(map(re.escape, EXTRACTIONS))})(?:,({'|'.join(aligned_sites())}))?)?",
        text if isinstance(text, str) else "",
    )
    if match is None:
        raise InputError(
            "expected LAYER,HEAD,SIDE such as 1,mean,output or 2,0,input, perhaps with ,LINKS "
            f"({', '.join(EXTRACTIONS)}) and ,SITE ({', '.join(aligned_sites())}); found {quoted(text)}"
        )
    layer, head, side, extraction, site = match.groups(default="")
    readout = AlignmentReadout(
        int(layer),
        head if head == MEAN_HEAD else int(head),
        side,
        extraction or "target",
        site or "cross",
        chosen_on="the command line",
    )
    _check_layer_and_head(run, readout, text)
    return readout


def _check_saved(run: TrainedRun, readout: AlignmentReadout) -> None:
    """Raises an `InputError` if the saved readout of a run does not fit its model."""
    path = run.directory.alignment
    sites = alignment_sites(run.config)
    if readout.site not in sites:
        raise InputError(f"{path}: expected one of the sites {', '.join(sites)}, found {readout.site}; delete the file")
    _check_layer_and_head(run, readout, path.name)
    _, heads = _count_layers_and_heads(run.model, "cross")
    calibration = readout.calibration
    if calibration and len(calibration.coefficients) != number_of_features(heads) + 1:  # the constant
        raise InputError(f"{path}: expected coefficients of the run's heads, found others; delete the file")


def _check_layer_and_head(run: TrainedRun, readout: AlignmentReadout, origin: str) -> None:
    """Raises an `InputError` if the model has no cross-attention, or not the layer or head of a readout.

    Args:
        run: the run.
        readout: the readout.
        origin: the text or the file that names the readout, for the message.
    """
    layers, heads = _count_layers_and_heads(run.model, readout.site)
    if not layers:
        raise _no_cross_attention(run)
    if readout.layer >= layers or (readout.head != MEAN_HEAD and int(readout.head) >= heads):
        raise InputError(f"{run.directory.root} has {layers} layers of {heads} heads, from 0; found {quoted(origin)}")


def _no_cross_attention(run: TrainedRun) -> InputError:
    """Returns the error about a model without cross-attention."""
    return InputError(f"{run.directory.root}: its model has no cross-attention, and so no links to read")


def _count_layers_and_heads(model: keras.Model, site: str) -> tuple[int, int]:
    """Returns the number of layers with attention of a site, and the number of heads in each; (0, 0) if there is none.

    Args:
        model: a `TranslationModel`.
        site: one of `aligned_sites()`.
    """
    if site == "gradients":  # which pass through the whole model
        return 1, 1
    layers = model.attention_layers().get("cross", [])
    if not layers or (site == "norms" and not isinstance(model, Transformer)):  # see `TranslationModel.value_norms`
        return 0, 0
    return len(layers), layers[0].num_heads


def most_agreeing_readouts(
    forward: Iterable[Record], backward: Iterable[Record]
) -> tuple[AlignmentReadout, AlignmentReadout, float]:
    """Finds the readouts of two models of opposite directions whose links agree most.

    Every layer, head, mean of heads and label side of one model is compared with all of the other model. The extraction
    method is `target`.

    Args:
        forward: the records of the first model.
        backward: the records of the second model, of the same pairs with source and target exchanged, in the same
            order.

    Returns:
        The readout of each model, and their agreement 2 |A and B| / (|A| + |B|) for their links A and B over all
        sentences, from 0 to 1.

    Raises:
        ValueError: there are no pairs; the numbers of records differ; the words of a pair differ in the two records; or
            a model has no cross-attention.
    """
    shared: np.ndarray | int = 0  # |A and B|, (forward readouts, backward readouts)
    total: np.ndarray | int = 0  # |A| + |B|, of the same shape
    readouts: list[list[AlignmentReadout]] = [[], []]
    for record, opposite in zip(forward, backward, strict=True):
        readouts = [_all_readouts(record), _all_readouts(opposite)]
        links = _flat_links(record)
        opposite_links = _flat_links(opposite, turned=True)
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
    """Returns the links of all readouts of a record, in the order of `_all_readouts`.

    Args:
        record: the record.
        turned: True if the record's source is the target of the pair.

    Returns:
        float `(readouts, source words * target words)`: 1 for a link, else 0.
    """
    weights = heads_and_mean(record)
    links = np.stack([extract_word_links(record, weights, side, "target") for side in LABEL_SIDES])
    if not turned:
        links = np.swapaxes(links, -1, -2)
    # No `reshape(-1, ...)`: a sentence may have no words.
    return links.reshape(math.prod(links.shape[:3]), -1).astype(np.float64)


def _all_readouts(record: Record) -> list[AlignmentReadout]:
    """Returns all readouts of a record's cross-attention: by side, then by layer, then by head, with the mean last."""
    layers, heads = record.attention["cross"].shape[:2]
    combinations = product(LABEL_SIDES, range(layers), [*range(heads), MEAN_HEAD])
    return [AlignmentReadout(layer, head, side) for side, layer, head in combinations]
