"""The preparation of a run's text: from the files that a config names to tokenizer, encoded pairs and corpus report."""

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
from .corpora.provenance import data_sha256, file_set_digests, pairs_origin, prepared_sha256
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
    """Prepares the text of a run: trains the tokenizer, encodes the pairs and writes them into the run.

    The corpus report is written last; a run with a corpus report is prepared. The tokenizer of an earlier call that was
    killed is used again if the text is the same.

    Args:
        config: the settings of the run, with files to train on.
        run: the run.

    Returns:
        The text as training reads it.

    Raises:
        InputError: a file is missing, is damaged or does not fit the settings; the vocabulary does not fit the text; or
            no training pair is left.
    """
    assert config.data.train  # all runs that are trained have training files
    files = read_corpus(config.data.train)
    rows, held_out = hold_out_sets(config, files, run)
    training = files if rows is None else files.select(rows)
    data = with_held_out_files(config, run).data  # from here on, held-out sets are read from the run's folder
    assert data.validation
    validation = read_corpus(data.validation).in_memory()
    untagged_sets = _read_untagged_sets(data, validation)
    log.info("%s: %d training pairs, %d validation pairs", training.name, len(training), len(validation))

    digests = data_sha256(data, run)
    tokenizer = reuse_or_train_tokenizer(config, training, run, digests)
    filters = TextFilters(**data.filters.model_dump()) if data.filters else None
    sentences_of_sets = {name: SharedSentences.of(corpus) for name, corpus in untagged_sets.items()}
    reader = ShardReader(tokenizer.side_models, data.tokenized, sentences_of_sets, filters)
    folder = _shard_folder(config, run, training, untagged_sets, digests)
    encoded, text_data = read_pairs(training, reader, folder=folder)
    longest = data.max_source_tokens, data.max_target_tokens
    selection = select_training_pairs(
        training, encoded, text_data, longest=longest, max_length_ratio=data.max_length_ratio, filters=filters
    )
    overlap = {name: report_overlap(text_data.shared[name], corpus, name) for name, corpus in untagged_sets.items()}

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
    joined = _draw_pairs_to_join(config, parts, selection, segmentations)
    corpora: list[dict[str, Any]] = []
    if data.listed_corpora:
        corpora += count_corpora(parts, [corpus.tag for corpus in data.listed_corpora], selection, joined)
        add_shares(corpora, mixture_of(config, corpora))
    tags = [tokenizer.tags.get(corpus["tag"]) for corpus in corpora]
    ranges = ranges_of(corpora)
    tagged_ranges = []
    for part in (0, 1):  # the kept pairs of all corpora come first, then the joined pairs
        for corpus_ranges, tag in zip(ranges, tags, strict=True):
            first, last = corpus_ranges[part]
            tagged_ranges.append((first, last, tag))
    for name, pairs in zip(segmentation_names(config.tokenizer.bpe_dropout), segmentations, strict=True):
        put_tags(pairs.select(selection.kept, np.concatenate(joined)), tagged_ranges).save(run.encoded / name)
    encode_pairs(validation, tokenizer).save(run.encoded / "validation")

    meters = dict(zip(("source", "target"), text_data.styles, strict=True))
    meters["source"].style.write(run.source_look)
    meters["target"].style.write(run.target_look)
    invisible = {side: dict(meter.invisible) for side, meter in meters.items()}
    if description := describe_invisible(invisible):
        log.info("invisible characters in the training text: %s", description)
    report = {
        **report_selection(training, selection),
        **({"corpora": corpora} if corpora else {}),
        **({"held_out": held_out} if held_out else {}),
        "overlap": overlap,
        "invisible": invisible,
        "joined": sum(map(len, joined)),
        **pairs_origin(run),
        "sha256": digests,
        "prepared_sha256": prepared_sha256(run),
        "settings": config.model_dump(mode="json", exclude={"run": {"name", "directory"}}),
    }
    write_json(run.corpus_report, report)  # with it, the text is prepared
    run.preparation.unlink(missing_ok=True)
    run.delete_shards()
    return open_text(config, run, tokenizer, validation)


