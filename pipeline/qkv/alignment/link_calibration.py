"""The calibration by which `align` writes the probabilities of links: of one run, or of two of opposite directions."""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

from ..errors import InputError
from ..files.paths import sha256
from .aligned_text import AlignedText
from .aligner import Direction
from .calibration import LEAST_PAIRS, Calibration, calibrate, with_weights
from .gold import read_choice_set
from .probable_readout import ProbableReadout

log = logging.getLogger(__name__)


def link_calibration(directions: Sequence[Direction]) -> Calibration:
    """Returns the calibration of the links of one direction, or of the combined links of two.

    It is that of the readout, or it is made on the gold links that the config of the first run names.

    Args:
        directions: as `choose_readouts` returns them.

    Raises:
        InputError: there are no gold links, or they are too few or count other words.
    """
    first = directions[0]
    assert all(direction.readout is not None for direction in directions)
    if len(directions) == 1 and isinstance(first.readout, ProbableReadout):
        calibration = first.readout.calibration
    else:
        calibration = _calibrate(directions)
    log.info(
        "probabilities of links: calibrated on %d pairs of %s, %s",
        calibration.pairs,
        calibration.chosen_on,
        "where no two words are likely to be linked"
        if math.isnan(calibration.error)
        else f"expected calibration error {100 * calibration.error:.1f} %, error rate of the links above "
        f"{calibration.threshold:.2f} {100 * calibration.aer:.1f} % (both cross-fitted)",
    )
    return calibration


def _calibrate(directions: Sequence[Direction]) -> Calibration:
    first = directions[0]
    gold_set = read_choice_set(first.run.config, first.run.cutter)
    if gold_set is None:
        raise InputError(
            f"{first.run.directory.root}: probabilities are calibrated on gold alignments, and its config names none; "
            "name some (inspection.choose_head_on) or leave out --probabilities"
        )
    units = gold_set.units
    if first.text.words == (None, None) and units != first.units:
        raise InputError(
            f"{gold_set.name}: its gold links count {' and '.join(units)} as words, and those of the text "
            f"{' and '.join(first.units)}, so its probabilities are none of theirs; leave out --probabilities"
        )
    text = AlignedText(gold_set.corpus.source, gold_set.corpus.target)
    streams = (
        replace(
            direction,
            text=text.turned() if direction.reverse else text,
            units=type(units)(*reversed(units)) if direction.reverse else units,
        ).records()
        for direction in directions
    )
    layers = [direction.readout.layer for direction in directions if direction.readout is not None]
    calibration = calibrate(zip(*streams, strict=True), gold_set.gold, layers, gold_set.name)
    if calibration is None:
        raise InputError(
            f"{gold_set.name}: {len(gold_set.corpus)} pairs with gold alignments calibrate no probabilities; expected "
            f"{LEAST_PAIRS} or more, with right links and wrong ones; leave out --probabilities"
        )
    return with_weights(calibration, [sha256(direction.run.weights) for direction in directions])
