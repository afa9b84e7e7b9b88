"""Evaluations that appear complete or not at all, and continue where a killed one stopped."""

import glob
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any

import keras
from pydantic import ConfigDict, TypeAdapter

from ..decoding.translator import Translation, Translator
from ..files.atomic import delete_temporary_files_below, is_temporary
from ..files.json import write_json
from ..files.paths import sha256
from ..files.run_directory import EvaluationDirectory
from ..files.written import FileList
from ..inspection.archive import ArchiveWriter
from ..inspection.recorder import AttentionRecorder, ForcedPair
from ..run.ensemble import TrainedEnsemble
from ..run.processes import RunParts
from ..run.trained_run import TrainedRun
from ..runtime.machine import is_running
from .request import TokenisedSet

log = logging.getLogger(__name__)


@contextmanager
def evaluation_folder(final: EvaluationDirectory, fingerprint: str) -> Iterator[EvaluationDirectory]:
    """Yields a folder that replaces `final` when everything in it has been written; until then the old one stays. Then
    the folder has a list of its files, see `files.written`.

    Folders that killed processes of this machine left behind are removed first, with two exceptions. A complete one,
    whose process was killed after moving the old evaluation away, takes its place. One of the same fingerprint, which
    was killed, interrupted or ended by an error on its way, is continued. After an error before the first translations
    nothing is left. What others have put into the old folder, such as notes, is in the new one.

    Raises:
        InputError: a file or a link is in the place of a folder, or files in it have names of an evaluation, which no
            evaluation wrote.
    """
    final.check_writable()
    final.refuse_other_files(final.evaluation_files(), "choose another --name")
    final.root.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{final.root.name}.qkv-tmp.{socket.gethostname()}."
    own_prefix = f"{prefix}{os.getpid()}."
    working = final.root.parent / f"{own_prefix}{fingerprint}"
    found = final.root.parent.glob(f"{glob.escape(prefix)}*")
    for leftover in sorted(found, key=lambda path: not EvaluationDirectory(path).metrics.is_file()):  # whole ones first
        process = leftover.name.removeprefix(prefix).split(".")[0]
        if re.fullmatch("[0-9]{1,9}", process) and is_running(int(process)):
            continue
        if leftover.is_symlink() or any(path.is_symlink() for path in leftover.rglob("*")):  # it is not ours: no
            leftover.unlink() if leftover.is_symlink() else _delete(leftover, final)  # command makes links
        elif not final.root.exists() and EvaluationDirectory(leftover).metrics.is_file():  # which is written last
            leftover.replace(final.root)
        elif leftover.name.endswith(f".{fingerprint}") and (leftover == working or not working.exists()):
            with suppress(FileNotFoundError):  # another process has just taken it
                leftover.replace(working)
                delete_temporary_files_below(working)
        else:
            _delete(leftover, final)
    try:
        working.mkdir(exist_ok=True)
        yield EvaluationDirectory(working)
        FileList(working).write(path for path in working.rglob("*") if path.is_file())
        _replace_folder(working, final, own_prefix)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) or any(EvaluationDirectory(working).parts.glob("*.json")):
            log.info("\n%s: what is done is kept; run the same command again to continue", final.root)
        else:
            shutil.rmtree(working, ignore_errors=True)
        raise


def _replace_folder(new: Path, evaluation: EvaluationDirectory, own_prefix: str) -> None:
    """Moves a folder to the place of another, which may be taken away or come back at any moment: two processes may
    evaluate the same set."""
    final = evaluation.root
    old = []
    while True:
        if final.exists():
            aside = Path(tempfile.mkdtemp(prefix=own_prefix, dir=final.parent))
            old.append(aside)
            with suppress(FileNotFoundError):
                final.replace(aside)
        try:
            new.replace(final)
            break
        except OSError:
            if not final.exists():
                raise
    for aside in old:
        _delete(aside, evaluation)


def _delete(old: Path, evaluation: EvaluationDirectory) -> None:
    """Deletes what evaluations have written in a folder; what others have put there moves to the evaluation's own
    folder, and stays where it is if there is something of its name."""
    directory = EvaluationDirectory(old)
    with suppress(FileNotFoundError, NotADirectoryError):  # another process has just deleted it, or it is a file
        own = directory.written_files()
        for parent, folders, names in os.walk(old, topdown=False):
            for path in (Path(parent, name) for name in names):
                if path in own or is_temporary(path.name):
                    path.unlink(missing_ok=True)
            for path in (Path(parent, name) for name in folders):
                if any(path.is_relative_to(folder) for folder in directory.folders):
                    with suppress(OSError):  # it is not empty, or it is a link
                        path.rmdir()
        _move_into(old, evaluation.root)
        if old.exists():
            log.warning("%s: files of others are kept here, since the evaluation has files of their names", old)


