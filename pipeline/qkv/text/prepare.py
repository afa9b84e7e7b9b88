"""Prepares the files that a config names for training: a tokenizer, encoded pairs, and a report on the text."""

import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import compress

import numpy as np

from ..config import RunConfig
from ..config.data import DataSettings
from ..files.json import write_json
from ..files.run_directory import RunDirectory
from .corpora.corpus import Corpus
from .corpora.filters import TextFilters
from .corpora.formats import linked_parts_of, read_corpus
from .corpora.held_out import Rows, hold_out_sets, with_held_out_files
from .corpora.overlap import report_overlap
from .corpora.provenance import data_sha256, prepared_sha256, record_states
from .corpora.word_links import GoldAlignment, iterate_links_inside
from .lines.line import without_tag
from .selection import join_pairs, report_corpora, report_selection, select_training_pairs, tag_pairs
from .shards import PairReader, read_pairs, shard_files
from .tokens.bpe_dropout import draw_segmentations, segmentation_names
from .tokens.encoding import encode_pairs
from .tokens.run_tokenizer import reuse_or_train_tokenizer
from .tokens.token_links import TokenLinker, WordFinder
from .tokens.tokenizer import Tokenizer
from .tokens.words import WordCutter
from .training_text import TrainingText, open_text

log = logging.getLogger(__name__)


def prepare_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Reads the text, trains the tokenizer, encodes the pairs once and writes all of it into the run, the report last.

    If an earlier call was killed, its tokenizer is used again, provided that the text is the same.

    Raises:
        InputError: a file is missing or differs from what the config says, or the settings forbid a pair.
    """
    files = read_corpus(config.data.training_text)
    rows, held_out = hold_out_sets(config, files, run)
    training = files if rows is None else files.select(rows)
    data = with_held_out_files(config, run).data  # from here on, the run's own files are its sets
    validation = read_corpus(data.validation_text).in_memory()
    others = _without_tags(data, validation)
    log.info("%s: %d training pairs, %d validation pairs", training.name, len(training), len(validation))

    digests = data_sha256(data, run)
    tokenizer = reuse_or_train_tokenizer(config, training, run, digests)
    reader = PairReader(tokenizer.side_models, data.tokenized, others, _make_filters(data))
    encoded, facts = read_pairs(training, reader, files=shard_files(config, run, training, others, digests))
    selection = select_training_pairs(data, training, encoded, facts)
    overlap = {name: report_overlap(facts.shared[name], other, name) for name, other in others.items()}

    guided = config.training.guided_attention is not None
    linker = _make_linker(data, tokenizer, training, files, rows) if guided else None
    segmentations = draw_segmentations(
        training,
        encoded,
        tokenizer,
        linker,
        dropout=config.tokenizer.bpe_dropout,
        longest=(data.max_source_tokens, data.max_target_tokens),
        seed=config.run.seed,
    )
    joined = join_pairs(config, selection, segmentations)
    corpora = report_corpora(data, training, selection, joined)
    for name, pairs in zip(segmentation_names(config.tokenizer.bpe_dropout), segmentations, strict=True):
        selected = pairs.select(selection.kept, np.concatenate(joined))
        tag_pairs(data, corpora, tokenizer.tags, selected).save(run.encoded / name)
    encode_pairs(validation, tokenizer).save(run.encoded / "validation")

    for meter, path in zip(facts.looks, (run.source_look, run.target_look), strict=True):
        meter.look.write(path)
    record_states(data, run, digests)
    report = report_selection(training, selection)
    report |= {"corpora": corpora} if corpora else {}
    report |= {"held_out": held_out} if held_out else {}
    report |= {"overlap": overlap, "joined": sum(map(len, joined)), "sha256": digests}
    report |= {"prepared_sha256": prepared_sha256(run)}
    report |= {"settings": config.model_dump(mode="json", exclude={"run": {"name", "directory"}})}
    write_json(run.corpus_report, report)  # with it, the text is prepared
    run.preparation.unlink(missing_ok=True)
    shutil.rmtree(run.shards, ignore_errors=True)
    return open_text(config, run, tokenizer, validation)


def _without_tags(data: DataSettings, validation: Corpus) -> dict[str, Corpus]:
    """Returns the sets that the training text is compared with, whose sources may begin with tags."""
    others = {"validation": validation}
    if data.test is not None:
        others["test"] = read_corpus(data.test).in_memory()
    if not data.tags:
        return others
    return {
        name: replace(other, source=[without_tag(line, data.tags) for line in other.source])
        for name, other in others.items()
    }


def _make_filters(settings: DataSettings) -> TextFilters | None:
    return None if settings.filters is None else TextFilters(**settings.filters.model_dump(exclude={"duplicates"}))


def _make_linker(
    data: DataSettings, tokenizer: Tokenizer, training: Corpus, files: Corpus, rows: Rows | None
) -> TokenLinker:
    """Reads the word links of all pairs of the training files, and keeps those of the pairs that are trained on."""
    # Training text has no tags yet, so both sides are plain.
    count_tokens = tuple(lambda texts, model=model: [*map(len, model.encode(texts))] for model in tokenizer.side_models)
    cutter = WordCutter(data.words.source, data.words.target, data.tokenized, count_tokens)
    units = cutter.units(training.source, training.target)
    cutter.log_found(units)

    def links() -> Iterator[GoldAlignment]:
        for part in linked_parts_of(files, data.training_corpora):
            yield from iterate_links_inside(*part, partial(cutter.count, units=units))

    is_trained_on = np.full(len(files), rows is None)
    if rows is not None:
        is_trained_on[rows] = True
    return TokenLinker(training, compress(links(), is_trained_on), WordFinder(tokenizer.side_models, units))
