"""The attention archive: one folder that holds every weight of an evaluated set, readable with NumPy and json alone.

    manifest.json      counts, sites, whatever the writer was told; written last, so a folder without it is unfinished
    sentences.jsonl    one line per sentence: everything in a `Record` but its attention, and the `shard` that holds it
    shard-00000.npz    uncompressed float32 `(layer, head, query, key)` under `SITE/ID`, the id in six digits
    gold.pharaoh       where there are any: gold alignments, one line per sentence

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
from ..errors import DAMAGE, InputError, quoted
from ..files.arrays import ArrayFile
from ..files.atomic import is_temporary, write_atomically
from ..files.json import parse_json, read_json_object
from ..files.paths import as_path, check_path
from ..files.run_directory import RunDirectory
from ..files.written import delete_if_empty
from ..text.corpora.word_links import GoldAlignment, read_pharaoh
from .record import Record
from .viewer.data import ViewerRun
from .viewer.page import InlinePage, show_record

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_LINE = 1 << 26  # characters


class AttentionArchive:
    """Reads an archive. Only the text is held in memory; weights are read from disk when a sentence is asked for.

    Iteration yields every `Record` in the order in which they were written; `archive[id]` returns one.

    Args:
        path: the folder that `evaluate.py` or `write_archive` filled, or the folder of an evaluation, which holds it.

    Attributes:
        manifest: the whole `manifest.json`; `sites` maps each site to `[layers, heads]`.
        ids: the ids of the sentences, in order.
        lines: the sentences' lines of `sentences.jsonl`, in order.
        gold_file: the file of `gold`, where there is one.

    Raises:
        InputError: no finished, undamaged archive of a known format is there; also raised when a sentence is read.
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
        self._shard: tuple[str, ArrayFile] | None = None  # the one kept open: reading in order opens each once

    def __reduce__(self) -> Any:
        return AttentionArchive, (self._path,)  # a pickle and a copy read the same files

    def __len__(self) -> int:
        return len(self._sentences)

    def __iter__(self) -> Iterator[Record]:
        return (self[id_] for id_ in self._sentences)

    @overload
    def __getitem__(self, id_: int) -> Record: ...
    @overload
    def __getitem__(self, id_: slice) -> list[Record]: ...
    def __getitem__(self, id_: int | slice) -> Record | list[Record]:
        """Reads one sentence by its id, with the attention of every site; or a slice of the sentences in the order in
        which they were written. An unknown id raises KeyError."""
        if isinstance(id_, slice):
            return [self[one] for one in self.ids[id_]]
        return self.read(id_, list(self.manifest["sites"]))

    def records(self, sites: Collection[str]) -> Iterator[Record]:
        """Reads all sentences with the attention of some sites, `cross` among them, as far as the archive has it.

        Raises:
            InputError: a name is not that of a site, or `cross` is missing.
        """
        _check_sites(sites, SITES)
        held = [site for site in dict.fromkeys(sites) if site in self.manifest["sites"]]
        return (self.read(id_, held) for id_ in self.ids)

    def to_frame(self) -> "pd.DataFrame":
        """Returns the text of all sentences, a row for each, with numbers of tokens and summed log-probabilities."""
        import pandas as pd

        lines = pd.DataFrame(self.lines, columns=list(_FIELDS)).set_index("id")
        return lines[["source", "reference", "hypothesis", "mode", "truncated"]].assign(
            source_tokens=lines["source_tokens"].map(len),
            target_tokens=lines["target_output_tokens"].map(len),
            log_probability=lines["token_log_probabilities"].map(lambda values: sum(values or [math.nan])),
        )

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows: the numbers of sentences, layers and heads, the first sentences."""
        sites = self.manifest["sites"].items()
        sizes = ", ".join(f"{site}: {layers} x {heads}" for site, (layers, heads) in sites)
        table = self.to_frame().head(10)[["source", "hypothesis", "log_probability"]].to_html(notebook=True)
        return f"<p>{len(self)} sentences; layers x heads of {html.escape(sizes)}</p>{table}"

    def show(self, id_: int, height: int = 900) -> InlinePage:
        """Returns the viewer's page of one sentence, which a notebook shows in the cell. An unknown id raises KeyError.

        Args:
            id_: of the sentence.
            height: in pixels.
        """
        return show_record(self[id_], self.manifest.get("run", self._path.name), height)

    def read(self, id_: int, sites: Sequence[str]) -> Record:
        """Reads one sentence with the attention of some sites, `cross` among them; other arrays are not read.

        Raises:
            KeyError: there is no such id.
            InputError: the archive has no such site, `cross` is missing, or the archive is damaged.
        """
        line = self._sentences[id_]
        id_ = line["id"]  # an equal number, such as 1.0, may have been given
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
            known = {name: line[name] for name in (*METADATA, *OPTIONAL) if name in line}
            record = Record(**known, attention=attention, sinks=sinks)
            record.validate()
        except DAMAGE as error:
            raise self._damaged(self._path / line["shard"], f"cannot read sentence {id_} ({error})") from error
        return record

    @cached_property
    def gold(self) -> list[GoldAlignment] | None:
        """The gold alignment of each sentence, in order; None where the archive has none."""
        if not self.gold_file.exists():
            return None
        gold = read_pharaoh(self.gold_file)
        if len(gold) != len(self):
            raise InputError(f"{self.gold_file}: {len(gold)} lines of alignments for {len(self)} sentences; mend it")
        return gold

    def close(self) -> None:
        """Closes the open shard; reading opens it again."""
        if self._shard is not None:
            self._shard[1].close()
        self._shard = None

    def _open_shard(self, name: str) -> ArrayFile:
        if self._shard is None or self._shard[0] != name:
            self.close()
            self._shard = name, ArrayFile(self._path / name)
        return self._shard[1]

    def _read_manifest(self) -> dict[str, Any]:
        path = self._path / MANIFEST
        if not path.is_file():
            raise InputError(_describe_missing(self._path))
        try:
            manifest = read_json_object(path)
        except (OSError, ValueError) as error:
            raise self._damaged(path, f"not an archive's manifest ({error})") from error
        version = manifest.get("format_version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise InputError(f"{path}: format_version is {version!r}, this version of qkv reads {FORMAT_VERSION}")
        if not _describes_archive(manifest):
            raise self._damaged(path, "does not describe a complete archive")
        return manifest

    def _read_sentences(self) -> dict[int, dict[str, Any]]:
        path = self._path / SENTENCES
        sentences: dict[int, dict[str, Any]] = {}
        if not path.is_file():  # opening a FIFO would wait for a writer
            raise self._damaged(path, "missing, or not a whole file")
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for number, text in enumerate(iter(partial(lines.readline, _LONGEST_LINE), ""), start=1):
                    line = parse_line(text)
                    if line is None or line["id"] in sentences:
                        raise self._damaged(f"{path}:{number}", "not a new sentence's line with all its fields")
                    sentences[line["id"]] = line
        except (OSError, UnicodeDecodeError) as error:
            raise self._damaged(path, str(error)) from error
        if len(sentences) != (expected := self.manifest["sentences"]):
            raise self._damaged(path, f"{len(sentences)} sentences, {MANIFEST} counts {expected}")
        return sentences

    def _damaged(self, place: str | Path, found: str) -> InputError:
        return InputError(f"{place}: damaged attention archive: {found}; delete {self._path} and write it anew")


def _check_sites(sites: Collection[str], known: Collection[str]) -> None:
    if "cross" not in known:
        raise InputError(f"sites: expected the site 'cross' in the archive, found {quoted(list(known))}")
    if isinstance(sites, str) or "cross" not in sites or not all(site in list(known) for site in sites):
        raise InputError(f"sites: expected a list of {', '.join(known)} with cross among them, found {quoted(sites)}")


FORMAT_VERSION = 1
ATTENTION = "attention"
"""The folder of the archive in the folder of an evaluation."""
MANIFEST = "manifest.json"
SENTENCES = "sentences.jsonl"
GOLD = "gold.pharaoh"
"""Where the sentences have gold alignments, a line for each."""

SHARD = re.compile(r"shard-[0-9]{5,}\.npz")
OPTIONAL: dict[str, Any] = {"source_unit": "spaces", "target_unit": "spaces", "prefix_tokens": 0, "required": []}
"""What is written only where it is not this."""

METADATA = tuple(field.name for field in fields(Record) if field.name not in ("attention", "sinks", *OPTIONAL))


def _describe_missing(path: Path) -> str:
    if members := sorted(path.parent.glob(f"members/*/attention/{MANIFEST}")):
        folders = " ".join(str(member.parents[1]) for member in members)
        return f"{path.parent}: an ensemble, of which each model has an archive of its own; give instead {folders}"
    found = "an unfinished attention archive" if (path / SENTENCES).exists() else "no attention archive"
    return f"{path}: {found} (no {MANIFEST}); evaluate.py and write_archive write one"


def _json_line(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"


def _array_key(site: str, id_: int) -> str:
    return f"{site}/{id_:06d}"


def _is_natural(value: Any) -> bool:  # truth values are none
    return type(value) is int and 0 <= value < 1 << 63


def _list_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


def _is_a(*types: type) -> Callable[[Any], bool]:
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
"""The values that a line may have for a field of a record, by the field's type. pydantic would say this in fewer words,
but archives are read and written with NumPy alone."""

_FIELDS = {
    "shard": lambda value: SHARD.fullmatch(value) is not None,  # no path out of the archive
    **{field.name: _IS_VALID[field.type] for field in fields(Record) if field.name in (*METADATA, *OPTIONAL)},
    **dict.fromkeys(("source_unit", "target_unit"), lambda value: value in WORD_UNITS),
}


def parse_line(text: str) -> dict[str, Any] | None:
    """Parses a line of `sentences.jsonl`; None for one that is damaged or names a file outside the archive."""
    try:
        line = parse_json(text)
        known = OPTIONAL | line
        if not all(is_valid(known[name]) for name, is_valid in _FIELDS.items()):
            return None
    except (ValueError, KeyError, TypeError):  # no JSON, a field is missing, or no object
        return None
    # A word is at least one character, or one token.
    for text, words in ((line["source"], line["source_words"]), (line["hypothesis"], line["target_words"])):
        if max((word for word in words if word is not None), default=-1) >= max(len(text), len(words)):
            return None
    return line


def _describes_archive(manifest: dict[str, Any]) -> bool:
    sites = manifest.get("sites")
    if not isinstance(sites, dict) or not all(isinstance(manifest.get(key, []), list) for key in ("signed", "sinks")):
        return False
    are_sizes = (_list_of(_is_natural)(sizes) and len(sizes) == 2 for sizes in sites.values())
    whole = manifest.get("complete") is True and _is_natural(manifest.get("sentences"))
    return whole and sites.keys() <= SITES.keys() and all(are_sizes)


def _check_weights(key: str, weights: np.ndarray, sinks: np.ndarray | None, signed: bool) -> None:
    shares = weights if sinks is None else np.concatenate([weights, sinks[..., None]], axis=-1)
    if not np.isfinite(shares).all():
        raise ValueError(f"{key} has weights that are not finite")
    # The sum of a row may be less than 1: a decoder-only model divides its weight between source and target.
    if not signed and not ((shares >= 0).all() and (shares.sum(axis=-1, dtype=np.float64) < 1.01).all()):
        raise ValueError(f"{key} has weights that are no shares of a row")


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

    Attributes:
        ids: the ids of the sentences so far.
    """

    def __init__(
        self, path: str | Path, *, manifest: dict[str, Any], sentences_per_shard: int = 256, go_on: bool = False
    ) -> None:
        self._path = Path(path)
        self._given = dict(manifest)
        self.sentences_per_shard = sentences_per_shard
        self._pending: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []
        self._sites: dict[str, list[int]] | None = None
        self._sinks: list[str] = []
        self.ids: set[int] = set()
        self._shards = 0
        self._open = True
        if taken := sorted(self._given.keys() & self._facts().keys()):
            raise InputError(f"manifest: expected no names that the archive fills in itself, found {', '.join(taken)}")
        if go_on:
            (self._path / MANIFEST).unlink(missing_ok=True)
        if (self._path / MANIFEST).exists():
            raise InputError(f"{self._path}: already holds an attention archive; move it away or choose another folder")
        self._path.mkdir(parents=True, exist_ok=True)
        shards = {path for path in self._path.glob("shard-*.npz") if SHARD.fullmatch(path.name)}
        if not (self._path / SENTENCES).exists() and (others := [*sorted(shards), *self._path.glob(GOLD)]):
            raise InputError(f"{others[0]}: not of an attention archive; move it away or choose another folder")
        (self._path / GOLD).unlink(missing_ok=True)  # of an unfinished archive of perhaps other sentences
        lines = self._whole_shards() if go_on else []
        try:
            if lines:
                self._sites, self._sinks = self._stored_sites(lines[0])
        except DAMAGE:  # then all is recorded again
            lines = []
        # Deleted before the shards, since no line may outlive its shard.
        write_atomically(self._path / SENTENCES, "".join(map(_json_line, lines)).encode())
        for leftover in shards - {self._path / line["shard"] for line in lines}:
            leftover.unlink()
        self.ids = {line["id"] for line in lines}
        self._shards = len(lines) // sentences_per_shard

    def _stored_sites(self, line: dict[str, Any]) -> tuple[dict[str, list[int]], list[str]]:
        with np.load(self._path / line["shard"], allow_pickle=False) as shard:
            keys = {site: _array_key(site, line["id"]) for site in SITES}
            shapes = {site: shard[key].shape for site, key in keys.items() if key in shard.files}
            sinks = [site for site in shapes if _array_key(f"{site}-sink", line["id"]) in shard.files]
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
                sites, layers or heads differ from the first sentence's, or the archive is closed.
        """
        if not self._open:
            raise ValueError("the archive is closed")
        record.validate()
        if record.id in self.ids:
            raise ValueError(f"sentence {record.id}: expected an id that was not appended before, found it twice")
        sites = {site: list(weights.shape[:2]) for site, weights in sorted(record.attention.items())}
        if self._sites not in (None, sites):
            raise InputError(f"sentence {record.id}: expected sites with [layers, heads] {self._sites}, found {sites}")
        self._sites = sites
        self._sinks = sorted(record.sinks)
        self.ids.add(record.id)
        line = {"id": record.id, "shard": self._shard_name()} | {name: getattr(record, name) for name in METADATA}
        line |= {name: value for name, usual in OPTIONAL.items() if (value := getattr(record, name)) != usual}
        arrays = {_array_key(site, record.id): weights for site, weights in record.attention.items()}
        arrays |= {_array_key(f"{site}-sink", record.id): shares for site, shares in record.sinks.items()}
        self._pending.append((line, {name: np.array(array, np.float32, order="C") for name, array in arrays.items()}))
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

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        if kind is None:
            self.close()
        self._open = False

    def _facts(self) -> dict[str, Any]:
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
        shard = io.BytesIO()
        # savez takes the arrays as keywords; its other parameters' names hold no slash and cannot be meant.
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
    """Deletes the files of an archive, and its folder if that is empty then: what others have put there stays."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(folder.iterdir(), key=lambda path: path.name != MANIFEST):  # without it, it is unfinished
        if is_archive_file(path.name) or is_temporary(path.name):
            path.unlink(missing_ok=True)
    delete_if_empty(folder)


