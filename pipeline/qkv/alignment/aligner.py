"""Aligns the words of any parallel text by the attention of one trained run, or of several runs of either direction.

Probabilities of links come from a calibration of one run, or of two of opposite directions.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..files.paths import check_text, sha256
from ..run.trained_run import TrainedRun, load_run
from ..text.tokens.words import WordUnits
from .aligned_text import AlignedText
from .gold import missing_choice_file, read_choice_set
from .link_probabilities import LEAST_PAIRS, Calibration, calibrate
from .linking import Direction
from .readout import AlignmentReadout, describe_readout
from .readout_selection import find_readout, last_layer, most_agreeing

AGREEMENT_PAIRS = 500  # enough to tell heads apart
log = logging.getLogger(__name__)


def choose_readouts(directions: Sequence[Direction], subwords: bool = False) -> list[Direction]:
    """Returns directions, of which the first is not turned, with what counts as a word and the place where links are
    read. Subwords are linked instead of words for one run only, since each has its own."""
    # Probabilities are of words.
    directions = [one.plain() for one in directions] if subwords else _with_units(directions)
    readouts = _choose_readouts(directions)
    for direction, readout in zip(directions, readouts, strict=True):
        where = describe_readout(readout.layer, readout.head, readout.side, readout.linked)
        log.info("%s: %s, %s, chosen by %s", direction.run.directory.root, readout.site, where, readout.chosen_on)
    return [replace(one, readout=readout) for one, readout in zip(directions, readouts, strict=True)]


def _with_units(directions: Sequence[Direction]) -> list[Direction]:
    """Returns the directions with what counts as a word: the same for all, so characters where one run of several would
    take its own subwords."""
    first, *others = directions
    cutter = replace(first.run.reader.segmenter, otherwise="characters" if others else "subwords")
    text = first.text
    units = cutter.units(text.source, text.target)
    if others:
        units = WordUnits(*("characters" if unit == "subwords" else unit for unit in units))
    cutter.log_found(WordUnits(*(u if words is None else "spaces" for u, words in zip(units, text.words, strict=True))))
    return [one.on(text, units) for one in directions]


def _choose_readouts(directions: Sequence[Direction]) -> list[AlignmentReadout]:
    """Returns the readout of each direction; unknown ones are chosen by agreement with a run of the other direction, or
    else are the last layer: heads of one run agree as well where they look at a wrong word together."""
    readouts = [direction.readout for direction in directions]
    forward, backward = ([i for i, one in enumerate(directions) if one.reverse is turned] for turned in (False, True))
    if forward and backward:
        for turn in range(max(len(forward), len(backward))):
            pair = [numbers[turn % len(numbers)] for numbers in (forward, backward)]
            if None in [readouts[number] for number in pair]:
                agreed = _choose_by_agreement(*(directions[number] for number in pair))
                for number, readout in zip(pair, agreed, strict=True):
                    readouts[number] = readouts[number] or readout
    return [readout or _take_last_layer(one.run) for readout, one in zip(readouts, directions, strict=True)]


def _take_last_layer(run: TrainedRun) -> AlignmentReadout:
    log.warning(
        "%s: no gold alignments to choose layer and head by: the mean of the last layer's heads is read, of unknown "
        "error rate; a run of the opposite direction, or gold alignments (inspection.choose_head_on), choose better",
        run.directory.root,
    )
    return last_layer(run)


def _choose_by_agreement(forward: Direction, backward: Direction) -> list[AlignmentReadout]:
    *agreed, share = most_agreeing(forward.records(AGREEMENT_PAIRS), backward.records(AGREEMENT_PAIRS))
    pairs = min(AGREEMENT_PAIRS, len(forward.text))
    reason = f"the two directions' agreement, {100 * share:.1f} % on {pairs} pairs"
    return [replace(readout, chosen_on=reason) for readout in agreed]


def load_directions(
    text: AlignedText,
    root: Path,
    reverse: Path | None,
    more: Sequence[Path],
    places: tuple[str | None, str | None],
    normalizes: bool = False,
) -> list[Direction]:
    """Loads runs, each with the text in the direction in which it translates.

    Args:
        text: the text.
        root: the folder of the run from source to target.
        reverse: the folder of the run from target to source, if there is one.
        more: the folders of further runs, whose languages say which direction is theirs.
        places: where links are read in the runs of either direction, as `LAYER,HEAD,SIDE[,LINKS[,SITE]]`; None to
            choose it on the gold alignments that a run's config names, if it names any.
        normalizes: whether the text is a person's, not a set of the run.

    Raises:
        InputError: there is no run, it has no such layer or head, or a further run is of other languages.
    """
    first = load_run(root)
    runs = [(first, False)]
    if reverse is not None:
        runs.append((load_run(reverse), True))
    runs += [(run, _is_reverse(run, first)) for run in map(load_run, more)]
    if places[1] and not any(turned for _, turned in runs):
        raise InputError("--reverse_at needs a run from target to source: give REVERSE_RUN, or leave it out")
    return [
        Direction(run, text, find_readout(run, places[turned]), reverse=turned, normalizes=normalizes).on(text)
        for run, turned in runs
    ]


def _is_reverse(run: TrainedRun, first: TrainedRun) -> bool:
    """Returns whether a run translates back what the first run translates."""
    known, found = ((data.source_language, data.target_language) for data in (first.config.data, run.config.data))
    if found not in (known, known[::-1]):
        one, other = (" to ".join(languages) for languages in (known, found))
        raise InputError(f"{run.directory.root}: expected a run from {one} or back, found one from {other}")
    return found != known


def link_calibration(directions: Sequence[Direction]) -> Calibration:
    """Returns the calibration of the links of one direction of `choose_readouts`, or of the combined links of two.

    It is the readout's, or it is made on the gold links that the config of the first run names.

    Raises:
        InputError: there are no gold links, or they are too few or count other words.
    """
    first = directions[0]
    calibration = first.readout.calibration if len(directions) == 1 and first.readout else None
    calibration = calibration or _calibrate(directions)
    found = "where no two words are likely to be linked"
    if not math.isnan(calibration.error):
        found = (
            f"expected calibration error {100 * calibration.error:.1f} %, error rate of the links above "
            f"{calibration.threshold:.2f} {100 * calibration.aer:.1f} % (both cross-fitted)"
        )
    log.info("link probabilities: calibrated on %d pairs of %s, %s", calibration.pairs, calibration.chosen_on, found)
    return calibration


def _calibrate(directions: Sequence[Direction]) -> Calibration:
    first = directions[0]
    gold_set = read_choice_set(first.run.config, first.run.reader.segmenter)
    if missing := missing_choice_file(first.run.config):
        check_text(missing)  # which raises
    if gold_set is None:
        raise InputError(
            f"{first.run.directory.root}: probabilities are calibrated on gold alignments, and its config names none; "
            "name some (inspection.choose_head_on) or leave out --probabilities"
        )
    units = gold_set.units
    if first.text.words == (None, None) and units != first.units:
        raise InputError(
            f"{gold_set.name}: its gold links count {' and '.join(units)} as words, and the text's links "
            f"{' and '.join(first.units)}, so the probabilities do not apply; leave out --probabilities"
        )
    text = AlignedText(gold_set.corpus.source, gold_set.corpus.target)
    streams = (one.on(text, units).records() for one in directions)
    layers = [direction.readout.layer for direction in directions if direction.readout is not None]
    calibration = calibrate(zip(*streams, strict=True), gold_set.gold, layers, gold_set.name)
    if calibration is None:
        raise InputError(
            f"{gold_set.name}: {len(gold_set.corpus)} pairs calibrate no probabilities; expected {LEAST_PAIRS} or "
            "more, with right links and wrong ones; leave out --probabilities"
        )
    return replace(calibration, weights=tuple(sha256(direction.run.weights) for direction in directions))