def _read_untagged_sets(data: DataSettings, validation: Corpus) -> dict[str, Corpus]:
    """Returns the validation set and, if there is one, the test set, by name, without the tags of their sources."""
    sets = {"validation": validation}
    if data.test is not None:
        sets["test"] = read_corpus(data.test).in_memory()
    return {
        name: replace(corpus, source=[without_tag(line, data.tags) for line in corpus.source])
        for name, corpus in sets.items()
    }


def _shard_folder(
    config: RunConfig, run: RunDirectory, training: Corpus, sets: Mapping[str, Corpus], digests: Mapping[str, str]
) -> Path | None:
    """Returns the folder for the files of shards; its name is a digest of everything that they depend on.

    It is in `data.cache` or, without that setting, in the run. None for a small text without that setting.
    """
    data = config.data
    if data.cache is None and not is_large(training):
        return None
    inputs = {
        "text": [
            [_reading_settings(corpus), file_set_digests(corpus, run, digests)] for corpus in data.training_corpora
        ],
        "others": {
            name: [hashlib.sha256("\n".join(side).encode()).hexdigest() for side in (corpus.source, corpus.target)]
            for name, corpus in sets.items()
        },
        "filters": None if data.filters is None else data.filters.model_dump(mode="json"),
        "tokenized": data.tokenized,
        "tokenizer": sha256(run.tokenizer),
        "pairs": [len(training), SHARD_PAIRS],
    }
    return (data.cache or run.shards) / folder_name(inputs)


def _reading_settings(corpus: CorpusSettings) -> dict[str, Any]:
    """Returns the settings of a corpus that decide how pairs are read from its files, by name.

    The key `csv` has True for a table in a CSV file.
    """
    form = corpus.model_dump(include={"source_column", "target_column", "separator", "header", "split"})
    return form | {"csv": corpus.table is not None and is_csv(corpus.table)}


def _make_linker(
    data: DataSettings, tokenizer: Tokenizer, training: Corpus, files: Corpus, rows: Rows | None
) -> TokenLinker:
    """Returns the linker of the training pairs, which has read the word links of their corpora.

    Args:
        data: the settings of the text.
        tokenizer: the tokenizer of the run.
        training: the pairs to train on.
        files: the pairs of the training files, from which sets may be held out.
        rows: the rows of the pairs to train on among `files`; None for all pairs.
    """
    # Training text has no tags yet, so the models of the sides are enough.
    count_tokens = tuple(lambda texts, model=model: [*map(len, model.encode(texts))] for model in tokenizer.side_models)
    segmenter = WordSegmenter(data.words.source, data.words.target, data.tokenized, count_tokens)
    units = segmenter.units(training.source, training.target)
    segmenter.log_units(units)

    def links_of_files() -> Iterator[GoldAlignment]:
        for part in linked_parts_of(files, data.training_corpora):
            yield from iterate_links_inside(*part, count=partial(segmenter.count, units=units))

    is_trained_on = np.full(len(files), rows is None)
    if rows is not None:
        is_trained_on[rows] = True
    return TokenLinker(training, compress(links_of_files(), is_trained_on), tokenizer.side_models, units)


def _draw_pairs_to_join(
    config: RunConfig, parts: list[Corpus], selection: Selection, segmentations: list[EncodedPairs]
) -> list[np.ndarray]:
    """Draws the training pairs that are joined two by two; see `data.joined_pairs`.

    Pairs of different corpora are joined only if no corpus has a weight or a tag.

    Args:
        config: the settings of the run.
        parts: the pairs of each training corpus.
        selection: the pairs to train on.
        segmentations: the encoded pairs in each segmentation.

    Returns:
        For each corpus the rows `(first, second)` of its joined pairs, int64 `(joined, 2)`. If pairs of different
        corpora are joined, the first corpus has all of them.
    """
    data = config.data
    seed = config.run.seed
    longest = data.max_source_tokens, data.max_target_tokens
    draw = partial(draw_joined_pairs, segmentations=segmentations, share=data.joined_pairs, longest=longest)
    if len(parts) == 1 or not (data.tags or data.is_weighted):
        no_pairs = np.zeros((0, 2), np.int64)
        return [draw(selection.kept, seed=seed), *[no_pairs] * (len(parts) - 1)]
    return [draw(kept, seed=[seed, number]) for number, kept in enumerate(selection.split(parts))]
