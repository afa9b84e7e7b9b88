"""The readout of a run: as the command line names it, as gold alignments choose it, or its last layer."""

from ..config.names.inspection import EXTRACTIONS, LABEL_SIDES
from ..errors import InputError
from ..files.paths import sha256
from ..inspection.recorder import AttentionRecorder
from ..run.trained_run import TrainedRun
from .calibration import calibrate, with_weights
from .gold import GoldSet, alignment_sites, choose_readout, head_table, read_choice_set
from .heads import best_row
from .probable_readout import ProbableReadout
from .readout import MEAN_HEAD, ChosenReadout, aligned_sites


def find_readout(run: TrainedRun, at: str | None) -> ChosenReadout | None:
    """Returns the readout that `LAYER,HEAD,SIDE[,LINKS[,SITE]]` names; without it the one that the gold alignments of
    the run's config choose, None if they are missing.

    Raises:
        InputError: the run has no such layer or head.
    """
    return _choose_on_gold(run) if at is None else _parse_readout(at, run)


def last_layer(run: TrainedRun) -> ChosenReadout:
    """Returns the readout of the mean of the last layer's heads."""
    record = next(run.recorder(["cross"]).record_references(["a"], ["a"]))
    layer = len(record.attention["cross"]) - 1
    return ChosenReadout(layer, MEAN_HEAD, "output", chosen_on="nothing: it is the last layer")


def _choose_on_gold(run: TrainedRun) -> ChosenReadout | None:
    gold_set = read_choice_set(run.config, run.cutter)
    if gold_set is None:
        return None
    recorder = run.recorder(alignment_sites(run.config), gold_set.units)
    records = recorder.record_references(gold_set.corpus.source, gold_set.corpus.target)
    table = head_table(records, gold_set)
    readout = choose_readout(table, gold_set.name)
    return with_probabilities(readout, run, recorder, gold_set, float(best_row(table)["aer"]))


def with_probabilities(
    readout: ChosenReadout, run: TrainedRun, recorder: AttentionRecorder, gold_set: GoldSet, aer: float | None
) -> ChosenReadout:
    """Returns a readout with the probabilities of its links, calibrated on a set; as it is if the set is too small.

    Args:
        readout: the readout.
        run: the run, whose weights the calibration names.
        recorder: records the run's attention over the words of the set.
        gold_set: the set.
        aer: see `ProbableReadout.of`.
    """
    records = recorder.record_references(gold_set.corpus.source, gold_set.corpus.target, sites=["cross"])
    calibration = calibrate(([record] for record in records), gold_set.gold, [readout.layer], gold_set.name)
    if calibration is None:
        return readout
    return ProbableReadout.of(readout, with_weights(calibration, [sha256(run.weights)]), aer)


def _parse_readout(text: str, run: TrainedRun) -> ChosenReadout:
    """Parses `LAYER,HEAD,SIDE[,LINKS[,SITE]]`.

    Raises:
        InputError: it is not of that form, or the run has no such layer or head.
    """
    readout = _split_readout(text)
    if readout is None:
        raise InputError(
            "expected LAYER,HEAD,SIDE such as 1,mean,output or 2,0,input, perhaps with ,LINKS "
            f"({', '.join(EXTRACTIONS)}) and ,SITE ({', '.join(aligned_sites())}); found {text!r}"
        )
    record = next(run.recorder(["cross", readout.site]).record_references(["a"], ["a"]))
    layers, heads = record.attention[readout.site].shape[:2]
    if not 0 <= readout.layer < layers or not (readout.head == MEAN_HEAD or 0 <= int(readout.head) < heads):
        raise InputError(
            f"{run.directory.root} has {layers} layers of {heads} heads, both counted from 0; found {text!r}"
        )
    return readout


def _split_readout(text: str) -> ChosenReadout | None:
    fields = text.split(",")
    try:
        layer, head, side, extraction, site = [*fields, *("target", "cross")[max(0, len(fields) - 3) :]]
        heads = head if head == MEAN_HEAD else int(head)
        readout = ChosenReadout(int(layer), heads, side, extraction, site, chosen_on="the command line")
    except ValueError:
        return None
    return readout if side in LABEL_SIDES and extraction in EXTRACTIONS and site in aligned_sites() else None
