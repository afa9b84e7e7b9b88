"""From the files that a config names to what training reads: tokenizer, encoded pairs, and a report on the text."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.config import CorpusSettings, DataSettings, RunConfig
from pipeline.errors import InputError
from pipeline.run_directory import RunDirectory, write_json
from pipeline.text.corpus import Corpus, read_parallel_files, read_table
from pipeline.text.encoded import EncodedSentences, encode_sentences
from pipeline.text.findings import REASONS, examine, locate, overlap, select
from pipeline.text.tokenizer import Tokenizer, train_tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingText:
    """What training reads: the tokenizer, the encoded training and validation pairs, and the validation text."""

    tokenizer: Tokenizer
    source: EncodedSentences
    target: EncodedSentences
    validation: Corpus
    validation_source: EncodedSentences
    validation_target: EncodedSentences


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
    """Reads the text, trains the tokenizer, encodes the pairs once and writes all that into the run.

    Raises:
        InputError: a file is missing or not what the config says, or a pair is one that the settings forbid.
    """
    training = read_corpus(config.data.train)
    validation = read_corpus(config.data.validation)
    log.info("%s: %d training pairs, %d validation pairs", training.name, len(training), len(validation))
    train_tokenizer(
        _both_sides(training),
        run.tokenizer,
        kind=config.tokenizer.kind,
        vocabulary_size=config.tokenizer.vocabulary_size,
        character_coverage=config.tokenizer.character_coverage,
    )
    tokenizer = Tokenizer(run.tokenizer)
    source = encode_sentences(training.source, tokenizer)
    target = encode_sentences(training.target, tokenizer)
    kept, report = _judge(config.data, training, source, target)
    others = {"validation": validation}
    if config.data.test is not None:
        others["test"] = read_corpus(config.data.test)
    report["overlap"] = {name: _overlap(training, other, name) for name, other in others.items()}
    source, target = source.select(kept), target.select(kept)
    pairs = _pairs_to_join(config.data, source, target, config.run.seed)
    report["joined"] = len(pairs)
    write_json(run.corpus_report, report)
    for name, side in (
        ("train.source", source.with_joined(pairs)),
        ("train.target", target.with_joined(pairs)),
        ("validation.source", encode_sentences(validation.source, tokenizer)),
        ("validation.target", encode_sentences(validation.target, tokenizer)),
    ):
        side.save(run.encoded / name)
    return load_text(config, run)


def load_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Reads back what `prepare_text` wrote."""
    sides = [
        EncodedSentences.load(run.encoded / f"{corpus}.{side}")
        for corpus in ("train", "validation")
        for side in ("source", "target")
    ]
    validation = read_corpus(config.data.validation)
    if len(validation) != len(sides[2]):
        raise InputError(
            f"{validation.name}: {len(validation)} pairs, and the run was started with {len(sides[2])}; "
            "put the old files back, or train anew"
        )
    return TrainingText(Tokenizer(run.tokenizer), sides[0], sides[1], validation, sides[2], sides[3])


def _both_sides(corpus: Corpus) -> Iterator[str]:
    for pair in zip(corpus.source, corpus.target, strict=True):
        yield from (side for side in pair if side.strip())


def _judge(
    settings: DataSettings, corpus: Corpus, source: EncodedSentences, target: EncodedSentences
) -> tuple[list[int], dict[str, Any]]:
    """Which pairs are trained on, and the report on the others."""
    findings = examine(
        corpus,
        source.lengths,
        target.lengths,
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
    if not kept:
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


def _pairs_to_join(settings: DataSettings, source: EncodedSentences, target: EncodedSentences, seed: int) -> np.ndarray:
    """Rows `(first, second)` of pairs that fit the longest lengths together."""
    count = round(settings.joined_pairs * len(source))
    pairs = np.random.default_rng(seed).integers(len(source), size=(count, 2))
    fitting = source.lengths[pairs].sum(axis=1) <= settings.max_source_tokens
    fitting &= target.lengths[pairs].sum(axis=1) <= settings.max_target_tokens
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
