"""Resumable evaluations: they appear complete or not at all, and an interrupted evaluation is continued.

An evaluation is written into a temporary folder, which takes the place of the old evaluation at the end. Translations
are written in chunks and attention in shards. The next evaluation with the same fingerprint continues after the last
complete chunk or shard.
"""

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
    """Yields a folder to write an evaluation into; it replaces `final` when the block ends without an error.

    The old evaluation stays until then. The new folder has a list of its files, see `files.written`. Files in the old
    folder that no evaluation wrote, such as the user's notes, are moved into the new folder.

    Before the block, the temporary folders of ended processes on this machine are cleared. If `final` does not exist, a
    complete folder becomes `final`: its process was killed after it had moved the old evaluation away. A folder with
    the same fingerprint is yielded again with its files. All other folders are deleted.

    After an interrupt or an error in the block, the folder is kept, so that the evaluation can be continued. After an
    error before the first translations, it is deleted.

    Args:
        final: the folder of the evaluation.
        fingerprint: identifies the evaluation, see `fingerprint`.

    Raises:
        InputError: the folder is read-only; a file or a link is in its place; or a file in `final` that no evaluation
            wrote has the name of a file of an evaluation.
    """
    final.check_writable()
    final.refuse_other_files(final.evaluation_files(), "choose another --name")
    final.root.parent.mkdir(parents=True, exist_ok=True)
    machine_prefix = f".{final.root.name}.qkv-tmp.{socket.gethostname()}."
    process_prefix = f"{machine_prefix}{os.getpid()}."
    working = final.root.parent / f"{process_prefix}{fingerprint}"
    leftovers = final.root.parent.glob(f"{glob.escape(machine_prefix)}*")
    for leftover in sorted(leftovers, key=lambda path: not _is_complete(path)):  # complete folders first
        process = leftover.name.removeprefix(machine_prefix).split(".")[0]
        if re.fullmatch("[0-9]{1,9}", process) and is_running(int(process)):
            continue
        if leftover.is_symlink():  # of other origin: no command makes links
            leftover.unlink()
        elif any(path.is_symlink() for path in leftover.rglob("*")):
            _delete(leftover, final)
        elif not final.root.exists() and _is_complete(leftover):
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
        _replace_folder(working, final, process_prefix)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) or any(EvaluationDirectory(working).parts.glob("*.json")):
            log.info("\n%s: the finished part is kept; run the same command again to continue", final.root)
        else:
            shutil.rmtree(working, ignore_errors=True)
        raise


def _is_complete(folder: Path) -> bool:
    """Returns whether a folder has `metrics.json`, which an evaluation writes last."""
    return EvaluationDirectory(folder).metrics.is_file()


def _replace_folder(new: Path, evaluation: EvaluationDirectory, process_prefix: str) -> None:
    """Moves a folder into the place of an evaluation, and deletes the old evaluation.

    Another process may evaluate the same set. At any moment it may move the old evaluation away, or put its result
    there.

    Args:
        new: the folder.
        evaluation: the evaluation that is replaced.
        process_prefix: the beginning of the names of this process's temporary folders.
    """
    final = evaluation.root
    old_folders = []
    while True:
        if final.exists():
            old = Path(tempfile.mkdtemp(prefix=process_prefix, dir=final.parent))
            old_folders.append(old)
            with suppress(FileNotFoundError):
                final.replace(old)
        try:
            new.replace(final)
            break
        except OSError:
            if not final.exists():
                raise
    for old in old_folders:
        _delete(old, evaluation)


def _delete(old: Path, evaluation: EvaluationDirectory) -> None:
    """Deletes an old folder of an evaluation. Files in it that no evaluation wrote are moved to the new evaluation.

    If the new evaluation has a file of the same name, the file stays in the old folder, and a warning is logged.

    Args:
        old: the old folder.
        evaluation: the new evaluation.
    """
    directory = EvaluationDirectory(old)
    with suppress(FileNotFoundError, NotADirectoryError):  # another process has just deleted it, or it is a file
        own_files = directory.written_files()
        for parent, folders, names in os.walk(old, topdown=False):
            for path in (Path(parent, name) for name in names):
                if path in own_files or is_temporary(path.name):
                    path.unlink(missing_ok=True)
            for path in (Path(parent, name) for name in folders):
                if any(path.is_relative_to(folder) for folder in directory.folders):
                    with suppress(OSError):  # it is not empty, or it is a link
                        path.rmdir()
        _move_contents(old, evaluation.root)
        if old.exists():
            log.warning(
                "%s: files that no evaluation wrote are kept here, since the evaluation has files of the same names",
                old,
            )


def _move_contents(old: Path, new: Path) -> None:
    """Moves the files and folders in `old` into `new`. A file stays if `new` has a file of its name.

    Folders with the same name are merged. Afterwards `old` is deleted if it is empty.
    """
    for path in old.iterdir():
        target = new / path.name
        if not os.path.lexists(target):
            new.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        elif all(folder.is_dir() and not folder.is_symlink() for folder in (path, target)):
            _move_contents(path, target)
    with suppress(OSError):  # it is not empty
        old.rmdir()


SENTENCES_PER_CHUNK = 256
"""The least number of sentences whose translations are written together: a few batches per core. Losing them costs
seconds. A larger batch is a chunk of its own."""


