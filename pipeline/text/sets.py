"""The sets of a config that are held out from its training files. They are written into the run as files of their own,
so that they stay the same whatever becomes of the training files."""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from ..config import RunConfig
from ..config.corpus import CorpusSettings
from ..errors import InputError
from ..files import write_atomically
from ..run_directory import RunDirectory
from .corpus import Corpus, read_corpus
from .held_out import Rows, hold_out
from .lines import read_lines
from .pharaoh import Link, iterate_pharaoh
from .token_links import check_links

FEW_PAIRS = 100

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs to train on.

    Args:
        settings: the section of the config that names the training files.
        files: all pairs of these files.
        rows: the pairs that are trained on, ascending; None: all.
    """

    settings: CorpusSettings
    files: Corpus
    rows: Rows | None = None

    def read_corpus(self) -> Corpus:
        """Returns the pairs that are trained on."""
        return self.files if self.rows is None else self.files.select(self.rows)

    def check_links(self) -> None:
        """Checks the word links of all pairs; see `check_links`."""
        check_links(self.files, _read_links(self.settings), self.settings.alignments)

    def read_links(self) -> Iterator[Collection[Link]]:
        """Yields the word links of each pair that is trained on."""
        is_trained_on = np.ones(len(self.files), bool)
        if self.rows is not None:
            is_trained_on[:] = False
            is_trained_on[self.rows] = True
        return compress(_read_links(self.settings), is_trained_on)


def hold_out_sets(config: RunConfig, run: RunDirectory) -> tuple[TrainingPairs, dict[str, Any]]:
    """Reads the training files, and writes the sets that are held out from them, if any, into the run.

    Returns:
        The pairs to train on; and for each set, and for the pairs that are `left_out` of all, the number of pairs and
        their lines in the training files.

    Raises:
        InputError: as `read_corpus` and `hold_out`, or there are more or fewer lines of alignments than pairs.
    """
    settings, sets = config.data.training_text, config.data.held_out
    files = read_corpus(settings)
    if not sets:
        return TrainingPairs(settings, files), {}
    parts = hold_out(files, {name: section.held_out_pairs(len(files)) for name, section in sets.items()})
    data = with_held_out_files(config, run).data
    for name in sets:
        _write_set(files, parts[name], settings.alignments, getattr(data, name))
        if len(parts[name]) < FEW_PAIRS:
            log.warning(
                "data.%s has %d pairs; scores of so few say little, some hundred are better", name, len(parts[name])
            )
    training = TrainingPairs(settings, files, parts.pop("train"))
    everywhere = np.concatenate([training.rows, *parts.values()])
    parts["left_out"] = np.setdiff1d(np.arange(len(files)), everywhere, assume_unique=True)
    log.info(
        "held out from %s: %s; left out, since they share sentences with those: %d",
        files.name,
        ", ".join(f"{len(parts[name])} pairs for {name}" for name in sets),
        len(parts["left_out"]),
    )
    return training, {
        name: {"pairs": len(rows), "lines": [files.line_numbers[row] for row in rows]} for name, rows in parts.items()
    }


def with_held_out_files(config: RunConfig, run: RunDirectory) -> RunConfig:
    """Returns the config with the run's own files as the sets that are held out."""
    sets = config.data.held_out
    if not sets:
        return config
    train = config.data.training_text
    files = {
        name: CorpusSettings(
            source=run.held_out / f"{name}.source",
            target=run.held_out / f"{name}.target",
            alignments=run.held_out / f"{name}.alignments" if train.alignments else None,
            alignments_first_index=train.alignments_first_index,
            alignments_turned=train.alignments_turned,
        )
        for name in sets
    }
    return config.model_copy(update={"data": config.data.model_copy(update=files)})


def _write_set(files: Corpus, rows: Rows, alignments: Path | None, settings: CorpusSettings) -> None:
    pairs = files.select(rows)
    sides = [(settings.source, pairs.source), (settings.target, pairs.target)]
    if alignments is not None:
        links = read_lines(alignments)
        if len(links) != len(files):
            raise InputError(
                f"{alignments}: {len(links):,} lines of alignments for the {len(files):,} pairs of {files.name}; "
                "expected one per pair"
            )
        sides.append((settings.alignments, links.select(rows)))
    for path, lines in sides:
        assert path is not None  # `with_held_out_files` names it
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def _read_links(settings: CorpusSettings) -> Iterator[Collection[Link]]:
    assert settings.alignments is not None  # the config's own check
    path, first_index, turned = settings.alignments, settings.alignments_first_index, settings.alignments_turned
    return (alignment.possible for alignment in iterate_pharaoh(path, first_index, turned))
