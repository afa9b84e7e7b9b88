"""Prepares the files that a config names for training: a tokenizer, encoded pairs, and a report on the text."""

import logging
import shutil
from dataclasses import replace

import numpy as np

from ..config import RunConfig
from ..config.data import DataSettings
from ..files.json import write_json
from ..files.run_directory import RunDirectory
from .corpora.corpus import Corpus
from .corpora.filters import TextFilters
from .corpora.formats import read_corpus
from .corpora.held_out import hold_out_sets, with_held_out_files
from .corpora.overlap import report_overlap
from .corpora.provenance import data_sha256, prepared_sha256, record_states
from .lines.line import without_tag
from .selection import join_pairs, report_joined, select_training_pairs, tag_pairs
from .shards import PairReader, read_pairs, shard_files
from .tokens.bpe_dropout import _sample_segmentations, _segmentation_names
from .tokens.encoding import _encode_validation
from .tokens.run_tokenizer import reuse_or_train_tokenizer
from .tokens.token_links import WordFinder, find_words_of_pairs, link_tokens
from .tokens.tokenizer import Tokenizer
from .tokens.words import WordCutter
from .training_text import TrainingText, load_text

log = logging.getLogger(__name__)


def prepare_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Reads the text, trains the tokenizer, encodes the pairs once and writes all of it into the run, the report last.

    If an earlier call was killed, its tokenizer is used again, provided that the text is the same.

    Raises:
        InputError: a file is missing or differs from what the config says, or the settings forbid a pair.
    """
    settings = config.model_dump(mode="json", exclude={"run": {"name", "directory"}})
    training_pairs, held_out = hold_out_sets(config, run)
    config = with_held_out_files(config, run)
    training = training_pairs.read_corpus()
    validation = read_corpus(config.data.validation_text).in_memory()
    log.info("%s: %d training pairs, %d validation pairs", training.name, len(training), len(validation))
    digests = data_sha256(config.data, run)
    tokenizer = reuse_or_train_tokenizer(config, training, run, digests)
    others = _without_tags(config, validation)
    reader = PairReader(tokenizer.side_models, config.data.tokenized, others, _make_filters(config.data))
    encoded, facts = read_pairs(training, reader, files=shard_files(config, run, training, others, digests))
    selection = select_training_pairs(config.data, training, encoded, facts)
    report = selection.report
    if held_out:
        report["held_out"] = held_out
    guided = config.training.guided_attention is not None
    finder = words = None
    if guided:
        cutter = _make_cutter(config.data, tokenizer)
        units = cutter.units(training.source, training.target)
        cutter.log_found(units)
        training_pairs.check_links(cutter, units)
        finder = WordFinder(tokenizer.side_models, units)
        words = find_words_of_pairs(training, finder)
    report["overlap"] = {name: report_overlap(facts.shared[name], other, name) for name, other in others.items()}
    segmentations, numbers = zip(
        *_sample_segmentations(config, training, encoded, tokenizer, words, finder), strict=True
    )
    joined = join_pairs(config, selection, segmentations)
    report_joined(config.data, report, joined)
    report["sha256"] = digests
    for name, pairs, words in zip(_segmentation_names(config), segmentations, numbers, strict=True):
        if words is not None:
            pairs = pairs._replace(links=link_tokens(words, training_pairs.read_links()))
        selected = pairs.select(selection.kept, np.concatenate(joined))
        tag_pairs(config.data, report, tokenizer.tags, selected).save(run.encoded / name)
    _encode_validation(validation, tokenizer).save(run.encoded / "validation")
    for meter, path in zip(facts.looks, (run.source_look, run.target_look), strict=True):
        meter.look.write(path)
    record_states(config.data, run, digests)
    write_json(run.corpus_report, report | {"prepared_sha256": prepared_sha256(run), "settings": settings})
    run.preparation.unlink(missing_ok=True)
    shutil.rmtree(run.shards, ignore_errors=True)
    return load_text(config, run)


def _without_tags(config: RunConfig, validation: Corpus) -> dict[str, Corpus]:
    """Returns the sets that the training text is compared with, whose sources may begin with tags."""
    others = {"validation": validation}
    if config.data.test is not None:
        others["test"] = read_corpus(config.data.test).in_memory()
    tags = config.data.tags
    if not tags:
        return others
    return {
        name: replace(other, source=[without_tag(line, tags) for line in other.source])
        for name, other in others.items()
    }


def _make_filters(settings: DataSettings) -> TextFilters | None:
    return None if settings.filters is None else TextFilters(**settings.filters.model_dump(exclude={"duplicates"}))


def _make_cutter(data: DataSettings, tokenizer: Tokenizer) -> WordCutter:
    # Training text has no tags yet, so both sides are plain.
    count_tokens = tuple(lambda texts, model=model: [*map(len, model.encode(texts))] for model in tokenizer.side_models)
    return WordCutter(data.words.source, data.words.target, data.tokenized, count_tokens)
