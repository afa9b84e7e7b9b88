"""The attention archive: one folder that holds every weight of an evaluated set, readable with NumPy and json alone.

    manifest.json      counts, sites, and the facts of the writer; written last, so a folder without it is unfinished
    sentences.jsonl    one line per sentence: the fields of a `Record` but its attention, and the name of its shard
    shard-00000.npz    uncompressed float32 `(layer, head, query, key)` under `SITE/ID`, the id in six digits
    gold.pharaoh       gold alignments, one line per sentence; only if there are any

docs/use/archive.md has every field. To read a sentence without this package:

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
import math
import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from functools import cached_property, partial
from itertools import groupby, takewhile
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from ..config.choices.inspection import SITES
from ..config.choices.text import WORD_UNITS
from ..errors import DAMAGE, InputError, invocation, quoted
from ..files.arrays import ArrayFile
from ..files.atomic import is_temporary, write_atomically
from ..files.json import parse_json, read_json_object
from ..files.paths import as_path, check_path
from ..files.run_directory import RunDirectory
from ..files.written import delete_if_empty
from ..text.corpora.word_links import GoldAlignment, read_pharaoh
from .record import Record
from .viewer.data import ViewerRun, Words
from .viewer.page import InlinePage, inline_page

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_LINE = 1 << 26
"""The largest number of characters in a line of `sentences.jsonl`."""


class AttentionArchive:
    """An attention archive, opened for reading.

    Iteration yields the `Record` of each sentence in the order in which they were written. `archive[id]` returns one
    record. The texts are in memory. The weights of a sentence are read from disk with its record.

    Args:
        path: the folder of an archive, which `evaluate.py` or `write_archive` has written, or the folder of an
            evaluation, which contains it.

    Attributes:
        manifest: the content of `manifest.json`; its `sites` maps each site to `[layers, heads]`.
        ids: the ids of the sentences, in the order in which they were written.
        lines: the parsed lines of `sentences.jsonl`, in the same order.
        gold_file: the path of the gold alignments; the file exists only if there are any.

    Raises:
        InputError: the folder has no archive, or it is unfinished, damaged, or of another format version. Reading a
            record raises it too if the weights are damaged.
    """

    def __init__(self, path: str | Path) -> None:
        path = as_path(path, "path", "the folder of an archive or of an evaluation")
        within = path / ATTENTION
        check_path(within / MANIFEST)
        self._path = within if (within / MANIFEST).is_file() else path
        self.gold_file = self._path / GOLD
        self.manifest = self._read_manifest()
        self._sentences = self._read_sentences()
        self.ids = list(self._sentences)
        self.lines = list(self._sentences.values())
        self._shard: tuple[str, ArrayFile] | None = (
            None  # the open shard, so that reading in order opens each shard once
        )

    def __reduce__(self) -> Any:
        return AttentionArchive, (self._path,)  # a pickle or a copy reads the same files

    def __len__(self) -> int:
        return len(self._sentences)

    def __iter__(self) -> Iterator[Record]:
        return (self[id_] for id_ in self._sentences)

    @overload
    def __getitem__(self, id_: int) -> Record: ...
    @overload
    def __getitem__(self, id_: slice) -> list[Record]: ...
    def __getitem__(self, id_: int | slice) -> Record | list[Record]:
        """Returns the record of a sentence by its id; for a slice, a list of records by their order in the archive.

        Raises:
            KeyError: there is no such id.
            InputError: the archive is damaged.
        """
        if isinstance(id_, slice):
            return [self[sentence_id] for sentence_id in self.ids[id_]]
        return self.read(id_, list(self.manifest["sites"]))

    def records(self, sites: Collection[str]) -> Iterator[Record]:
        """Yields the records of all sentences, in order, with the attention of some sites.

        Args:
            sites: the sites, with `cross` among them. Sites that the archive does not have are ignored.

        Raises:
            InputError: a name is not in `config.choices.inspection.SITES`, `cross` is missing, or the archive is
                damaged.
        """
        _check_sites(sites, SITES)
        stored_sites = [site for site in dict.fromkeys(sites) if site in self.manifest["sites"]]
        return (self.read(id_, stored_sites) for id_ in self.ids)

    def to_frame(self) -> "pd.DataFrame":
        """Returns a table with a row for each sentence, indexed by id: texts, mode, tokens and log-probability.

        `source_tokens` and `target_tokens` are numbers of tokens. `log_probability` is the sum over the target tokens,
        NaN if it is unknown.
        """
        import pandas as pd

        lines = pd.DataFrame(self.lines, columns=list(_FIELDS)).set_index("id")
        return lines[["source", "reference", "hypothesis", "mode", "truncated"]].assign(
            source_tokens=lines["source_tokens"].map(len),
            target_tokens=lines["target_output_tokens"].map(len),
            log_probability=lines["token_log_probabilities"].map(lambda values: sum(values or [math.nan])),
        )

    def __repr__(self) -> str:
        """Returns one line: the folder, the number of sentences, layers x heads of each site, and the size on disk."""
        size = sum(file.stat().st_size for file in self._path.glob("*") if file.is_file())
        return f"<AttentionArchive {self._path}: {len(self)} sentences; {self._describe_sites()}; {size / 1e6:.1f} MB>"

    def _describe_sites(self) -> str:
        """Returns the numbers of layers and heads of each site."""
        return ", ".join(f"{site} {layers} x {heads}" for site, (layers, heads) in self.manifest["sites"].items())

    def _repr_html_(self) -> str:
        """Returns the HTML for a notebook: the numbers of sentences, layers and heads, and the first 10 sentences."""
        table = self.to_frame().head(10)[["source", "hypothesis", "log_probability"]].to_html(notebook=True)
        return f"<p>{len(self)} sentences; layers x heads of {html.escape(self._describe_sites())}</p>{table}"

    def show(self, id_: int, height: int = 900) -> InlinePage:
        """Returns the viewer's page of one sentence, which a notebook shows below the cell.

        Args:
            id_: the id of the sentence.
            height: the height of the page in pixels.

        Raises:
            KeyError: there is no such id.
            InputError: the archive is damaged.
        """
        name = self.manifest.get("run", self._path.name)
        return inline_page(name, ViewerRun(name).add_all([self[id_]]), height)

    def read(self, id_: int, sites: Sequence[str]) -> Record:
        """Returns the record of a sentence with the attention of some sites. The arrays of other sites are not read.

        Args:
            id_: the id of the sentence.
            sites: the sites, with `cross` among them.

        Raises:
            KeyError: there is no such id.
            InputError: the archive has no such site, `cross` is missing, or the archive is damaged.
        """
        line = self._sentences[id_]
        id_ = line["id"]  # the argument may be an equal number of another type, such as 1.0
        _check_sites(sites, self.manifest["sites"])
        lengths = len(line["source_tokens"]), len(line["target_output_tokens"])
        attention, sinks = {}, {}
        try:
            shard = self._open_shard(line["shard"])
            for site in sites:
                key, shape = _array_key(site, id_), (*self.manifest["sites"][site], *SITES[site].pick(*lengths))
                attention[site] = shard.read(key, "f", shape)
                if site in self.manifest.get("sinks", ()):
                    sinks[site] = shard.read(_array_key(f"{site}-sink", id_), "f", shape[:3])
                _check_weights(key, attention[site], sinks.get(site), site in self.manifest.get("signed", ()))
            values = {name: line[name] for name in (*METADATA, *OPTIONAL) if name in line}
            record = Record(**values, attention=attention, sinks=sinks)
            record.validate()
        except DAMAGE as error:
            raise self._damaged(self._path / line["shard"], f"cannot read sentence {id_} ({error})") from error
        return record

    @cached_property
    def gold(self) -> list[GoldAlignment] | None:
        """The gold alignment of each sentence, in order; None if the archive has no gold alignments.

        Raises:
            InputError: the file cannot be read, or its number of lines differs from the number of sentences.
        """
        if not self.gold_file.exists():
            return None
        gold = read_pharaoh(self.gold_file)
        if len(gold) != len(self):
            raise InputError(f"{self.gold_file}: expected {len(self)} lines, one per sentence, found {len(gold)}")
        return gold

    def close(self) -> None:
        """Closes the open shard. Reading a record opens it again."""
        if self._shard is not None:
            self._shard[1].close()
        self._shard = None

    def _open_shard(self, name: str) -> ArrayFile:
        """Returns the shard of this name, opened; closes the shard that was open before."""
        if self._shard is None or self._shard[0] != name:
            self.close()
            self._shard = name, ArrayFile(self._path / name)
        return self._shard[1]

    def _read_manifest(self) -> dict[str, Any]:
        """Reads and checks `manifest.json`; raises an `InputError` if there is no finished archive of this version."""
        path = self._path / MANIFEST
        if not path.is_file():
            raise InputError(_describe_missing(self._path))
        try:
            manifest = read_json_object(path)
        except (OSError, ValueError) as error:
            raise self._damaged(path, f"the manifest cannot be read ({error})") from error
        version = manifest.get("format_version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise InputError(f"{path}: format_version is {version!r}, but this version of qkv reads {FORMAT_VERSION}")
        if not _describes_archive(manifest):
            raise self._damaged(path, "the manifest does not describe a complete archive")
        return manifest

    def _read_sentences(self) -> dict[int, dict[str, Any]]:
        """Reads and checks `sentences.jsonl`. Returns id -> parsed line, in the order of the file.

        Raises:
            InputError: the file is missing or damaged, or its number of lines is not the number in the manifest.
        """
        path = self._path / SENTENCES
        sentences: dict[int, dict[str, Any]] = {}
        if not path.is_file():  # opening a named pipe would block
            raise self._damaged(path, "the file is missing")
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for number, text in enumerate(iter(partial(lines.readline, _LONGEST_LINE), ""), start=1):
                    line = parse_line(text)
                    if line is None or line["id"] in sentences:
                        raise self._damaged(f"{path}:{number}", "expected the line of a new sentence with valid fields")
                    sentences[line["id"]] = line
        except (OSError, UnicodeDecodeError) as error:
            raise self._damaged(path, str(error)) from error
        if len(sentences) != (expected := self.manifest["sentences"]):
            raise self._damaged(path, f"expected {expected} sentences, as in {MANIFEST}, found {len(sentences)}")
        return sentences

    def _damaged(self, location: str | Path, damage: str) -> InputError:
        """Returns an error for a damaged archive; `location` is the damaged file, or `FILE:LINE`."""
        return InputError(f"{location}: damaged attention archive: {damage}; delete {self._path} and write it again")


def _check_sites(sites: Collection[str], known: Collection[str]) -> None:
    """Raises an `InputError` unless `sites` is a collection of known sites that contains `cross`."""
    if "cross" not in known:
        raise InputError(f"sites: expected the site 'cross' in the archive, found {quoted(list(known))}")
    if isinstance(sites, str) or "cross" not in sites or not all(site in list(known) for site in sites):
        raise InputError(f"sites: expected a list of {', '.join(known)} with cross among them, found {quoted(sites)}")


FORMAT_VERSION = 1
"""The version of the format that is written and read."""

ATTENTION = "attention"
"""The folder of the archive in the folder of an evaluation."""

# The files of an archive.
MANIFEST = "manifest.json"
SENTENCES = "sentences.jsonl"
GOLD = "gold.pharaoh"
SHARD = re.compile(r"shard-[0-9]{5,}\.npz")

OPTIONAL: dict[str, Any] = {"source_unit": "spaces", "target_unit": "spaces", "prefix_tokens": 0, "required": []}
"""Optional fields of a line with their defaults. A field is written only if it differs from the default."""

METADATA = tuple(field.name for field in fields(Record) if field.name not in ("attention", "sinks", *OPTIONAL))
"""The fields of a record that every line has."""


def _describe_missing(path: Path) -> str:
    """Returns the message that a folder has no finished archive."""
    if members := sorted(path.parent.glob(f"members/*/attention/{MANIFEST}")):
        folders = " ".join(str(member.parents[1]) for member in members)
        return f"{path.parent}: an ensemble, whose models have separate archives; use instead {folders}"
    state = "an unfinished attention archive" if (path / SENTENCES).exists() else "no attention archive"
    return f"{path}: {state} (no {MANIFEST}); write one: {invocation('evaluate', 'RUN')}, or write_archive in Python"


def _json_line(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"


def _array_key(site: str, id_: int) -> str:
    """Returns the name of an array in a shard."""
    return f"{site}/{id_:06d}"


def _is_natural(value: Any) -> bool:
    """Returns whether a value is an integer from 0 to 2^63 - 1, and not a bool."""
    return type(value) is int and 0 <= value < 1 << 63


def _list_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Returns a check that a value is a list of valid elements."""
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