def is_archive_file(name: str) -> bool:
    """Returns whether a file of an archive has this name."""
    return name in (MANIFEST, SENTENCES, GOLD) or SHARD.fullmatch(name) is not None


MOST_STAGES = 40  # of the slider; the page shows at most 8 of them side by side


def stages_of_training(root: Path, facts: Sequence[str] = ()) -> list[ViewerRun]:
    """Reads the probes of a run at up to `MOST_STAGES` updates, evenly spread, with the first and the last; `facts` of
    the run are for the page's header.

    Raises:
        InputError: no probe has a reference, or an archive is damaged.
    """
    archives = probe_archives(RunDirectory.open(root).probes)
    if not archives:
        raise InputError(f"{root}: no attention over training: no probe has a reference, or none was read yet")
    count = min(MOST_STAGES, len(archives))
    chosen = [archives[round(i * (len(archives) - 1) / max(1, count - 1))] for i in range(count)]
    return [ViewerRun(f"update {update:,}", facts=facts).add_all(AttentionArchive(path)) for path, update in chosen]


def probe_archives(folder: Path) -> list[tuple[Path, int]]:
    """Returns the archives in a folder with the updates after which they were written, earliest first."""
    matches = ((path, re.fullmatch(r"update-([0-9]+)", path.name)) for path in sorted(folder.glob("update-*")))
    return [(path, int(match[1])) for path, match in matches if match]