def fingerprint(run: TrainedRun, **request: Any) -> str:
    """Computes a digest that identifies an evaluation, so that only the same evaluation is continued.

    Args:
        run: the run. The digest depends on its weights, its tokenizer, and its settings of model, search and
            inspection; for an ensemble, on the weights and all settings of each model.
        request: all other values on which the results depend, by names that the caller chooses.

    Returns:
        24 hexadecimal digits.
    """
    digest = hashlib.sha256(sha256(run.directory.tokenizer).encode())
    for variable in run.model.weights:  # without the states of random generators, which each process draws again
        digest.update(keras.ops.convert_to_numpy(variable).tobytes())
    settings = run.config.model_dump(mode="json", include={"model", "decoding", "inspection"})
    if isinstance(run, TrainedEnsemble):
        request["members"] = {name: member.config.model_dump(mode="json") for name, member in run.members.items()}
    digest.update(json.dumps([settings, request], sort_keys=True, default=repr).encode())
    return digest.hexdigest()[:24]


def translate_resumably(
    translator: Translator, text: TokenisedSet, folder: Path, processes: RunParts | None = None
) -> list[Translation]:
    """Translates a set in chunks, a file each. Chunks whose files exist are read; damaged chunks are translated again.

    A chunk has sentences of similar length.

    Args:
        translator: the translator.
        text: the set with its tokens.
        folder: the folder of the chunks, which is created if it is missing. It must not hold chunks of another text,
            model or search.
        processes: the processes that translate; None for this process alone.

    Returns:
        The best translation of each sentence.

    Raises:
        LostWorkerError: a process was killed.
    """
    folder.mkdir(exist_ok=True)
    sources = text.data.source
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i].split()))
    size = max(SENTENCES_PER_CHUNK, translator.batch_sentences)
    firsts = range(0, len(order), size)
    chunks = [order[first : first + size] for first in firsts]
    # The size of chunks depends on the device. A file is named by its first sentence, not by the number of its chunk:
    # so a file with as many sentences as the chunk has the chunk's sentences.
    paths = [folder / f"translations-{first:05d}.json" for first in firsts]
    translations: dict[int, Translation] = {}
    missing = []
    for rows, path in zip(chunks, paths, strict=True):
        if chunk := _read_chunk(path, len(rows), translator.tokenizer.vocabulary_size):
            translations |= zip(rows, chunk, strict=True)
        else:
            missing.append((rows, path))
    arguments = (_translator_arguments(text, rows) for rows, _ in missing)
    results = starmap(translator.translate_ids, arguments) if processes is None else processes.translate(arguments)
    for (rows, path), n_best_lists in zip(missing, results, strict=True):
        best = [n_best[0] for n_best in n_best_lists]
        write_json(path, list(map(asdict, best)))
        translations |= zip(rows, best, strict=True)
    return [translations[row] for row in range(len(sources))]


_CHUNK = TypeAdapter(list[Translation], config=ConfigDict(strict=True, allow_inf_nan=False))


def _read_chunk(path: Path, sentences: int, vocabulary_size: int) -> list[Translation] | None:
    """Reads the translations of a chunk.

    Args:
        path: the file of the chunk.
        sentences: the number of sentences of the chunk.
        vocabulary_size: the number of tokens of the model.

    Returns:
        The translations; None if the file does not exist or is damaged.
    """
    try:
        chunk = _CHUNK.validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    tokens = {token for translation in chunk for token in (*translation.source_ids, *translation.ids)}
    is_complete = len(chunk) == sentences and all(
        len(translation.ids) == len(translation.log_probabilities) > 0 for translation in chunk
    )
    return chunk if is_complete and all(0 <= token < vocabulary_size for token in tokens) else None


def _translator_arguments(text: TokenisedSet, rows: Sequence[int]) -> tuple[Any, Any, Any]:
    """Returns the arguments of `Translator.translate_ids` for some sentences: tokens, prefixes and required phrases."""
    data = text.data
    source_ids = [text.source[row].tolist() for row in rows]
    prefixes = data.prefixes and [data.prefixes[row] for row in rows]
    required = data.required and [data.required[row] for row in rows]
    return source_ids, prefixes, required


def record_resumably(
    archive: ArchiveWriter,
    recorder: AttentionRecorder,
    pairs: Sequence[ForcedPair],
    sites: Collection[str],
    processes: RunParts | None = None,
) -> None:
    """Records the pairs that an archive does not have yet, a shard at a time.

    All pairs of a batch are in the same shard. So the numbers in a shard depend neither on the process that records it
    nor on the shards that were recorded before.

    Args:
        archive: the writer of the archive.
        recorder: the recorder of the attention.
        pairs: all pairs, in the order of the archive.
        sites: the sites to record, a subset of the recorder's sites.
        processes: the processes that record; None for this process alone.

    Raises:
        LostWorkerError: a process was killed.
    """
    size = archive.sentences_per_shard
    if processes is None:
        records = recorder.record(pairs[len(archive.ids) :], sites)
    else:
        shards = (pairs[first : first + size] for first in range(len(archive.ids), len(pairs), size))
        records = processes.record(shards, recorder, list(sites))
    for record in records:
        archive.append(record)
