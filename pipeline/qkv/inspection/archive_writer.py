"""Writes the attention archive, shard by shard."""

import io
import json
import os
import re
import zipfile
from itertools import groupby, takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..config.names.inspection import SITES
from ..errors import DAMAGE, InputError
from ..files.atomic import write_atomically
from .archive_format import (
    FORMAT_VERSION,
    GOLD,
    MANIFEST,
    SENTENCES,
    array_key,
    arrays_of,
    json_line,
    metadata_of,
    parse_line,
    sink_key,
    sites_of,
)
from .record import Record


class ArchiveWriter:
    """Writes an archive, shard by shard; after a crash at any moment, the folder is recognised as unfinished.

    A shard is moved into place before the lines of its sentences are appended, and the manifest is written at the end.
    Used as a context manager, an exception inside leaves the manifest unwritten.

    Args:
        path: the folder; made if missing.
        manifest: JSON-ready facts to keep with the archive, e.g. versions and the model's hash.
        sentences_per_shard: sentences held in memory and written together.
        go_on: whether to continue an existing archive after its last complete shard; otherwise the files of an
            unfinished one are removed.

    Raises:
        InputError: the folder already holds a finished archive, which is not to be continued.
        ValueError: the manifest uses a name that the archive fills in itself.
    """

    def __init__(
        self, path: str | Path, *, manifest: dict[str, Any], sentences_per_shard: int = 256, go_on: bool = False
    ) -> None:
        if sentences_per_shard < 1:
            raise ValueError(f"sentences_per_shard: expected at least 1, found {sentences_per_shard}")
        self._path = Path(path)
        self._given = dict(manifest)
        self.sentences_per_shard = sentences_per_shard
        self._pending: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []
        self._sites: dict[str, list[int]] | None = None
        self._sinks: list[str] = []
        self._ids: set[int] = set()
        self._shards = 0
        self._open = True
        if taken := sorted(self._given.keys() & self._facts().keys()):
            raise InputError(f"manifest: expected no names that the archive fills in itself, found {', '.join(taken)}")
        if go_on:
            (self._path / MANIFEST).unlink(missing_ok=True)
        if (self._path / MANIFEST).exists():
            raise InputError(f"{self._path}: already holds an attention archive; move it away or choose another folder")
        self._path.mkdir(parents=True, exist_ok=True)
        shards = {path for path in self._path.glob("shard-*.npz") if re.fullmatch("shard-[0-9]{5,}", path.stem)}
        if not (self._path / SENTENCES).exists() and (others := [*sorted(shards), *self._path.glob(GOLD)]):
            raise InputError(f"{others[0]}: not of an attention archive; move it away or choose another folder")
        (self._path / GOLD).unlink(missing_ok=True)  # of an unfinished archive of perhaps other sentences
        lines = self._whole_shards() if go_on else []
        try:
            self._sites, self._sinks = self._stored_sites(lines[0]) if lines else (None, [])
        except DAMAGE:  # then all is recorded again
            lines = []
        # Deleted before the shards, since no line may outlive its shard.
        write_atomically(self._path / SENTENCES, "".join(map(json_line, lines)).encode())
        for leftover in shards - {self._path / line["shard"] for line in lines}:
            leftover.unlink()
        self._ids = {line["id"] for line in lines}
        self._shards = len(lines) // sentences_per_shard

    @property
    def sentences(self) -> int:
        """Number of sentences so far."""
        return len(self._ids)

    def _stored_sites(self, line: dict[str, Any]) -> tuple[dict[str, list[int]], list[str]]:
        """Layers and heads of each site of a sentence that is stored, as `sites_of` counts them; sites with sinks."""
        with np.load(self._path / line["shard"], allow_pickle=False) as shard:
            keys = {site: array_key(site, line["id"]) for site in SITES}
            shapes = {site: shard[key].shape for site, key in keys.items() if key in shard.files}
            sinks = [site for site in shapes if sink_key(site, line["id"]) in shard.files]
        return {site: list(shape[:2]) for site, shape in sorted(shapes.items())}, sorted(sinks)

    def _whole_shards(self) -> list[dict[str, Any]]:
        """Returns the lines of the complete shards, up to the first shard that is missing or lacks lines."""
        try:
            text = (self._path / SENTENCES).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        # Not `str.splitlines`: sentences may hold other line ends, such as U+2028. The last one is cut off, or empty.
        texts = text.split("\n")[:-1]
        parsed = takewhile(lambda line: line is not None, map(parse_line, texts))
        whole: list[dict[str, Any]] = []
        for number, (name, group) in enumerate(groupby((one for one in parsed if one), key=lambda line: line["shard"])):
            lines = list(group)
            in_place = name == f"shard-{number:05d}.npz" and zipfile.is_zipfile(self._path / name)
            if not in_place or len(lines) != self.sentences_per_shard:
                break
            whole += lines
        return whole

    def append(self, record: Record) -> None:
        """Adds one sentence. Its weights are copied, so views into a batch do not keep the batch in memory.

        Raises:
            ValueError: lists and axes of the record do not fit (see `Record.validate`), its id was appended before, its
                sites, layers or heads differ from those of the first sentence, or the archive is closed.
        """
        if not self._open:
            raise ValueError("the archive is closed")
        record.validate()
        if record.id in self._ids:
            raise ValueError(f"sentence {record.id}: expected an id that was not appended before, found it twice")
        sites = sites_of(record)
        if self._sites not in (None, sites):
            raise InputError(f"sentence {record.id}: expected sites with [layers, heads] {self._sites}, found {sites}")
        self._sites = sites
        self._sinks = sorted(record.sinks)
        self._ids.add(record.id)
        line = {"id": record.id, "shard": self._shard_name()} | metadata_of(record)
        self._pending.append((line, arrays_of(record)))
        if len(self._pending) == self.sentences_per_shard:
            self._write_shard()

    def close(self) -> None:
        """Writes what is pending, then the manifest. A second call does nothing."""
        if not self._open:
            return
        if self._pending:
            self._write_shard()
        text = json.dumps(self._given | self._facts(), ensure_ascii=False, indent=2)
        write_atomically(self._path / MANIFEST, (text + "\n").encode())
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        self._open = False

    def _facts(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "sentences": len(self._ids),
            "shards": self._shards,
            "sites": self._sites or {},  # site -> [layers, heads]
            **({"sinks": self._sinks} if self._sinks else {}),
            "complete": True,
        }

    def _shard_name(self) -> str:
        return f"shard-{self._shards:05d}.npz"

    def _write_shard(self) -> None:
        shard = io.BytesIO()
        # savez takes the arrays as keywords; its other parameters' names hold no slash and cannot be meant.
        np.savez(shard, **{key: array for _, arrays in self._pending for key, array in arrays.items()})  # type: ignore[arg-type]
        lines = "".join(json_line(line) for line, _ in self._pending)
        write_atomically(self._path / self._shard_name(), shard.getvalue())
        with (self._path / SENTENCES).open("ab") as sentences:
            sentences.write(lines.encode())
            sentences.flush()
            os.fsync(sentences.fileno())
        self._shards += 1
        self._pending.clear()
