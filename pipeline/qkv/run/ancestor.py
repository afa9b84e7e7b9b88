"""The ancestor of a run: the run that a training starts from.

The weights and the tokenizer of the ancestor are copied into the new run. The new run reads only the copy, so the
ancestor may be changed or deleted afterwards.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ..config import RunConfig
from ..config.ancestor import check_ancestor, text_differences
from ..errors import DAMAGE, InputError
from ..files.arrays import ArrayFile
from ..files.atomic import replaced_when_done
from ..files.json import read_json_object, write_json
from ..files.paths import sha256
from ..files.run_directory import RunDirectory
from .trained_run import load_run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ancestor:
    """The copy of an ancestor in the folder of a new run.

    Attributes:
        run: the folder of the new run.
        record: a dict of text. `run` is the folder of the ancestor, and `weights` the file of its weights in this
            folder. `weights_sha256` and `tokenizer_sha256` are the SHA-256 of the ancestor's files, and `copy_sha256`
            is the SHA-256 of the copied weights.
    """

    run: RunDirectory
    record: dict[str, Any]

    def __str__(self) -> str:
        """Returns the folder of the ancestor, the file of its weights and the beginning of its SHA-256."""
        return f"{self.record['run']} ({self.record['weights']}, SHA-256 {self.record['weights_sha256'][:12]}...)"

    def load(self, model: keras.Model) -> None:
        """Assigns the copied weights of the ancestor to a model.

        Args:
            model: the model of the new run, with the same variables as the ancestor's.

        Raises:
            InputError: the copy is missing or damaged.
        """
        path = self.run.ancestor_weights
        try:
            if sha256(path) != self.record["copy_sha256"]:
                raise ValueError("its SHA-256 is not the copy_sha256 of manifest.json")
            with ArrayFile(path) as archive:
                values = [archive.read(name, "f", tuple(x.shape)) for name, x in _weights_by_name(model).items()]
        except DAMAGE as error:
            raise InputError(
                f"{path}: the weights that this run starts from are missing or damaged ({error}); delete "
                "the run and start it again"
            ) from None
        log.info("starting from %s", self)
        for variable, value in zip(model.weights, values, strict=True):
            variable.assign(value)


def take_ancestor(config: RunConfig, run: RunDirectory) -> Ancestor | None:
    """Copies the weights and the tokenizer of the run in `training.start_from` into a new run.

    If the new run has a copy already, nothing is copied.

    Args:
        config: the settings of the new run.
        run: the folder of the new run.

    Returns:
        The copy; None if `training.start_from` is null.

    Raises:
        InputError: `training.start_from` is not a run, the files of this run are damaged or do not fit together, or its
            model or vocabulary differs from the config's.
    """
    root = config.training.start_from
    if root is None:
        return None
    if not run.ancestor.is_file():
        write_json(run.ancestor, _copy(config, run, root))
    try:
        record = read_json_object(run.ancestor)
        if not all(isinstance(record[name], str) for name in ("run", "weights", "weights_sha256", "copy_sha256")):
            raise ValueError("expected paths and digests")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{run.ancestor}: missing or damaged ({error}); delete the run and start it again") from None
    return Ancestor(run, record)


def _copy(config: RunConfig, run: RunDirectory, root: Path) -> dict[str, Any]:
    """Copies the weights and the tokenizer of the run in `root`, and returns `Ancestor.record`.

    Raises:
        InputError: see `take_ancestor`; or the tokenizer changed during the copy.
    """
    ancestor = check_ancestor(config)
    assert ancestor is not None
    for difference in text_differences(config, ancestor):
        log.warning("training.start_from: the text may be of another kind: %s", difference)
    try:
        loaded = load_run(root)
    except InputError as error:
        raise InputError(f"training.start_from: {error}") from None
    source = loaded.directory
    record = {
        "run": str(root),
        "weights": str(loaded.weights.relative_to(source.root)),
        "weights_sha256": sha256(loaded.weights),
        "tokenizer_sha256": sha256(source.tokenizer),
    }
    run.copy_tokenizer(source)
    if sha256(run.tokenizer) != record["tokenizer_sha256"]:
        raise InputError(f"{source.tokenizer}: it changed while it was copied; delete the run and start it again")
    with replaced_when_done(run.ancestor_weights) as temporary:
        weights = _weights_by_name(loaded.model).items()
        arrays: dict[str, Any] = {name: keras.ops.convert_to_numpy(variable) for name, variable in weights}
        np.savez(temporary, **arrays)
    return {**record, "copy_sha256": sha256(run.ancestor_weights)}


def _weights_by_name(model: keras.Model) -> dict[str, Any]:
    """Returns the weights of a model by their names in the copied file: `NUMBER/PATH`, position and path."""
    return {f"{number:04d}/{variable.path}": variable for number, variable in enumerate(model.weights)}