def _is_a(*types: type) -> Callable[[Any], bool]:
    """Returns a check that a value has one of these types."""
    return lambda value: isinstance(value, types)


_IS_VALID: dict[Any, Callable[[Any], bool]] = {
    bool: _is_a(bool),
    int: _is_natural,
    str: _is_a(str),
    str | None: _is_a(str, NoneType),
    list[str]: _list_of(_is_a(str)),
    list[int | None]: _list_of(lambda word: word is None or _is_natural(word)),
    list[float]: _list_of(lambda value: type(value) in (int, float) and -1e30 < value < 0.01),
}
"""The type of a field of a record -> a check of a value in a line. It does not use pydantic, because archives are read
and written with NumPy alone."""

# The name of a field of a line -> a check of its value.
_FIELDS = {
    "shard": lambda value: SHARD.fullmatch(value) is not None,  # so it cannot be a path outside the archive
    **{field.name: _IS_VALID[field.type] for field in fields(Record) if field.name in (*METADATA, *OPTIONAL)},
    **dict.fromkeys(("source_unit", "target_unit"), lambda value: value in WORD_UNITS),
}


def parse_line(text: str) -> dict[str, Any] | None:
    """Parses a line of `sentences.jsonl`.

    Returns:
        The fields of the line; None if the line is damaged, or its shard is not the name of a shard.
    """
    try:
        line = parse_json(text)
        values = OPTIONAL | line
        if not all(is_valid(values[name]) for name, is_valid in _FIELDS.items()):
            return None
    except (ValueError, KeyError, TypeError):  # it is not JSON, lacks a field, or is not an object
        return None
    # A word has at least one character or one token, which limits the index of the last word.
    for text, words in ((line["source"], line["source_words"]), (line["hypothesis"], line["target_words"])):
        if max((word for word in words if word is not None), default=-1) >= max(len(text), len(words)):
            return None
    return line


