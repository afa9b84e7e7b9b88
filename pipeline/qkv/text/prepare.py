"""Prepares the files that a config names for training: a tokenizer, encoded pairs, and a report on the text."""

import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..config import RunConfig
from ..config.data import DataSettings
from ..errors import InputError
from ..files.json import write_json
from ..files.run_directory import RunDirectory
from .bpe_dropout import BPEDropout
from .corpus import Corpus, read_corpus
from .corpus_report import report_overlap
from .encoded import encode_sentences
from .encoded_pairs import EncodedPairs
from .filters import TextFilters
from .given_tokenizer import load_tokenizer
from .listed_corpora import read_mixture, report_joined, tag_pairs
from .mixture import Mixture
from .pair_reader import PairReader, read_pairs
from .prepared_tokenizer import reuse_or_train_tokenizer
from .provenance import check_unchanged, data_sha256, prepared_sha256, record_states
from .segmentations import sample_segmentation
from .selection import join_pairs, select_training_pairs
from .sets import hold_out_sets, with_held_out_files
from .shard_keys import shard_files
from .tagged_text import without_tag
from .token_links import WordFinder, WordNumbers, find_words_of_pairs, link_tokens
from .tokenizer import Tokenizer
from .words import WordCutter

SEGMENTATIONS = 10  # of the training text with BPE-dropout; epochs use them in turn

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingText:
    """The text as training reads it.

    Args:
        tokenizer: the tokenizer of the run.
        segmentations: the training pairs as the epochs see them in turn; just one, unless segmentations are sampled.
        validation: the validation text.
        validation_pairs: the validation text, encoded.
        mixture: how epochs are divided among the corpora of a list; None: every pair comes once.
    """

    tokenizer: Tokenizer
    segmentations: Sequence[EncodedPairs]
    validation: Corpus
    validation_pairs: EncodedPairs
    mixture: Mixture | None = None


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


def load_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Reads back what `prepare_text` wrote.

    Raises:
        InputError: a part is missing or damaged, or the validation text has changed.
    """
    config = with_held_out_files(config, run)
    check_unchanged(config.data, run)
    tokenizer = load_tokenizer(run.tokenizer).with_tag(config.decoding.tag)
    size = tokenizer.vocabulary_size
    validation_pairs = EncodedPairs.load(run.encoded / "validation", vocabulary_size=size)
    validation = read_corpus(config.data.validation_text).in_memory()
    if len(validation) != len(validation_pairs.source):
        raise InputError(
            f"{validation.name}: {len(validation)} pairs, expected {len(validation_pairs.source)} as when the run "
            "began; put the old files back, or train anew"
        )
    guided = config.training.guided_attention is not None
    segmentations = [EncodedPairs.load(run.encoded / name, guided, size) for name in _segmentation_names(config)]
    mixture = read_mixture(config, run, len(segmentations[0].source))
    return TrainingText(tokenizer, segmentations, validation, validation_pairs, mixture)


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


def _encode_validation(validation: Corpus, tokenizer: Tokenizer) -> EncodedPairs:
    return EncodedPairs(
        encode_sentences(validation.source, tokenizer), encode_sentences(validation.target, tokenizer.of_target)
    )


def _segmentation_names(config: RunConfig) -> list[str]:
    """Returns the names of the files of the training pairs, one for each segmentation."""
    return [f"train-{number}" for number in range(SEGMENTATIONS)] if config.tokenizer.bpe_dropout else ["train"]


def _sample_segmentations(
    config: RunConfig,
    corpus: Corpus,
    encoded: EncodedPairs,
    tokenizer: Tokenizer,
    words: WordNumbers | None,
    finder: WordFinder | None,
) -> Iterator[tuple[EncodedPairs, WordNumbers | None]]:
    """Draws every segmentation of the pairs; without sampling there is just one, `encoded`.

    With each come the words of its tokens, if those of `encoded` are given.
    """
    if not config.tokenizer.bpe_dropout:
        yield encoded, words
        return
    sides = (
        (corpus.source, encoded.source, config.data.max_source_tokens),
        (corpus.target, encoded.target, config.data.max_target_tokens),
    )
    sampler = BPEDropout.of(tokenizer, config.tokenizer.bpe_dropout)
    # Every segmentation and side has its own seed, or both sides would lose the same merges.
    seeds = np.random.SeedSequence(config.run.seed).generate_state(2 * SEGMENTATIONS)
    for number in range(SEGMENTATIONS):
        drawn, found = zip(
            *(
                sample_segmentation(
                    sentences,
                    usual,
                    sampler,
                    int(seeds[2 * number + side]),
                    longest,
                    None if words is None or finder is None else (words[side], partial(finder.of_side, side)),
                )
                for side, (sentences, usual, longest) in enumerate(sides)
            ),
            strict=True,
        )
        yield EncodedPairs(*drawn), None if words is None else WordNumbers(*found)
