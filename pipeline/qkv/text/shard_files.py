"""Readings of shards as files, by which a preparation that was killed goes on, and which several runs share.

A folder holds the shards of one text, read in one way; its name says which. Each file appears whole or not at all, and
whoever makes it makes the same bytes, so that processes need no lock, and a file that is missing or damaged is made
again.
"""

import contextlib
import hashlib
import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DAMAGE
from ..files.atomic import is_temporary, replaced_when_done
from .look import LookMeter
from .overlap import SharedSentences
from .readings import EncodedShard, Reading

VERSION = 2
"""Of the files, and of everything that is computed for them: a new one makes new folders."""

LEFTOVER_SECONDS = 3600

log = logging.getLogger(__name__)


def folder_name(facts: Any) -> str:
    """Returns the name of the folder of a text.

    Args:
        facts: all that the readings depend on, as JSON.
    """
    return hashlib.sha256(json.dumps([VERSION, facts], sort_keys=True).encode()).hexdigest()[:32]


class ShardFiles:
    """The readings of the shards of a text.

    Args:
        folder: where they are; made when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, number: int) -> bool:
        """Returns whether there is a file for a shard, perhaps a damaged one."""
        return self._path(number).is_file()

    def delete_leftovers(self) -> None:
        """Deletes what killed processes have left half-written; what another process is writing now is younger."""
        for path in self.folder.glob(".*.npz"):
            with contextlib.suppress(FileNotFoundError):
                if is_temporary(path.name) and time.time() - path.lstat().st_mtime > LEFTOVER_SECONDS:
                    path.unlink()

    def write(self, number: int, reading: Reading) -> None:
        """Writes a reading; one that another process is writing at the same time is the same."""
        with replaced_when_done(self._path(number)) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **_arrays(reading))

    def read(self, number: int) -> Reading | None:
        """Returns a reading; None if its file is missing or damaged."""
        try:
            with self._path(number).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return _reading(arrays)
        except FileNotFoundError:
            return None
        except DAMAGE as error:
            log.warning("%s is damaged (%s) and is made again", self._path(number), error)
            return None

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"


def _arrays(reading: Reading) -> dict[str, np.ndarray]:
    source, target = reading.sides
    facts = {
        "looks": [
            {
                **{name: getattr(look, name) for name in _LOOK},
                "capitalised": sorted(look.capitalised),
                "counts": sorted(look.counts.items()),
            }
            for look in reading.looks
        ],
        "shared": {
            name: [sorted(shared.sources), sorted(shared.targets), sorted(shared.pairs)]
            for name, shared in reading.shared.items()
        },
    }
    return {
        "source_ids": source.ids,
        "source_lengths": source.lengths.astype(np.int32),
        "target_ids": target.ids,
        "target_lengths": target.lengths.astype(np.int32),
        **{name: getattr(reading, name) for name in _ARRAYS},
        "facts": np.frombuffer(json.dumps(facts).encode(), np.uint8),
    }


def _reading(arrays: Any) -> Reading:
    facts = json.loads(arrays["facts"].tobytes())
    looks = _read_look(facts["looks"][0]), _read_look(facts["looks"][1])
    shared = {
        name: SharedSentences(set(sources), set(targets), {(source, target) for source, target in pairs})
        for name, (sources, targets, pairs) in facts["shared"].items()
    }
    source, target = (
        EncodedShard(arrays[f"{side}_ids"], arrays[f"{side}_lengths"].astype(np.int64)) for side in ("source", "target")
    )
    return Reading((source, target), looks=looks, shared=shared, **{name: arrays[name] for name in _ARRAYS})


def _read_look(facts: dict[str, Any]) -> LookMeter:
    look = LookMeter(facts["tokenized"])
    for name in _LOOK:
        setattr(look, name, facts[name])
    look.capitalised = set(facts["capitalised"])
    look.counts.update(dict(facts["counts"]))
    return look


_LOOK = ("tokenized", "sentences", "beginnings", "escaped", "first", "first_short")
_ARRAYS = ("empty", "digests", "filtered", "near_digests")
