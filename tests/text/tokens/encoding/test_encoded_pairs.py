"""Encoded pairs come back from disk whole, or not at all."""

import pytest

from qkv.errors import InputError
from qkv.text.tokens.encoding import EncodedPairs, encode_sentences
from tests.support.text import SENTENCES


def rows(sentences):
    return [row.tolist() for row in sentences]


def test_pairs_are_loaded_as_they_were_saved_and_only_whole(tokenizer, tmp_path):
    pairs = EncodedPairs(encode_sentences(SENTENCES[:4], tokenizer), encode_sentences(SENTENCES[3:7], tokenizer))
    pairs.save(tmp_path / "train")
    again = EncodedPairs.load(tmp_path / "train")
    assert [rows(side) for side in again.sides] == [rows(side) for side in pairs.sides]
    pairs.source.select([0, 1]).save(tmp_path / "train.source")
    with pytest.raises(InputError, match="train: 2 encoded sources and 4 targets"):
        EncodedPairs.load(tmp_path / "train")
