"""One reading finds what several would, whatever the shards and the processes."""

import numpy as np
import pytest

from qkv.text.corpora import corpus as corpora
from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.filters import digest_pairs
from qkv.text.corpora.overlap import SharedSentences
from qkv.text.shards import ShardReader, find_empty, read_pairs
from tests.support.text import SENTENCES, measure_look

SOURCES = [*SENTENCES, "", "A long sentence , which has more than sixty characters in all ."]
TARGETS = [*SENTENCES[3:], *SENTENCES[:3], " ", "short ."]
OTHER = Corpus([SENTENCES[0], SENTENCES[1], "x"], [TARGETS[0], "y", TARGETS[2]], [1, 2, 3], "other.tsv")


@pytest.fixture(scope="module")
def reader(tokenizer):
    return ShardReader(tokenizer.side_models, True, {"test": SharedSentences.of(OTHER)})


@pytest.mark.parametrize(("shard", "processes"), [(100, None), (3, None), (1, 1), (2, 2)])
def test_a_reading_finds_what_readings_for_each_purpose_would(tokenizer, reader, monkeypatch, shard, processes):
    monkeypatch.setattr(corpora, "SHARD_PAIRS", shard)
    corpus = Corpus(SOURCES, TARGETS, range(1, len(SOURCES) + 1), "made.tsv")
    encoded, facts = read_pairs(corpus, reader, processes)
    for found, sentences in zip(encoded.sides, (SOURCES, TARGETS), strict=True):
        assert [row.tolist() for row in found] == tokenizer.encode(sentences)
    np.testing.assert_array_equal(facts.empty, find_empty(SOURCES, TARGETS))
    np.testing.assert_array_equal(facts.digests, digest_pairs(SOURCES, TARGETS))
    assert [meter.style for meter in facts.styles] == [
        measure_look(side, tokenized=True) for side in (SOURCES, TARGETS)
    ]
    assert facts.shared == {"test": SharedSentences.of(OTHER).shared_with(SOURCES, TARGETS)}


def test_no_pairs_are_read_as_none(reader):
    encoded, facts = read_pairs(Corpus([], [], [], "made.tsv"), reader)
    assert len(encoded.source) == len(encoded.target) == len(facts.empty) == len(facts.digests) == 0
