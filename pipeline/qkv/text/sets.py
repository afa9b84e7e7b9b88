"""The sets of a config that are held out from its training files. They are written into the run as files of their own,
so that they stay the same whatever becomes of the training files."""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from ..config import RunConfig
from ..config.corpus import CorpusSettings, ListedCorpusSettings, SetSettings
from ..config.data import DataSettings
from ..errors import InputError
from ..files.atomic import write_atomically
from ..files.paths import matching_files
from ..files.run_directory import RunDirectory
from .corpus import Corpus, read_corpus
from .held_out import Rows, hold_out
from .joined_sequence import JoinedSequence
from .lines import read_lines
from .pharaoh import GoldAlignment, Link, iterate_pharaoh, write_gold
from .sentence_pairs import JoinedCorpora
from .tagged_text import tagged_lines
from .token_links import check_links
from .words import WordCutter, WordUnits

FEW_PAIRS = 100

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs to train on.

    Args:
        corpora: the sections of the config that name the training files.
        files: all pairs of these files.
        rows: the pairs that are trained on, ascending; None: all.
    """

    corpora: Sequence[CorpusSettings]
    files: Corpus
    rows: Rows | None = None

    def read_corpus(self) -> Corpus:
        """Returns the pairs that are trained on."""
        return self.files if self.rows is None else self.files.select(self.rows)

    def check_links(self, cutter: WordCutter, units: WordUnits) -> None:
        """Checks the word links of all pairs, which count words in these units; see `check_links`."""
        count = partial(cutter.count, units=units)
        for part, corpus in zip(_parts(self.files, self.corpora), self.corpora, strict=True):
            assert corpus.alignments is not None  # the config has been checked
            links = _read_placed_links([corpus])
            check_links(part, links, count, corpus.alignments)

    def read_links(self) -> Iterator[Collection[Link]]:
        """Yields the word links of each pair that is trained on."""
        is_trained_on = np.ones(len(self.files), bool)
        if self.rows is not None:
            is_trained_on[:] = False
            is_trained_on[self.rows] = True
        return (one.possible for one in compress(_read_links(self.corpora), is_trained_on))


def hold_out_sets(config: RunConfig, run: RunDirectory) -> tuple[TrainingPairs, dict[str, Any]]:
    """Reads the training files, and writes the sets that are held out from them, if any, into the run.

    Returns:
        The pairs to train on; and for each set, and for the pairs that are `left_out` of all, the number of pairs and
        their lines in the training files.

    Raises:
        InputError: as `read_corpus` and `hold_out`, or there are more or fewer lines of alignments than pairs.
    """
    corpora, sets = config.data.training_corpora, config.data.held_out
    files = read_corpus(config.data.training_text)
    if not sets:
        return TrainingPairs(corpora, files), {}
    parts = hold_out(files, {name: section.held_out_pairs(len(files)) for name, section in sets.items()})
    data = with_held_out_files(config, run).data
    for name in sets:
        if config.data.listed_corpora:
            _write_set_of_list(files, parts[name], config.data, getattr(data, name))
        else:
            _write_set(files, parts[name], corpora[0].alignments, getattr(data, name))
        if len(parts[name]) < FEW_PAIRS:
            log.warning(
                "data.%s has %d pairs; scores of so few say little, some hundred are better", name, len(parts[name])
            )
    training = TrainingPairs(corpora, files, parts.pop("train"))
    everywhere = np.concatenate([training.rows, *parts.values()])
    parts["left_out"] = np.setdiff1d(np.arange(len(files)), everywhere, assume_unique=True)
    log.info(
        "held out from %s: %s; left out, since they share sentences with those: %d",
        files.name,
        ", ".join(f"{len(parts[name])} pairs for {name}" for name in sets),
        len(parts["left_out"]),
    )
    return training, {
        name: {"pairs": len(rows), "lines": [files.shown_line(row) for row in rows.tolist()]}
        for name, rows in parts.items()
    }


def with_held_out_files(config: RunConfig, run: RunDirectory) -> RunConfig:
    """Returns the config with the run's own files as the sets that are held out."""
    sets = config.data.held_out
    if not sets:
        return config
    data, first = config.data, config.data.training_corpora[0]
    turned = first.alignments_turned and not data.listed_corpora
    files = {
        name: SetSettings(
            source=run.held_out / f"{name}.source",
            target=run.held_out / f"{name}.target",
            alignments=run.held_out / f"{name}.alignments" if data.has_word_links else None,
            alignments_turned=turned,
        )
        for name in sets
    }
    return config.model_copy(update={"data": data.model_copy(update=files)})


