"""The readout that gold alignments have chosen for a run, kept in the run as `alignment.json`. So a run that is moved
away from its text reads the same links, with the same probabilities."""

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ..config.names.inspection import EXTRACTIONS, LABEL_SIDES
from ..errors import InputError
from ..files.json import read_json_object, write_json
from ..files.paths import sha256
from ..run.trained_run import TrainedRun
from .gold import GoldSet, alignment_sites, choice_settings
from .readout import MEAN_HEAD, AlignmentReadout, aligned_sites

FORMAT = 1  # of the file
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
    if calibration and (calibration.layers != (readout.layer,) or not math.isfinite(calibration.threshold)):
        raise ValueError(f"expected a calibration of layer {readout.layer}, found {calibration.layers}")


def _damaged(path: Path, found: str) -> InputError:
    return InputError(
        f"{path}: expected the layer and head that gold alignments have chosen, as evaluate.py and qkv align write "
        f"them, found {found}; delete the file: it is written again where the gold alignments are"
    )
