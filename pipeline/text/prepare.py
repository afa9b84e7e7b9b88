"""From the files that a config names to what training reads: tokenizer, encoded pairs, and a report on the text."""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from ..config import RunConfig
from ..config.data import CorpusSettings, DataSettings
from ..errors import InputError
from ..files import write_json
from ..run_directory import RunDirectory
from .cleaning import REASONS, examine, locate, overlap, select
from .corpus import Corpus, read_parallel_files, read_table
from .encoded import EncodedPairs, encode_sentences, sample_segmentation
from .pharaoh import GoldAlignment, iterate_pharaoh
from .provenance import _check_unchanged, data_sha256
from .token_links import link_tokens
from .tokenizer import Tokenizer, train_tokenizer, words_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingText:
    """What training reads.

    Args:
        tokenizer: the run's.
        segmentations: the training pairs as epochs see them in turn; one, unless the tokenizer drops merges.
        validation: the validation text.
        validation_pairs: the same, encoded.
    """

    tokenizer: Tokenizer
    segmentations: Sequence[EncodedPairs]
    validation: Corpus
    validation_pairs: EncodedPairs


def read_corpus(settings: CorpusSettings) -> Corpus:
    """Reads the sentence pairs that a section of the config names."""
    if settings.table is None:
        assert settings.source and settings.target  # the config's own check
        return read_parallel_files(
            settings.source, settings.target, split_file=settings.split_file, split=settings.split
        )
    return read_table(
        settings.table,
        settings.source_column,
        settings.target_column,
        separator=settings.separator,
        header=settings.header,
        split_column=settings.split_column,
        split_file=settings.split_file,
        split=settings.split,
    )


def prepare_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Reads the text, trains the tokenizer, encodes the pairs once and writes all that into the run, the report last.

    Where it was killed on the way, the tokenizer is not trained again if it was ready and the text is the same.

    Raises:
        InputError: a file is missing or not what the config says, or a pair is one that the settings forbid.
    """
    training = read_corpus(config.data.train)
    validation = read_corpus(config.data.validation).in_memory()
    log.info("%s: %d training pairs, %d validation pairs", training.name, len(training), len(validation))
    digests = data_sha256(config.data)
    tokenizer = _tokenizer(config, training, run, digests)
    encoded = _encode(training, tokenizer)
    kept, report = _judge(config.data, training, encoded)
    others = {"validation": validation}
    if config.data.test is not None:
        others["test"] = read_corpus(config.data.test).in_memory()
    _check_links(config, training)
    report["overlap"] = {name: _overlap(training, other, name) for name, other in others.items()}
    segmentations = list(_segmentations(config, training, encoded, tokenizer))
    joined = _pairs_to_join(config.data, kept, segmentations, config.run.seed)
    report["joined"] = len(joined)
    report["sha256"] = digests
    for name, pairs in zip(_names(config), segmentations, strict=True):
        _linked(config, pairs, tokenizer).select(kept, joined).save(run.encoded / name)
    _encode(validation, tokenizer).save(run.encoded / "validation")
    write_json(run.corpus_report, report)
    run.preparation.unlink(missing_ok=True)
    return load_text(config, run)


def _tokenizer(config: RunConfig, training: Corpus, run: RunDirectory, digests: dict[str, str]) -> Tokenizer:
    """The one that is there, if it was made of the same text, or a new one."""
    if not (run.tokenizer.is_file() and _of_same_text(run, digests)):
        run.tokenizer.unlink(missing_ok=True)
        write_json(run.preparation, digests)
        train_tokenizer(
            _some_of_both_sides(training, config.tokenizer.training_sentences),
            run.tokenizer,
            kind=config.tokenizer.kind,
            vocabulary_size=config.tokenizer.vocabulary_size,
            character_coverage=config.tokenizer.character_coverage,
        )
    return Tokenizer(run.tokenizer)


def _of_same_text(run: RunDirectory, digests: dict[str, str]) -> bool:
    try:
        return json.loads(run.preparation.read_text(encoding="utf-8")) == digests
    except (OSError, ValueError):
        return False


def load_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Reads back what `prepare_text` wrote.

    Raises:
        InputError: something of it is missing or damaged, or the validation text is no longer what it was.
    """
    _check_unchanged(config.data, run)
    validation_pairs = EncodedPairs.load(run.encoded / "validation")
    validation = read_corpus(config.data.validation).in_memory()
    if len(validation) != len(validation_pairs.source):
        raise InputError(
            f"{validation.name}: {len(validation)} pairs, and the run was started with "
            f"{len(validation_pairs.source)}; put the old files back, or train anew"
        )
    linked = config.training.guided_attention is not None
    segmentations = [EncodedPairs.load(run.encoded / name, linked) for name in _names(config)]
    return TrainingText(Tokenizer(run.tokenizer), segmentations, validation, validation_pairs)


def _names(config: RunConfig) -> list[str]:
    """What the files of the training pairs are called, one name for each segmentation."""
    settings = config.tokenizer
    return [f"train-{number}" for number in range(settings.segmentations)] if settings.sampling else ["train"]


def _encode(corpus: Corpus, tokenizer: Tokenizer) -> EncodedPairs:
    return EncodedPairs(encode_sentences(corpus.source, tokenizer), encode_sentences(corpus.target, tokenizer))


