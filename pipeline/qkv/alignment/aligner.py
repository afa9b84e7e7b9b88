"""Loads runs to align a parallel text: one run, or several runs of either direction.

The readouts of the runs are chosen here, and the probabilities of their links calibrated. Probabilities are available
for one run, or for two runs of opposite directions.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..files.paths import check_text
from ..run.trained_run import TrainedRun, load_run
from ..text.lines.line import is_empty
from ..text.tokens.words import WordUnits
from .aligned_text import AlignedText
from .gold import missing_choice_file, read_choice_set
from .link_probabilities import LEAST_PAIRS, Calibration, calibrate
from .linking import Direction
from .readout import AlignmentReadout, describe_readout
from .readout_selection import find_readout, last_layer_readout, most_agreeing_readouts

AGREEMENT_PAIRS = 500
"""The number of pairs on which the readouts of two directions are compared. It is enough to tell heads apart."""

log = logging.getLogger(__name__)


def choose_readouts(directions: Sequence[Direction], subwords: bool = False) -> list[Direction]:
    """Sets the word units and the readout of each direction.

    Args:
        directions: the runs with the text. The first one is from source to target.
        subwords: if True, subwords are linked instead of words. Only for one run, since each run has other subwords.

    Returns:
        Copies of the directions.

    Raises:
        InputError: a model has no cross-attention.
    """
    if subwords:  # probabilities are known only for links of words
        directions = [direction.without_probabilities() for direction in directions]
    else:
        directions = _with_units(directions)
    readouts = _choose_readouts(directions)
    for direction, readout in zip(directions, readouts, strict=True):
        description = describe_readout(readout.layer, readout.head, readout.side, readout.linked)
        log.info(
            "%s: %s, %s, chosen by %s", direction.run.directory.argument, readout.site, description, readout.chosen_on
        )
    return [replace(direction, readout=readout) for direction, readout in zip(directions, readouts, strict=True)]


def choose_readouts_of_stream(
    directions: Sequence[Direction], first: AlignedText, subwords: bool = False
) -> list[Direction]:
    """Sets the word units and the readout of each direction, for pairs that arrive one after the other.

    Args:
        directions: see `choose_readouts`; their text is empty.
        first: the pairs that have arrived. They decide whether words are separated by spaces. A side on which all
            sentences are empty is judged by an example of the run's training text.
        subwords: see `choose_readouts`.

    Returns:
        Copies of the directions.

    Raises:
        InputError: a model has no cross-attention; or the readout of a run could only be chosen by its agreement with
            another run on a whole text.
    """
    if len({direction.reverse for direction in directions}) == 2:
        for direction in directions:
            if direction.readout is None:
                option = "--reverse_at" if direction.reverse else "--at"
                raise InputError(
                    f"{direction.run.directory.root}: its config names no gold alignments, so layer and head would be "
                    f"chosen by the agreement of two directions on {AGREEMENT_PAIRS} pairs, which standard input does "
                    f"not have yet; give {option}, such as the choice that qkv align prints for a file"
                )
    styles = directions[0].run.reader.styles

    def example(lines: Sequence[str], side: str) -> Sequence[str]:
        style = styles[side]
        return [style.example] if style and all(map(is_empty, lines)) else lines

    sample = AlignedText(example(first.source, "source"), example(first.target, "target"), names=first.names)
    return choose_readouts([direction.with_text(sample) for direction in directions], subwords)


def _with_units(directions: Sequence[Direction]) -> list[Direction]:
    """Returns copies of the directions with the unit of words on each side.

    All runs must have the same words. For text without spaces, words are the subwords of a single run, but characters
    if there are several runs.
    """
    first = directions[0]
    is_alone = len(directions) == 1
    segmenter = replace(first.run.reader.segmenter, otherwise="subwords" if is_alone else "characters")
    text = first.text
    units = segmenter.units(text.source, text.target)
    if not is_alone:
        units = WordUnits(*("characters" if unit == "subwords" else unit for unit in units))
    found_units = [unit if words is None else "spaces" for unit, words in zip(units, text.words, strict=True)]
    segmenter.log_units(WordUnits(*found_units))
    return [direction.with_text(text, units) for direction in directions]


def _choose_readouts(directions: Sequence[Direction]) -> list[AlignmentReadout]:
    """Returns the readout of each direction.

    A missing readout is chosen by its agreement with a run of the opposite direction. If there is no such run, the
    readout is the mean of the last layer's heads. Heads of one run cannot be compared instead: they agree on wrong
    links, too.
    """
    readouts = [direction.readout for direction in directions]
    forward = [number for number, direction in enumerate(directions) if not direction.reverse]
    backward = [number for number, direction in enumerate(directions) if direction.reverse]
    if forward and backward:
        for turn in range(max(len(forward), len(backward))):
            first, second = forward[turn % len(forward)], backward[turn % len(backward)]
            if readouts[first] is None or readouts[second] is None:
                agreeing = _choose_by_agreement(directions[first], directions[second])
                readouts[first] = readouts[first] or agreeing[0]
                readouts[second] = readouts[second] or agreeing[1]
    return [readout or _take_last_layer(direction.run) for readout, direction in zip(readouts, directions, strict=True)]


def _take_last_layer(run: TrainedRun) -> AlignmentReadout:
    """Returns the readout of the mean of the last layer's heads, and warns that its error rate is unknown."""
    log.warning(
        "%s: no gold alignments to choose layer and head by: the mean of the last layer's heads is read, of unknown "
        "error rate; a run of the opposite direction, or gold alignments (inspection.choose_head_on), choose better",
        run.directory.root,
    )
    return last_layer_readout(run)


