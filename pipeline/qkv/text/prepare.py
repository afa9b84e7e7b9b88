"""Prepares the files that a config names for training: a tokenizer, encoded pairs, and a report on the text."""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from ..config import RunConfig
from ..config.corpus import CorpusSettings, is_csv
from ..config.data import DataSettings
from ..files.json import write_json
from ..files.paths import sha256
from ..files.run_directory import RunDirectory
from .corpora.corpus import SHARD_PAIRS, Corpus, is_large
from .corpora.filters import TextFilters
from .corpora.formats import linked_parts_of, parts_of, read_corpus
from .corpora.held_out import Rows, hold_out_sets, with_held_out_files
from .corpora.mixture import ranges_of
from .corpora.overlap import SharedSentences, report_overlap
from .corpora.provenance import data_sha256, prepared_sha256, shard_digests
from .corpora.word_links import GoldAlignment, iterate_links_inside
from .lines.line import without_tag
from .selection import (
    Selection,
    add_shares,
    count_corpora,
    describe_invisible,
    draw_joined_pairs,
    report_selection,
    select_training_pairs,
)
from .shards import ShardReader, folder_name, read_pairs
from .tokens.bpe_dropout import draw_segmentations, segmentation_names
from .tokens.encoding import EncodedPairs, encode_pairs, put_tags
from .tokens.run_tokenizer import reuse_or_train_tokenizer
from .tokens.token_links import TokenLinker
from .tokens.tokenizer import Tokenizer
from .tokens.words import WordSegmenter
from .training_text import TrainingText, mixture_of, open_text

log = logging.getLogger(__name__)