def _segmentations(
    config: RunConfig, corpus: Corpus, encoded: EncodedPairs, tokenizer: Tokenizer
) -> Iterator[EncodedPairs]:
    """The pairs as they are encoded; where they are sampled, drawn anew for each segmentation."""
    settings = config.tokenizer
    if not settings.sampling:
        yield encoded
        return
    sides = (
        (corpus.source, encoded.source, config.data.max_source_tokens),
        (corpus.target, encoded.target, config.data.max_target_tokens),
    )
    # Other seeds for every segmentation and side, or both sides would lose the same merges.
    seeds = np.random.SeedSequence(config.run.seed).generate_state(2 * settings.segmentations)
    for number in range(settings.segmentations):
        yield EncodedPairs(
            *(
                sample_segmentation(text, usual, tokenizer, settings.sampling, int(seed), longest)
                for (text, usual, longest), seed in zip(sides, seeds[2 * number :], strict=False)
            )
        )


def _links(settings: CorpusSettings) -> Iterator[GoldAlignment]:
    assert settings.alignments is not None
    return iterate_pharaoh(settings.alignments, settings.alignments_first_index, settings.alignments_turned)


def _check_links(config: RunConfig, corpus: Corpus) -> None:
    """Where attention is guided by word links: that there are those of every pair, and that they are inside of it."""
    if config.training.guided_attention is None:
        return
    path = config.data.train.alignments
    lines = outside = 0
    for line, pair in zip_longest(_links(config.data.train), corpus.pairs()):
        lines += line is not None
        if line and pair:
            counts = [len(words_of(side)) for side in pair]
            outside += sum(i >= counts[0] or j >= counts[1] for i, j in line.possible)
    if lines != len(corpus):
        raise InputError(
            f"{path}: {lines} lines of alignments for the {len(corpus)} pairs of {corpus.name}; expected one for "
            "each pair"
        )
    if outside:
        log.warning("%s: %d word links point outside their sentences and are left out", path, outside)


def _linked(config: RunConfig, pairs: EncodedPairs, tokenizer: Tokenizer) -> EncodedPairs:
    if config.training.guided_attention is None:
        return pairs
    links = (line.possible for line in _links(config.data.train))
    return pairs._replace(links=link_tokens(pairs, links, tokenizer.word_starts))


def _some_of_both_sides(corpus: Corpus, most: int) -> Iterator[str]:
    """The sentences of every n-th pair, so that they are `most` sentences at most."""
    for pair in islice(corpus.pairs(), None, None, max(1, -(-2 * len(corpus) // most))):
        yield from (side for side in pair if side.strip())


def _judge(settings: DataSettings, corpus: Corpus, encoded: EncodedPairs) -> tuple[np.ndarray, dict[str, Any]]:
    """Which pairs are trained on, and the report on the others."""
    findings = examine(
        corpus,
        encoded.source.lengths,
        encoded.target.lengths,
        max_source_tokens=settings.max_source_tokens,
        max_target_tokens=settings.max_target_tokens,
        max_length_ratio=settings.max_length_ratio,
    )
    actions = {
        "empty_side": settings.on_empty_side,
        "over_long": settings.on_over_long,
        "length_ratio": settings.on_length_ratio,
        "duplicate": settings.on_duplicate,
    }
    kept = select(corpus, findings, actions)
    if not len(kept):
        raise InputError(f"{corpus.name}: no training pair is left; see data.on_* and data.max_* in the config")
    lines: dict[str, list[int]] = {reason: [] for reason in REASONS}
    for finding in locate(corpus, findings):
        lines[finding.reason].append(finding.line)
    for reason, found in lines.items():
        if found:
            log.info("%s: %d of the training pairs (data.on_%s: %s)", reason, len(found), reason, actions[reason])
    report = {
        "files": corpus.name,
        "pairs": len(corpus),
        "kept": len(kept),
        "found": {reason: {"action": actions[reason], "count": len(lines[reason])} for reason in REASONS},
        "lines": lines,
    }
    return kept, report


def _pairs_to_join(
    settings: DataSettings, kept: np.ndarray, segmentations: Sequence[EncodedPairs], seed: int
) -> np.ndarray:
    """Rows `(first, second)` of kept pairs that fit the longest lengths together, however they are segmented."""
    number = len(kept)
    pairs = kept[np.random.default_rng(seed).integers(number, size=(round(settings.joined_pairs * number), 2))]
    fitting = np.ones(len(pairs), bool)
    for segmentation in segmentations:
        fitting &= segmentation.source.lengths[pairs].sum(axis=1) <= settings.max_source_tokens
        fitting &= segmentation.target.lengths[pairs].sum(axis=1) <= settings.max_target_tokens
    return pairs[fitting]


def _overlap(training: Corpus, other: Corpus, name: str) -> dict[str, Any]:
    shared = overlap(training, other)
    if shared.sources:
        log.warning("%d of %d %s sources stand in the training text too", shared.sources, len(other), name)
    return {
        "pairs": shared.pairs,
        "sources": shared.sources,
        "targets": shared.targets,
        "of": len(other),
        "lines": shared.lines,
    }