def _describes_archive(manifest: dict[str, Any]) -> bool:
    """Returns whether a manifest has valid values for a complete archive."""
    sites = manifest.get("sites")
    if not isinstance(sites, dict) or not all(isinstance(manifest.get(key, []), list) for key in ("signed", "sinks")):
        return False
    are_sizes = (_list_of(_is_natural)(sizes) and len(sizes) == 2 for sizes in sites.values())
    is_complete = manifest.get("complete") is True and _is_natural(manifest.get("sentences"))
    return is_complete and sites.keys() <= SITES.keys() and all(are_sizes)


def _check_weights(key: str, weights: np.ndarray, sinks: np.ndarray | None, signed: bool) -> None:
    """Checks the weights of one array.

    Args:
        key: the name of the array in its shard.
        weights: `(layer, head, query, key)`.
        sinks: the weights on the sink, `(layer, head, query)`; None if there is no sink.
        signed: True if weights may be negative and sum to any number.

    Raises:
        ValueError: a weight or sink is not finite. If `signed` is False, also: a weight or sink is negative, or a row
            with its sink sums to 1.01 or more.
    """
    shares = weights if sinks is None else np.concatenate([weights, sinks[..., None]], axis=-1)
    if not np.isfinite(shares).all():
        raise ValueError(f"{key} has weights that are not finite")
    # The sum of a row may be less than 1: a decoder-only model divides its weight between source and target.
    if not signed and not ((shares >= 0).all() and (shares.sum(axis=-1, dtype=np.float64) < 1.01).all()):
        raise ValueError(f"{key} has weights that are not shares of a row")


