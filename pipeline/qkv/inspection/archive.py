"""The attention archive: one folder that holds every weight of an evaluated set, readable with NumPy and json alone.

    manifest.json      counts, sites, whatever the writer was told; written last, so a folder without it is unfinished
    sentences.jsonl    one line per sentence: everything in a `Record` but its attention, and the `shard` that holds it
    shard-00000.npz    uncompressed float32 `(layer, head, query, key)` under `SITE/ID`, the id in six digits
    gold.pharaoh       where there are any: gold alignments, one line per sentence

ARCHIVE.md has every field. To read a sentence without this package:

    import json, numpy
    with open("attention/sentences.jsonl", encoding="utf-8") as lines:
        sentence = next(s for s in map(json.loads, lines) if s["id"] == 42)
    with numpy.load(f"attention/{sentence['shard']}") as shard:
        weights = shard[f"cross/{sentence['id']:06d}"]  # (layer, head, target token, source token)
    print(weights.shape, sentence["target_output_tokens"], sentence["source_tokens"])
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..errors import DAMAGE, InputError
from ..files.arrays import ArrayFile
from ..files.json import read_json_object
from ..text.corpora.word_links import GoldAlignment
from .archive_format import (
    FORMAT_VERSION,
    GOLD,
    MANIFEST,
    METADATA,
    OPTIONAL,
    SENTENCES,
    array_key,
    axes_of,
    check_sinks,
    check_weights,
    describe_missing,
    describes_sites,
    is_natural,
    parse_line,
    sink_key,
)
from .archive_frame import sentence_frame, summary_html
from .archive_gold import read_gold
from .record import Record
from .viewer.inline import InlinePage

if TYPE_CHECKING:
    import pandas as pd  # takes half a second; see `Record`

_LONGEST_LINE = 1 << 26  # characters


class AttentionArchive:
    """Reads an archive. Only the text is held in memory; weights are read from disk when a sentence is asked for.

    Iteration yields every `Record` in the order in which they were written; `archive[id]` returns one.

    Args:
        path: the folder that `evaluate.py` or `write_archive` filled.

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
        self._shard: tuple[str, ArrayFile] | None = None  # the one kept open: reading in order opens each once

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

    def records(self, sites: Sequence[str], count: int | None = None) -> Iterator[Record]:
        """Reads the first `count` sentences, or all, with the attention of some sites, `cross` among them."""
        return (self.read(id_, sites) for id_ in self.ids[:count])

    def to_frame(self) -> "pd.DataFrame":
        """Returns the text of all sentences, a row for each, with numbers of tokens and summed log-probabilities."""
        return sentence_frame(self._sentences.values())

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows: the number of sentences, layers and heads, and the first
        sentences."""
        return summary_html(self.to_frame(), self.manifest["sites"])

    def show(self, id_: int, height: int = 900) -> InlinePage:
        """Returns the viewer's page of one sentence, which a notebook shows in the cell. An unknown id raises KeyError.

        Args:
            id_: of the sentence.
            height: in pixels.
        """
        return InlinePage.of_record(self[id_], self.manifest.get("run", self._path.name), height)

    def sentence(self, id_: int) -> dict[str, Any]:
        """Returns a sentence's line of `sentences.jsonl` without reading arrays. An unknown id raises KeyError."""
        return self._sentences[id_]

    def read(self, id_: int, sites: Sequence[str]) -> Record:
        """Reads one sentence with the attention of some sites, `cross` among them; other arrays are not read."""
        line = self._sentences[id_]
        place = self._path / line["shard"]
        try:
            attention = {site: self._read_weights(line, site) for site in sites}
            with_sinks = [site for site in sites if site in self.manifest.get("sinks", ())]
            sinks = {site: self._read_sinks(line, attention[site], site) for site in with_sinks}
            known = {name: line[name] for name in (*METADATA, *OPTIONAL) if name in line}
            record = Record(**known, attention=attention, sinks=sinks)
            record.validate()
        except DAMAGE as error:
            raise self._damaged(place, f"cannot read sentence {id_} ({error})") from error
        return record

    @cached_property
    def gold(self) -> list[GoldAlignment] | None:
        """The gold alignment of each sentence, in order; None where the archive has none."""
        return read_gold(self._path, len(self))

    @property
    def gold_file(self) -> Path:
        """The file of `gold`, where there is one."""
        return self._path / GOLD

    def close(self) -> None:
        """Closes the open shard; reading opens it again."""
        if self._shard is not None:
            self._shard[1].close()
        self._shard = None

    def _read_weights(self, line: dict[str, Any], site: str) -> np.ndarray:
        name = line["shard"]
        if self._shard is None or self._shard[0] != name:
            self.close()
            self._shard = name, ArrayFile(self._path / name)
        key, shape = array_key(site, line["id"]), (*self.manifest["sites"][site], *axes_of(line, site))
        weights = self._shard[1].read(key, "f", shape)
        check_weights(key, weights, shares=site not in self.manifest.get("signed", ()))
        return weights

    def _read_sinks(self, line: dict[str, Any], weights: np.ndarray, site: str) -> np.ndarray:
        key = sink_key(site, line["id"])
        shares = self._shard[1].read(key, "f", weights.shape[:3])  # type: ignore[index] # the weights were read from it
        check_sinks(key, shares, weights)
        return shares

    def _read_manifest(self) -> dict[str, Any]:
        path = self._path / MANIFEST
        if not path.is_file():
            raise InputError(describe_missing(self._path))
        try:
            manifest = read_json_object(path)
            version = manifest["format_version"]
        except (OSError, ValueError, KeyError) as error:
            raise self._damaged(path, f"not an archive's manifest ({error!r})") from error
        complete = manifest.get("complete") is True and is_natural(manifest.get("sentences"))
        if version != FORMAT_VERSION:
            raise InputError(f"{path}: format_version is {version!r}, this version of qkv reads {FORMAT_VERSION}")
        if not complete or not describes_sites(manifest):
            raise self._damaged(path, "does not describe a complete archive")
        return manifest

    def _read_sentences(self) -> dict[int, dict[str, Any]]:
        path = self._path / SENTENCES
        sentences: dict[int, dict[str, Any]] = {}
        if not path.is_file():
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
        if len(sentences) != self.manifest["sentences"]:
            expected = self.manifest["sentences"]
            raise self._damaged(path, f"{len(sentences)} sentences, {MANIFEST} counts {expected}")
        return sentences

    def _damaged(self, place: str | Path, found: str) -> InputError:
        return InputError(f"{place}: damaged attention archive: {found}; delete {self._path} and write it anew")