def _write_set(files: Corpus, rows: Rows, alignments: Path | None, settings: CorpusSettings) -> None:
    pairs = files.select(rows)
    sides = [(settings.source, pairs.source), (settings.target, pairs.target)]
    if alignments is not None:
        links = JoinedSequence([read_lines(path) for path in matching_files(alignments)])
        if len(links) != len(files):
            raise InputError(
                f"{alignments}: {len(links):,} lines of alignments for the {len(files):,} pairs of {files.name}; "
                "expected one per pair"
            )
        sides.append((settings.alignments, [links[row] for row in rows.tolist()]))
    for path, lines in sides:
        assert path is not None  # `with_held_out_files` names it
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def _write_set_of_list(files: Corpus, rows: Rows, data: DataSettings, settings: CorpusSettings) -> None:
    """Writes a set whose sources have the tags of their corpora before them, as text.

    The tag is then word 0, or several words where characters count as words.
    """
    pairs, tags = files.select(rows), _tags_of(files, data.listed_corpora)
    own = [tags[row] for row in rows.tolist()]
    for path, lines in ((settings.source, tagged_lines(pairs.source, own)), (settings.target, pairs.target)):
        assert path is not None  # `with_held_out_files` names it
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    if settings.alignments is not None:
        by_characters = data.words.source == "characters"
        added = [0 if tag is None else len(tag) if by_characters else 1 for tag in own]
        chosen = dict(zip(rows.tolist(), added, strict=True))
        links = enumerate(_read_links(data.listed_corpora))
        write_gold(settings.alignments, [one.moved(chosen[row]) for row, one in links if row in chosen])


def read_tagged(settings: CorpusSettings | Sequence[ListedCorpusSettings]) -> Corpus:
    """Reads the pairs of a section of the config into memory, as `read_corpus`; the sources of a list with the tags of
    their corpora before them, as text."""
    corpus = read_corpus(settings).in_memory()
    if isinstance(settings, CorpusSettings):
        return corpus
    return replace(corpus, source=tagged_lines(corpus.source, _tags_of(corpus, settings)))


def _tags_of(files: Corpus, corpora: Sequence[ListedCorpusSettings]) -> list[str | None]:
    parts = _parts(files, corpora)
    return [corpus.tag for part, corpus in zip(parts, corpora, strict=True) for _ in range(len(part))]


def _parts(files: Corpus, corpora: Sequence[CorpusSettings]) -> Sequence[Corpus]:
    """Returns the pairs of each section of a list."""
    return files.parts if len(corpora) > 1 and isinstance(files, JoinedCorpora) else [files]


def _read_links(corpora: Sequence[CorpusSettings]) -> Iterator[GoldAlignment]:
    return (alignment for _, alignment in _read_placed_links(corpora))


def _read_placed_links(corpora: Sequence[CorpusSettings]) -> Iterator[tuple[str, GoldAlignment]]:
    """Yields the links of all pairs, each with its file and line."""
    for corpus in corpora:
        for files in corpus.shards():
            path = files["alignments"]
            alignments = iterate_pharaoh(path, turned=corpus.alignments_turned)
            yield from ((f"{path}:{line}", alignment) for line, alignment in enumerate(alignments, 1))