class ArchiveWriter:
    """Writes an archive shard by shard. If the process ends early, the folder is recognised as unfinished.

    A shard is moved into place before the lines of its sentences are appended. The manifest is written at the end, by
    `close`. It is a context manager, which closes the archive; if an exception leaves the block, it writes no manifest.

    Args:
        path: the folder; it is created if it is missing.
        manifest: facts to store in the manifest, JSON-ready, such as versions and the digest of the model.
        sentences_per_shard: the number of sentences that are held in memory and written together.
        go_on: if True, an existing archive is continued after its last complete shard. If False, the files of an
            unfinished archive are deleted.

    Raises:
        InputError: the folder has a finished archive and `go_on` is False, it has shards or gold alignments but no
            `sentences.jsonl`, or `manifest` has a key that the archive sets.

    Attributes:
        ids: the ids of the sentences that have been written or appended.
    """

    def __init__(
        self, path: str | Path, *, manifest: dict[str, Any], sentences_per_shard: int = 256, go_on: bool = False
    ) -> None:
        self._path = Path(path)
        self._manifest = dict(manifest)
        self.sentences_per_shard = sentences_per_shard
        self._pending: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []
        self._sites: dict[str, list[int]] | None = None
        self._sinks: list[str] = []
        self.ids: set[int] = set()
        self._shards = 0
        self._open = True
        if reserved := sorted(self._manifest.keys() & self._facts().keys()):
            raise InputError(f"manifest: expected no keys that the archive sets itself, found {', '.join(reserved)}")
        if go_on:
            (self._path / MANIFEST).unlink(missing_ok=True)
        if (self._path / MANIFEST).exists():
            raise InputError(f"{self._path}: the folder has an attention archive; move it or choose another folder")
        self._path.mkdir(parents=True, exist_ok=True)
        shards = {path for path in self._path.glob("shard-*.npz") if SHARD.fullmatch(path.name)}
        if not (self._path / SENTENCES).exists() and (other_files := [*sorted(shards), *self._path.glob(GOLD)]):
            raise InputError(
                f"{other_files[0]}: the file does not belong to an attention archive; move it or choose another folder"
            )
        (self._path / GOLD).unlink(missing_ok=True)  # the unfinished archive may have had other sentences
        lines = self._read_complete_shards() if go_on else []
        try:
            if lines:
                self._sites, self._sinks = self._stored_sites(lines[0])
        except DAMAGE:  # all sentences must be appended again
            lines = []
        # Lines are deleted before their shards, so that no line names a missing shard.
        write_atomically(self._path / SENTENCES, "".join(map(_json_line, lines)).encode())
        for leftover in shards - {self._path / line["shard"] for line in lines}:
            leftover.unlink()
        self.ids = {line["id"] for line in lines}
        self._shards = len(lines) // sentences_per_shard

    def _stored_sites(self, line: dict[str, Any]) -> tuple[dict[str, list[int]], list[str]]:
        """Returns site -> [layers, heads] of the stored sentence of a parsed line, and its sites that have sinks."""
        with np.load(self._path / line["shard"], allow_pickle=False) as shard:
            keys = {site: _array_key(site, line["id"]) for site in SITES}
            shapes = {site: shard[key].shape for site, key in keys.items() if key in shard.files}
            sinks = [site for site in shapes if _array_key(f"{site}-sink", line["id"]) in shard.files]
        return {site: list(shape[:2]) for site, shape in sorted(shapes.items())}, sorted(sinks)

    def _read_complete_shards(self) -> list[dict[str, Any]]:
        """Returns the parsed lines of the complete shards, up to the first shard that is missing or incomplete."""
        try:
            text = (self._path / SENTENCES).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        # Not `str.splitlines`: sentences may hold other line ends, such as U+2028. The text after the last line end is
        # empty or an incomplete line.
        texts = text.split("\n")[:-1]
        parsed = takewhile(lambda line: line is not None, map(parse_line, texts))
        valid = (line for line in parsed if line)
        complete: list[dict[str, Any]] = []
        for number, (name, group) in enumerate(groupby(valid, key=lambda line: line["shard"])):
            lines = list(group)
            is_present = name == f"shard-{number:05d}.npz" and zipfile.is_zipfile(self._path / name)
            if not is_present or len(lines) != self.sentences_per_shard:
                break
            complete += lines
        return complete

    def append(self, record: Record) -> None:
        """Appends a sentence. Its weights are copied, so views into a batch do not keep the batch in memory.

        Raises:
            InputError: the record is not valid (see `Record.validate`), or its sites, layers or heads differ from those
                of the first sentence.
            ValueError: its id was appended before, or the archive is closed.
        """
        if not self._open:
            raise ValueError("the archive is closed")
        record.validate()
        if record.id in self.ids:
            raise ValueError(f"sentence {record.id}: a sentence with this id was appended before")
        sites = {site: list(weights.shape[:2]) for site, weights in sorted(record.attention.items())}
        if self._sites not in (None, sites):
            raise InputError(f"sentence {record.id}: expected sites with [layers, heads] {self._sites}, found {sites}")
        self._sites = sites
        self._sinks = sorted(record.sinks)
        self.ids.add(record.id)
        line = {"id": record.id, "shard": self._shard_name()} | {name: getattr(record, name) for name in METADATA}
        line |= {name: value for name, default in OPTIONAL.items() if (value := getattr(record, name)) != default}
        arrays = {_array_key(site, record.id): weights for site, weights in record.attention.items()}
        arrays |= {_array_key(f"{site}-sink", record.id): shares for site, shares in record.sinks.items()}
        self._pending.append((line, {name: np.array(array, np.float32, order="C") for name, array in arrays.items()}))
        if len(self._pending) == self.sentences_per_shard:
            self._write_shard()

    def close(self) -> None:
        """Writes the last shard, then the manifest. A second call does nothing."""
        if not self._open:
            return
        if self._pending:
            self._write_shard()
        text = json.dumps(self._manifest | self._facts(), ensure_ascii=False, indent=2)
        write_atomically(self._path / MANIFEST, (text + "\n").encode())
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is None:
            self.close()
        self._open = False

    def _facts(self) -> dict[str, Any]:
        """Returns the entries of the manifest that this class writes."""
        return {
            "format_version": FORMAT_VERSION,
            "sentences": len(self.ids),
            "shards": self._shards,
            "sites": self._sites or {},  # site -> [layers, heads]
            **({"sinks": self._sinks} if self._sinks else {}),
            "complete": True,
        }

    def _shard_name(self) -> str:
        return f"shard-{self._shards:05d}.npz"

    def _write_shard(self) -> None:
        """Writes the pending sentences: their arrays as a shard, then their lines."""
        shard = io.BytesIO()
        # savez takes the arrays as keywords. Their names have slashes, so they differ from its other parameters.
        np.savez(shard, **{key: array for _, arrays in self._pending for key, array in arrays.items()})  # type: ignore[arg-type]
        lines = "".join(_json_line(line) for line, _ in self._pending)
        write_atomically(self._path / self._shard_name(), shard.getvalue())
        with (self._path / SENTENCES).open("ab") as sentences:
            sentences.write(lines.encode())
            sentences.flush()
            os.fsync(sentences.fileno())
        self._shards += 1
        self._pending.clear()


