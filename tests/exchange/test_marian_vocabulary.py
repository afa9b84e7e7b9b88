"""Two vocabularies become one, in which a piece that both spell alike has one id."""

import json
from dataclasses import replace

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.exchange.marian_config import read_marian_config
from qkv.exchange.marian_vocabulary import MISSING_ROW, read_marian_vocabulary
from qkv.text.tokens.special_tokens import BOS
from tests.support.marian import MARIAN

SOURCE = {"</s>": 0, "<unk>": 1, "a": 2, ">>fra<<": 3, "b": 4, "<pad>": 5}
TARGET = {"</s>": 0, "<unk>": 1, "b": 2, "c": 3, "<s>": 4, "<pad>": 5}


@pytest.fixture
def config():
    tokenizer = {"separate_vocabs": True}
    return replace(read_marian_config(MARIAN), source_size=7, target_size=6, pad=5, start=5, eos=0, tokenizer=tokenizer)


def write(folder, source, target):
    for name, pieces in (("vocab.json", source), ("target_vocab.json", target)):
        (folder / name).write_text(json.dumps(pieces), encoding="utf-8")


def test_special_tokens_come_first_and_then_the_union(tmp_path, config):
    write(tmp_path, SOURCE, TARGET)
    vocabulary = read_marian_vocabulary(tmp_path, config)
    assert vocabulary.pieces == ["<pad>", "<unk>", "<s>", "</s>", "a", ">>fra<<", "b", "<unused 6>", "c", "<s>"]
    assert vocabulary.source.tolist() == [5, 1, 5, 0, 2, 3, 4, 6, MISSING_ROW, MISSING_ROW]
    assert vocabulary.target.tolist() == [5, 1, 5, 0, MISSING_ROW, MISSING_ROW, 2, MISSING_ROW, 3, 4]
    assert vocabulary.sides == {"source": [0, 1, 3, 4, 5, 6, 7], "target": [0, 1, 3, 6, 8, 9]}
    assert (
        vocabulary.special == {"<pad>": BOS, "<unk>": 1, "</s>": 3}
        and vocabulary.tags == [">>fra<<"]
        and not vocabulary.shared
    )


def test_one_vocabulary_is_kept_in_its_order(tmp_path, config):
    write(tmp_path, SOURCE, {})
    vocabulary = read_marian_vocabulary(tmp_path, replace(config, source_size=6, tokenizer={}))
    np.testing.assert_array_equal(vocabulary.source, vocabulary.target)
    assert vocabulary.pieces[4:] == ["a", ">>fra<<", "b"] and vocabulary.shared


def test_an_eos_that_the_other_side_numbers_otherwise_is_refused(tmp_path, config):
    write(tmp_path, SOURCE, {**TARGET, "</s>": 4, "<s>": 0})
    with pytest.raises(InputError, match=r"target_vocab\.json: </s>: expected id 0"):
        read_marian_vocabulary(tmp_path, config)