def prepare_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Reads the text, trains the tokenizer, encodes the pairs once and writes all of it into the run, the report last.

    If an earlier call was killed, its tokenizer is used again, provided that the text is the same.

    Raises:
        InputError: a file is missing or differs from what the config says, or the settings forbid a pair.
    """
    assert config.data.train  # as in all runs that are trained
    files = read_corpus(config.data.train)
    rows, held_out = hold_out_sets(config, files, run)
    training = files if rows is None else files.select(rows)
    data = with_held_out_files(config, run).data  # from here on, the run's own files are its sets
    assert data.validation
    validation = read_corpus(data.validation).in_memory()
    others = _without_tags(data, validation)
    log.info("%s: %d training pairs, %d validation pairs", training.name, len(training), len(validation))

    digests = data_sha256(data, run)
    tokenizer = reuse_or_train_tokenizer(config, training, run, digests)
    filters = TextFilters(**data.filters.model_dump()) if data.filters else None
    sentences = {name: SharedSentences.of(other) for name, other in others.items()}
    reader = ShardReader(tokenizer.side_models, data.tokenized, sentences, filters)
    encoded, facts = read_pairs(training, reader, folder=_shard_folder(config, run, training, others, digests))
    longest = data.max_source_tokens, data.max_target_tokens
    selection = select_training_pairs(
        training, encoded, facts, longest=longest, max_length_ratio=data.max_length_ratio, filters=filters
    )
    overlap = {name: report_overlap(facts.shared[name], other, name) for name, other in others.items()}

    guided = config.training.guided_attention is not None
    segmentations = draw_segmentations(
        training,
        encoded,
        tokenizer,
        _make_linker(data, tokenizer, training, files, rows) if guided else None,
        dropout=config.tokenizer.bpe_dropout,
        longest=longest,
        seed=config.run.seed,
    )
    parts = [part for part, _ in parts_of(training, data.training_corpora)]
    joined = _join_pairs(config, parts, selection, segmentations)
    corpora: list[dict[str, Any]] = []
    if data.listed_corpora:
        corpora += count_corpora(parts, [corpus.tag for corpus in data.listed_corpora], selection, joined)
        add_shares(corpora, mixture_of(config, corpora))
    tags = [tokenizer.tags.get(corpus["tag"]) for corpus in corpora]
    ranges = ranges_of(corpora)
    tagged = [(*own[part], tag) for part in (0, 1) for own, tag in zip(ranges, tags, strict=True)]  # kept, then joined
    for name, pairs in zip(segmentation_names(config.tokenizer.bpe_dropout), segmentations, strict=True):
        put_tags(pairs.select(selection.kept, np.concatenate(joined)), tagged).save(run.encoded / name)
    encode_pairs(validation, tokenizer).save(run.encoded / "validation")

    for meter, path in zip(facts.styles, (run.source_look, run.target_look), strict=True):
        meter.style.write(path)
    invisible = {side: dict(meter.invisible) for side, meter in zip(("source", "target"), facts.styles, strict=True)}
    if counted := describe_invisible(invisible):
        log.info("invisible characters in the training text: %s", counted)
    report = {
        **report_selection(training, selection),
        **({"corpora": corpora} if corpora else {}),
        **({"held_out": held_out} if held_out else {}),
        "overlap": overlap,
        "invisible": invisible,
        "joined": sum(map(len, joined)),
        "sha256": digests,
        "prepared_sha256": prepared_sha256(run),
        "settings": config.model_dump(mode="json", exclude={"run": {"name", "directory"}}),
    }
    write_json(run.corpus_report, report)  # with it, the text is prepared
    run.preparation.unlink(missing_ok=True)
    run.delete_shards()
    return open_text(config, run, tokenizer, validation)


def _without_tags(data: DataSettings, validation: Corpus) -> dict[str, Corpus]:
    """Returns the sets that the training text is compared with, whose sources may begin with tags."""
    others = {"validation": validation}
    if data.test is not None:
        others["test"] = read_corpus(data.test).in_memory()
    return {
        name: replace(other, source=[without_tag(line, data.tags) for line in other.source])
        for name, other in others.items()
    }


def _shard_folder(
    config: RunConfig, run: RunDirectory, training: Corpus, others: Mapping[str, Corpus], digests: Mapping[str, str]
) -> Path | None:
    """Returns the folder of readings: in `data.cache`, in the run for a large text, None for a small one."""
    data = config.data
    if data.cache is None and not is_large(training):
        return None
    facts = {
        "text": [[_form(corpus), shard_digests(corpus, run, digests)] for corpus in data.training_corpora],
        "others": {
            name: [hashlib.sha256("\n".join(side).encode()).hexdigest() for side in (other.source, other.target)]
            for name, other in others.items()
        },
        "filters": None if data.filters is None else data.filters.model_dump(mode="json"),
        "tokenized": data.tokenized,
        "tokenizer": sha256(run.tokenizer),
        "pairs": [len(training), SHARD_PAIRS],
    }
    return (data.cache or run.shards) / folder_name(facts)


def _form(corpus: CorpusSettings) -> dict[str, Any]:
    """Returns the settings that decide how pairs are read from files."""
    form = corpus.model_dump(include={"source_column", "target_column", "separator", "header", "split"})
    return form | {"csv": corpus.table is not None and is_csv(corpus.table)}


def _make_linker(
    data: DataSettings, tokenizer: Tokenizer, training: Corpus, files: Corpus, rows: Rows | None
) -> TokenLinker:
    """Reads the word links of all pairs of the training files, and keeps the links of the pairs that are trained on."""
    # Training text has no tags yet, so both sides are plain.
    count_tokens = tuple(lambda texts, model=model: [*map(len, model.encode(texts))] for model in tokenizer.side_models)
    cutter = WordSegmenter(data.words.source, data.words.target, data.tokenized, count_tokens)
    units = cutter.units(training.source, training.target)
    cutter.log_found(units)

    def links() -> Iterator[GoldAlignment]:
        for part in linked_parts_of(files, data.training_corpora):
            yield from iterate_links_inside(*part, count=partial(cutter.count, units=units))

    is_trained_on = np.full(len(files), rows is None)
    if rows is not None:
        is_trained_on[rows] = True
    return TokenLinker(training, compress(links(), is_trained_on), tokenizer.side_models, units)


def _join_pairs(
    config: RunConfig, parts: list[Corpus], selection: Selection, segmentations: list[EncodedPairs]
) -> list[np.ndarray]:
    """Draws the pairs of each corpus that are joined among themselves; in a list without weights and tags, of all."""
    data = config.data
    seed = config.run.seed
    longest = data.max_source_tokens, data.max_target_tokens
    draw = partial(draw_joined_pairs, segmentations=segmentations, share=data.joined_pairs, longest=longest)
    if len(parts) == 1 or not (data.tags or data.is_weighted):
        nothing = np.zeros((0, 2), np.int64)
        return [draw(selection.kept, seed=seed), *[nothing] * (len(parts) - 1)]
    return [draw(kept, seed=[seed, number]) for number, kept in enumerate(selection.split(parts))]