def delete_archive(folder: Path) -> None:
    """Deletes the files of an archive, and then its folder if that is empty. Other files in the folder stay.

    Nothing happens if the path is a link or not a folder.
    """
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(
        folder.iterdir(), key=lambda path: path.name != MANIFEST
    ):  # first the manifest: without it, an archive is unfinished
        if is_archive_file(path.name) or is_temporary(path.name):
            path.unlink(missing_ok=True)
    delete_if_empty(folder)


def is_archive_file(name: str) -> bool:
    """Returns whether a file of this name belongs to an archive."""
    return name in (MANIFEST, SENTENCES, GOLD) or SHARD.fullmatch(name) is not None


MOST_STAGES = 40
"""The largest number of stages of a training on a page. The page shows at most 8 of them side by side."""


def stages_of_training(root: Path, facts: Sequence[Words] = ()) -> list[ViewerRun]:
    """Returns the stages of a training for the viewer: the attention on the probes after different numbers of updates.

    If there are more than `MOST_STAGES` archives of probes, evenly spaced ones are chosen, with the first and the last.

    Args:
        root: the run's folder.
        facts: facts about the run for the page's header.

    Returns:
        A `ViewerRun` for each stage, the earliest first.

    Raises:
        InputError: the run has no archives of its probes, or an archive is damaged.
    """
    archives = probe_archives(RunDirectory.open(root).probes)
    if not archives:
        raise InputError(
            f"{root}: no attention over training: no probe has a reference, or the first validation is to come"
        )
    count = min(MOST_STAGES, len(archives))
    chosen_archives = [archives[round(i * (len(archives) - 1) / max(1, count - 1))] for i in range(count)]
    return [
        ViewerRun(("viewer.stage", {"update": update}), facts=facts).add_all(AttentionArchive(path))
        for path, update in chosen_archives
    ]


def probe_archives(folder: Path) -> list[tuple[Path, int]]:
    """Returns the archives of probes in a folder, as pairs of path and number of updates, the earliest first."""
    matches = ((path, re.fullmatch(r"update-([0-9]+)", path.name)) for path in sorted(folder.glob("update-*")))
    return [(path, int(match[1])) for path, match in matches if match]
