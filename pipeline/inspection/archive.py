"""The attention archive: one folder that holds every weight of an evaluated set, readable with NumPy and json alone.

    manifest.json      counts, sites, whatever the writer was told; written last, so a folder without it is unfinished
    sentences.jsonl    one line a sentence: everything in a `Record` but its attention, and the `shard` that holds that
    shard-00000.npz    uncompressed float32 `(layer, head, query, key)` under `SITE/ID`, the id in six digits

To read a sentence without this package:

    import json, numpy
    with open("attention/sentences.jsonl", encoding="utf-8") as lines:
        sentence = next(s for s in map(json.loads, lines) if s["id"] == 42)
    with numpy.load(f"attention/{sentence['shard']}") as shard:
        weights = shard[f"cross/{sentence['id']:06d}"]  # (layer, head, target token, source token)
    print(weights.shape, sentence["target_output_tokens"], sentence["source_tokens"])
"""

import html
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import groupby, islice, takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload

import numpy as np
import pandas as pd

from pipeline.errors import DAMAGE, InputError
from pipeline.inspection.record import Record
from pipeline.run_directory import write_atomically

FORMAT_VERSION = 1
_MANIFEST, _SENTENCES = "manifest.json", "sentences.jsonl"
_SHARD = re.compile(r"shard-[0-9]{5,}\.npz")
_COLUMNS = [
    *("id", "source", "reference", "hypothesis", "mode", "truncated"),
    *("source_tokens", "target_tokens", "log_probability"),
]
_METADATA = tuple(field.name for field in fields(Record) if field.name != "attention")


class ArchiveWriter:
    """Writes an archive, shard by shard; a crash at any moment leaves a folder that is seen to be unfinished.

    A shard is moved into place before the lines of its sentences are appended, and the manifest is written at the end.
    Used as a context manager, an exception inside leaves the manifest unwritten.

    Args:
        path: the folder; made if missing.
        manifest: JSON-ready facts to keep with the archive, e.g. versions and the model's hash.
        sentences_per_shard: sentences held in memory and written together.
        go_on: whether the whole shards of an archive that is there stay, see `kept`; else what an unfinished one left
            is removed.

    Raises:
        InputError: the folder already holds a finished archive, and not to go on with it.
        ValueError: the manifest uses a name that the archive fills in itself.
    """

    def __init__(
        self, path: str | Path, *, manifest: dict[str, Any], sentences_per_shard: int = 256, go_on: bool = False
    ) -> None:
        if sentences_per_shard < 1:
            raise ValueError(f"sentences_per_shard must be at least 1. Received: {sentences_per_shard}")
        self._path = Path(path)
        self._given = dict(manifest)
        self.sentences_per_shard = sentences_per_shard
        self._pending: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []
        self._sites: dict[str, list[int]] | None = None
        self._ids: set[int] = set()
        self._shards = 0
        self._open = True
        if taken := sorted(self._given.keys() & self._facts().keys()):
            raise ValueError(f"manifest names that the archive fills in itself: {', '.join(taken)}")
        if go_on:
            (self._path / _MANIFEST).unlink(missing_ok=True)
        if (self._path / _MANIFEST).exists():
            raise InputError(f"{self._path}: already holds an attention archive; move it away or choose another folder")
        self._path.mkdir(parents=True, exist_ok=True)
        self._kept = self._whole_shards() if go_on else []
        # Before the shards, as no line may outlive its shard.
        write_atomically(self._path / _SENTENCES, "".join(map(_json_line, self._kept)).encode())
        for leftover in set(self._path.glob("shard-*.npz")) - {self._path / line["shard"] for line in self._kept}:
            leftover.unlink()
        self._ids = {line["id"] for line in self._kept}
        self._shards = len(self._kept) // sentences_per_shard
        for record in islice(self.kept(), 1):
            self._sites = _sites_of(record)

    @property
    def sentences(self) -> int:
        """How many there are so far."""
        return len(self._ids)

    def kept(self) -> Iterator[Record]:
        """The sentences that were there when the archive was opened to go on with it, in order."""
        for name, lines in groupby(self._kept, key=lambda line: line["shard"]):
            with np.load(self._path / name, allow_pickle=False) as shard:
                for line in lines:
                    keys = [key for key in shard.files if key.endswith(f"/{line['id']:06d}")]
                    attention = {key.split("/")[0]: shard[key] for key in keys}
                    yield Record(**{name: line[name] for name in _METADATA}, attention=attention)

    def _whole_shards(self) -> list[dict[str, Any]]:
        """The lines of the first shards, up to one that is not there, or not all of whose lines are."""
        try:
            texts = (self._path / _SENTENCES).read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        except FileNotFoundError:
            return []
        parsed = takewhile(lambda line: line is not None, (_parse(t) if t.endswith("\n") else None for t in texts))
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
            raise ValueError(f"sentence {record.id}: appended before")
        sites = _sites_of(record)
        if self._sites not in (None, sites):
            raise ValueError(f"sentence {record.id}: sites with (layers, heads) are {sites}, before {self._sites}")
        self._sites = sites
        self._ids.add(record.id)
        line = {"id": record.id, "shard": self._shard_name()} | {name: getattr(record, name) for name in _METADATA}
        arrays = {_key(site, record.id): np.array(w, np.float32, order="C") for site, w in record.attention.items()}
        self._pending.append((line, arrays))
        if len(self._pending) == self.sentences_per_shard:
            self._write_shard()

    def close(self) -> None:
        """Writes what is pending, then the manifest. A second call does nothing."""
        if not self._open:
            return
        if self._pending:
            self._write_shard()
        text = json.dumps(self._given | self._facts(), ensure_ascii=False, indent=2)
        write_atomically(self._path / _MANIFEST, (text + "\n").encode())
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
            "complete": True,
        }

    def _shard_name(self) -> str:
        return f"shard-{self._shards:05d}.npz"

    def _write_shard(self) -> None:
        shard = io.BytesIO()
        # savez takes the arrays as keywords; its other parameters' names hold no slash and cannot be meant.
        np.savez(shard, **{key: array for _, arrays in self._pending for key, array in arrays.items()})  # type: ignore[arg-type]
        lines = "".join(_json_line(line) for line, _ in self._pending)
        write_atomically(self._path / self._shard_name(), shard.getvalue())
        with (self._path / _SENTENCES).open("ab") as sentences:
            sentences.write(lines.encode())
            sentences.flush()
            os.fsync(sentences.fileno())
        self._shards += 1
        self._pending.clear()