def _move_into(old: Path, new: Path) -> None:
    """Moves what is in a folder into another one, except what has the name of something there."""
    for path in old.iterdir():
        if not os.path.lexists(target := new / path.name):
            new.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        elif all(place.is_dir() and not place.is_symlink() for place in (path, target)):
            _move_into(path, target)
    with suppress(OSError):  # it is not empty
        old.rmdir()


CHUNK_SENTENCES = 256  # a few batches per core; losing a chunk costs seconds


def fingerprint(run: TrainedRun, **request: Any) -> str:
    """Computes a digest of weights, tokenizer, settings and request, which identifies an interrupted evaluation."""
    digest = hashlib.sha256(sha256(run.directory.tokenizer).encode())
    for variable in run.model.weights:  # not the states of random numbers, which every process draws anew
        digest.update(keras.ops.convert_to_numpy(variable).tobytes())
    settings = run.config.model_dump(mode="json", include={"model", "decoding", "inspection"})
    if isinstance(run, TrainedEnsemble):
        request["members"] = {name: member.config.model_dump(mode="json") for name, member in run.members.items()}
    digest.update(json.dumps([settings, request], sort_keys=True, default=repr).encode())
    return digest.hexdigest()[:24]


def translate_resumably(
    translator: Translator, text: TokenisedSet, folder: Path, spreading: RunParts | None = None
) -> list[Translation]:
    """Translates sentences of similar length together, a chunk at a time, in this process or spread over others; chunks
    that are in the folder are read back, and those that are damaged are translated again.

    The folder belongs to one evaluation: chunks of another text or model must not be in it.
    """
    folder.mkdir(exist_ok=True)
    sources = text.data.source
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i].split()))
    chunks = [order[first : first + CHUNK_SENTENCES] for first in range(0, len(order), CHUNK_SENTENCES)]
    paths = [folder / f"translations-{number:05d}.json" for number in range(len(chunks))]
    translations: dict[int, Translation] = {}
    missing = []
    for rows, path in zip(chunks, paths, strict=True):
        if found := _read_chunk(path, len(rows), translator.tokenizer.vocabulary_size):
            translations |= zip(rows, found, strict=True)
        else:
            missing.append((rows, path))
    items = (_given(text, rows) for rows, _ in missing)
    results = starmap(translator.translate_ids, items) if spreading is None else spreading.translate(items)
    for (rows, path), translated in zip(missing, results, strict=True):
        best = [first for first, *_ in translated]
        write_json(path, list(map(asdict, best)))
        translations |= zip(rows, best, strict=True)
    return [translations[row] for row in range(len(sources))]


_CHUNK = TypeAdapter(list[Translation], config=ConfigDict(strict=True, allow_inf_nan=False))


def _read_chunk(path: Path, sentences: int, vocabulary_size: int) -> list[Translation] | None:
    """Returns the translations of a chunk; None if there is no such file, or one that is damaged."""
    try:
        found = _CHUNK.validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    tokens = {token for one in found for token in (*one.source_ids, *one.ids)}
    whole = len(found) == sentences and all(len(one.ids) == len(one.log_probabilities) > 0 for one in found)
    return found if whole and all(0 <= token < vocabulary_size for token in tokens) else None


def _given(text: TokenisedSet, rows: Sequence[int]) -> tuple[Any, Any, Any]:
    """Returns the tokens of some sentences, and their prefixes and required phrases."""
    data = text.data
    prefixes, required = (side and [side[row] for row in rows] for side in (data.prefixes, data.required))
    return [text.source[row].tolist() for row in rows], prefixes, required


def record_resumably(
    archive: ArchiveWriter,
    recorder: AttentionRecorder,
    pairs: Sequence[ForcedPair],
    sites: Collection[str],
    spreading: RunParts | None = None,
) -> None:
    """Records the pairs that the archive does not hold yet, a shard at a time.

    A shard is recorded by itself, so that its numbers do not depend on whether those before it were just recorded, nor
    on the process that records it.
    """
    size = archive.sentences_per_shard
    if spreading is None:
        records = recorder.record(pairs[len(archive.ids) :], sites)
    else:
        shards = (pairs[first : first + size] for first in range(len(archive.ids), len(pairs), size))
        records = spreading.record(shards, recorder, list(sites))
    for record in records:
        archive.append(record)