def _choose_by_agreement(forward: Direction, backward: Direction) -> tuple[AlignmentReadout, AlignmentReadout]:
    """Returns the readouts of two opposite directions whose links agree most on the first pairs of the text."""
    forward_readout, backward_readout, agreement = most_agreeing_readouts(
        forward.records(AGREEMENT_PAIRS), backward.records(AGREEMENT_PAIRS)
    )
    pairs = min(AGREEMENT_PAIRS, len(forward.text))
    reason = f"the two directions' agreement, {100 * agreement:.1f} % on {pairs} pairs"
    return replace(forward_readout, chosen_on=reason), replace(backward_readout, chosen_on=reason)


def load_directions(
    text: AlignedText,
    root: Path,
    reverse: Path | None,
    more: Sequence[Path],
    readouts: tuple[str | None, str | None],
    normalizes: bool = False,
) -> list[Direction]:
    """Loads runs, each with the text in the direction in which it translates.

    Args:
        text: the text, from source to target.
        root: the folder of the run from source to target.
        reverse: the folder of the run from target to source; None if there is none.
        more: the folders of further runs. Their languages decide their direction.
        readouts: the readout of the runs from source to target, and the readout of the runs from target to source.
            Each is a text `LAYER,HEAD,SIDE[,LINKS[,SITE]]`. If it is None, the readout of each run is chosen on the
            gold alignments of its config. Without gold alignments, the run's `Direction.readout` is None.
        normalizes: whether the runs' `data.normalize` is applied. True for text of the user, False for a set of a run.

    Raises:
        InputError: a folder has no run; a text of `readouts` does not have this form; a run has no such layer or head;
            a further run has other languages; or the second text is given, but no run is from target to source.
    """
    first = load_run(root)
    runs = [(first, False)]
    if reverse is not None:
        runs.append((load_run(reverse), True))
    runs += [(run, _is_reverse(run, first)) for run in map(load_run, more)]
    if readouts[1] and not any(turned for _, turned in runs):
        raise InputError("--reverse_at needs a run from target to source: give REVERSE_RUN, or leave it out")
    return [
        Direction(run, text, find_readout(run, readouts[turned]), reverse=turned, normalizes=normalizes).with_text(text)
        for run, turned in runs
    ]


def _is_reverse(run: TrainedRun, first: TrainedRun) -> bool:
    """Returns True if a run translates in the direction opposite to the first run.

    Raises:
        InputError: the run has other languages than the first run.
    """
    first_languages, languages = (
        (data.source_language, data.target_language) for data in (first.config.data, run.config.data)
    )
    if languages not in (first_languages, first_languages[::-1]):
        expected, found = " to ".join(first_languages), " to ".join(languages)
        raise InputError(f"{run.directory.root}: expected a run from {expected} or back, found one from {found}")
    return languages != first_languages


def link_calibration(directions: Sequence[Direction]) -> Calibration:
    """Returns the calibration of the links of one direction, or of the combined links of two directions.

    For one direction it is the readout's calibration, if it has one. Otherwise it is fitted on the choice set of the
    first run, see `alignment.gold`. Its calibration error and alignment error rate are logged.

    Args:
        directions: the result of `choose_readouts`.

    Raises:
        InputError: the choice set has no gold alignments; a file of it does not exist; it has too few pairs; or its
            links are between other word units than the text's.
    """
    first = directions[0]
    calibration = first.readout.calibration if len(directions) == 1 and first.readout else None
    calibration = calibration or _calibrate(directions)
    quality = "where no two words are likely to be linked"
    if not math.isnan(calibration.error):
        quality = (
            f"expected calibration error {100 * calibration.error:.1f} %, error rate of the links above "
            f"{calibration.threshold:.2f} {100 * calibration.aer:.1f} % (both cross-fitted)"
        )
    log.info("link probabilities: calibrated on %d pairs of %s, %s", calibration.pairs, calibration.chosen_on, quality)
    return calibration


def _calibrate(directions: Sequence[Direction]) -> Calibration:
    """Fits the calibration of `link_calibration` on the choice set of the first run.

    Raises:
        InputError: see `link_calibration`.
    """
    first = directions[0]
    gold_set = read_choice_set(first.run.config, first.run.reader.segmenter)
    if missing := missing_choice_file(first.run.config):
        check_text(missing)  # raises an `InputError`, since the file does not exist
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
    streams = [direction.with_text(text, units).records() for direction in directions]
    layers = [direction.readout.layer for direction in directions if direction.readout is not None]
    calibration = calibrate(zip(*streams, strict=True), gold_set.gold, layers, gold_set.name)
    if calibration is None:
        raise InputError(
            f"{gold_set.name}: {len(gold_set.corpus)} pairs calibrate no probabilities; expected {LEAST_PAIRS} or "
            "more, with right links and wrong ones; leave out --probabilities"
        )
    return replace(calibration, weights=tuple(direction.run.weights_sha256() for direction in directions))
