"""An evaluation is there whole or not at all: it is written beside its place and then moved there."""

import glob
import hashlib
import json
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras

from ..decoding.translator import Translation, Translator
from ..files import sha256, write_json
from ..inspection.archive_writer import ArchiveWriter
from ..inspection.forced_pairs import ForcedPair
from ..inspection.record import Record
from ..inspection.recorder import AttentionRecorder
from ..run_directory import EvaluationDirectory
from ..trained_run import TrainedRun

log = logging.getLogger(__name__)


@contextmanager
def evaluation_folder(final: EvaluationDirectory, fingerprint: str) -> Iterator[EvaluationDirectory]:
    """A folder that takes the place of `final` when everything in it is written; until then the old one stays.

    What processes of this machine left behind that were killed goes first, with two exceptions. If one was killed
    between moving the old evaluation away and the new one there, the one that is complete takes the place. And one of
    the same fingerprint, which was killed or interrupted on its way, is gone on with.
    """
    final.root.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{final.root.name}.{socket.gethostname()}."
    own = f"{prefix}{os.getpid()}."
    working = final.root.parent / f"{own}{fingerprint}"
    for leftover in final.root.parent.glob(f"{glob.escape(prefix)}*"):
        if _is_running(leftover.name.removeprefix(prefix).split(".")[0]):
            continue
        if not final.root.exists() and EvaluationDirectory(leftover).metrics.is_file():  # which is written last
            leftover.replace(final.root)
        elif leftover.name.endswith(f".{fingerprint}") and (leftover == working or not working.exists()):
            leftover.replace(working)
        else:
            shutil.rmtree(leftover, ignore_errors=True)
    try:
        working.mkdir(exist_ok=True)
        working.chmod(0o755)
        yield EvaluationDirectory(working)
        if final.root.exists():
            old = Path(tempfile.mkdtemp(prefix=own, dir=final.root.parent))
            final.root.replace(old)
            working.replace(final.root)
            shutil.rmtree(old)
        else:
            working.replace(final.root)
    except Exception:
        shutil.rmtree(working, ignore_errors=True)
        raise
    except KeyboardInterrupt:
        log.info("\n%s: the same command goes on from here", final.root)
        raise


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass  # somebody else's
    return True


PART_SENTENCES = 256  # some batches for each core; what is lost at worst takes seconds


def fingerprint(run: TrainedRun, **what: Any) -> str:
    """Says whether an evaluation is the same: a digest of weights, tokenizer, settings and `what` is evaluated."""
    digest = hashlib.sha256(sha256(run.directory.tokenizer).encode())
    for variable in run.model.variables:
        digest.update(keras.ops.convert_to_numpy(variable).tobytes())
    settings = run.config.model_dump(mode="json", include={"model", "decoding", "inspection"})
    digest.update(json.dumps([settings, what], sort_keys=True, default=repr).encode())
    return digest.hexdigest()[:32]


def translate_in_parts(translator: Translator, sentences: Sequence[str], folder: Path) -> list[Translation]:
    """Translates sentences, those of similar length together; parts that are in the folder already are read.

    The folder is that of one evaluation: parts of another text or model must not be in it.
    """
    folder.mkdir(exist_ok=True)
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i].split()))
    found: list[Translation | None] = [None] * len(sentences)
    for number, first in enumerate(range(0, len(order), PART_SENTENCES)):
        rows = order[first : first + PART_SENTENCES]
        path = folder / f"translations-{number:05d}.json"
        if path.is_file():
            part = [Translation(**values) for values in json.loads(path.read_text(encoding="utf-8"))]
        else:
            part = translator.translate([sentences[row] for row in rows])
            write_json(path, [asdict(translation) for translation in part])
        for row, translation in zip(rows, part, strict=True):
            found[row] = translation
    return [translation for translation in found if translation is not None]


def archived(archive: ArchiveWriter, recorder: AttentionRecorder, pairs: Sequence[ForcedPair]) -> Iterator[Record]:
    """Records of pairs, each in the archive when it is given: those that it kept, then the others, a shard at a time.

    A shard is recorded by itself, so that its numbers are the same whether those before it were just recorded or kept.
    """
    yield from archive.kept()
    for record in recorder.record(pairs[archive.sentences :], archive.sentences_per_shard):
        archive.append(record)
        yield record