class AttentionArchive:
    """Reads an archive. Only the text is held in memory; weights are read from disk when a sentence is asked for.

    Iteration gives every `Record` in the order in which they were written, `archive[id]` gives one.

    Args:
        path: the folder that `ArchiveWriter` filled.

    Attributes:
        manifest: the whole `manifest.json`; `sites` maps each site to `[layers, heads]`.
        ids: the ids of the sentences, in order.

    Raises:
        InputError: no finished, undamaged archive of a known format is there; also raised when a sentence is read.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.manifest = self._read_manifest()
        self._sentences = self._read_sentences()
        self.ids = list(self._sentences)
        self._shard: tuple[str, Any] | None = None  # the one npz kept open: reading in order opens each shard once

    def __len__(self) -> int:
        return len(self._sentences)

    def __iter__(self) -> Iterator[Record]:
        return (self[id_] for id_ in self._sentences)

    @overload
    def __getitem__(self, id_: int) -> Record: ...
    @overload
    def __getitem__(self, id_: slice) -> list[Record]: ...
    def __getitem__(self, id_: int | slice) -> Record | list[Record]:
        """One sentence with the attention of every site, KeyError for an unknown id; or a slice of the sentences in
        the order in which they were written."""
        if isinstance(id_, slice):
            return [self[one] for one in self.ids[id_]]
        return self.read(id_, list(self.manifest["sites"]))

    def to_frame(self) -> pd.DataFrame:
        """The text of all sentences: a row for each, by id, with numbers of tokens and the sum of log-probabilities."""
        rows = [
            {
                **{name: line[name] for name in ("id", "source", "reference", "hypothesis", "mode", "truncated")},
                "source_tokens": len(line["source_tokens"]),
                "target_tokens": len(line["target_output_tokens"]),
                "log_probability": sum(line["token_log_probabilities"]),
            }
            for line in self._sentences.values()
        ]
        return pd.DataFrame(rows, columns=_COLUMNS).set_index("id")

    def _repr_html_(self) -> str:
        """What a notebook shows: how much there is, and the first sentences. Text is escaped."""
        sites = ", ".join(f"{site}: {layers} x {heads}" for site, (layers, heads) in self.manifest["sites"].items())
        table = self.to_frame().head(10)[["source", "hypothesis", "log_probability"]].to_html(notebook=True)
        return f"<p>{len(self)} sentences; layers x heads of {html.escape(sites)}</p>{table}"

    def sentence(self, id_: int) -> dict[str, Any]:
        """One sentence's line of `sentences.jsonl`, without reading any array; KeyError for an unknown id."""
        return self._sentences[id_]

    def read(self, id_: int, sites: Sequence[str]) -> Record:
        """One sentence with the attention of some sites, `cross` among them; other arrays are not touched."""
        line = self._sentences[id_]
        place = self._path / line["shard"]
        try:
            attention = {site: self._open_shard(line["shard"])[_key(site, id_)] for site in sites}
            record = Record(**{name: line[name] for name in _METADATA}, attention=attention)
            record.validate()
        except DAMAGE as error:
            raise self._damaged(place, f"cannot read sentence {id_} ({error})") from error
        return record

    def close(self) -> None:
        """Closes the shard that is open; reading opens it again."""
        if self._shard is not None:
            self._shard[1].close()
        self._shard = None

    def _open_shard(self, name: str) -> Any:
        if self._shard is None or self._shard[0] != name:
            self.close()
            if not zipfile.is_zipfile(self._path / name):  # NumPy would leave the file open
                raise zipfile.BadZipFile("missing, or not a whole npz file")
            self._shard = name, np.load(self._path / name, allow_pickle=False)
        return self._shard[1]

    def _read_manifest(self) -> dict[str, Any]:
        path = self._path / _MANIFEST
        if not path.is_file():
            found = "an unfinished attention archive" if (self._path / _SENTENCES).exists() else "no attention archive"
            raise InputError(f"{self._path}: {found} (no {_MANIFEST}); run evaluate.py to write one")
        try:
            manifest = json.loads(path.read_bytes())
            version = manifest["format_version"]
            complete = manifest["complete"] and manifest.keys() >= {"sentences", "sites"}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(path, f"not an archive's manifest ({error!r})") from error
        if version != FORMAT_VERSION:
            raise InputError(f"{path}: format_version is {version!r}, this version of qkv reads {FORMAT_VERSION}")
        if not complete:
            raise self._damaged(path, "does not describe a complete archive")
        return manifest

    def _read_sentences(self) -> dict[int, dict[str, Any]]:
        path = self._path / _SENTENCES
        sentences: dict[int, dict[str, Any]] = {}
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for number, text in enumerate(lines, start=1):
                    line = _parse(text)
                    if line is None or line["id"] in sentences:
                        raise self._damaged(f"{path}:{number}", "not a new sentence's line with all its fields")
                    sentences[line["id"]] = line
        except (OSError, UnicodeDecodeError) as error:
            raise self._damaged(path, str(error)) from error
        if len(sentences) != self.manifest["sentences"]:
            expected = self.manifest["sentences"]
            raise self._damaged(path, f"{len(sentences)} sentences, {_MANIFEST} counts {expected}")
        return sentences

    def _damaged(self, place: str | Path, found: str) -> InputError:
        return InputError(f"{place}: damaged attention archive: {found}; delete {self._path} and run evaluate.py again")


def _sites_of(record: Record) -> dict[str, list[int]]:
    """Layers and heads of each site."""
    return {site: list(weights.shape[:2]) for site, weights in sorted(record.attention.items())}


def _json_line(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"


def _key(site: str, id_: int) -> str:
    return f"{site}/{id_:06d}"


def _parse(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    if not isinstance(line, dict) or not {"shard", *_METADATA} <= line.keys():
        return None
    return line if _SHARD.fullmatch(str(line["shard"])) else None  # no path out of the archive
