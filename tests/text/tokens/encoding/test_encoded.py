"""Encoded sentences and pairs come back from disk as they went, or not at all, and are not read into memory."""

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.text.corpora import corpus
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences, encode_sentences
from tests.support.text import SENTENCES


def rows(sentences):
    return [row.tolist() for row in sentences]


def test_sentences_are_encoded_one_by_one_whatever_the_chunk(tokenizer, monkeypatch):
    texts = [*SENTENCES, "", SENTENCES[0]]
    expected = tokenizer.encode(texts)
    for chunk in (1, 2, 3, 100):
        monkeypatch.setattr(corpus, "CHUNK_SENTENCES", chunk)
        found = encode_sentences(texts, tokenizer)
        assert rows(found) == expected
        assert found.lengths.tolist() == [len(row) for row in expected]
        assert len(found) == len(texts)


def test_encoding_no_sentences_gives_no_rows(tokenizer):
    assert len(encode_sentences([], tokenizer)) == 0


def test_saved_sentences_are_loaded_as_a_map_of_the_file(tokenizer, tmp_path):
    sentences = encode_sentences([*SENTENCES, ""], tokenizer)
    sentences.save(tmp_path / "train.source")
    again = EncodedSentences.load(tmp_path / "train.source")
    assert rows(again) == rows(sentences)
    assert isinstance(again.ids.base, np.memmap)
    assert again.ids.dtype == np.int32


def test_rows_are_selected_in_order_and_joined_ones_follow_whatever_the_chunk(tokenizer, monkeypatch):
    sentences = encode_sentences([*SENTENCES, "", SENTENCES[0]], tokenizer)
    alone = rows(sentences)
    expected = [alone[6], alone[0], alone[6], alone[2], alone[6] + alone[1], alone[2] + alone[2]]
    for chunk in (1, 2, 3, 100):
        monkeypatch.setattr(corpus, "CHUNK_SENTENCES", chunk)
        assert rows(sentences.select([6, 0, 6, 2], [(6, 1), (2, 2)])) == expected
        assert rows(sentences.select([6, 0, 6, 2], np.zeros((0, 2), int))) == expected[:4]
    assert len(sentences.select([])) == 0


@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "pickle"])
def test_missing_or_damaged_files_are_named(tokenizer, tmp_path, damage):
    path = tmp_path / "train.source"
    encode_sentences(SENTENCES, tokenizer).save(path)
    ids = tmp_path / "train.source.ids.npy"
    if damage == "missing":
        ids.unlink()
    elif damage == "pickle":
        np.save(ids, np.array([{}], object), allow_pickle=True)
    else:
        ids.write_bytes(ids.read_bytes()[: 20 if damage == "cut" else 0])
    with pytest.raises(InputError, match=r"train.source: .*missing or damaged"):
        EncodedSentences.load(path)


def test_arrays_of_another_shape_or_kind_are_refused_as_damaged(tokenizer, tmp_path):
    path = tmp_path / "train.source"
    for ids, starts in (
        (np.zeros((2, 2), np.int32), [0, 2]),
        (np.zeros(2, np.int64), [0, 2]),
        (np.zeros(2, np.int32), [[0], [2]]),
        (np.zeros(2, np.int32), np.array([0, 2], np.int32)),
    ):
        np.save(f"{path}.ids.npy", ids)
        np.save(f"{path}.starts.npy", starts if isinstance(starts, np.ndarray) else np.array(starts, np.int64))
        with pytest.raises(InputError, match=r"train.source: .*missing or damaged"):
            EncodedSentences.load(path)


def test_ids_that_are_missing_at_the_end_are_counted(tmp_path):
    EncodedSentences(np.zeros(2, np.int32), np.array([0, 1, 3])).save(tmp_path / "train")
    with pytest.raises(InputError, match="2 ids, expected 3"):
        EncodedSentences.load(tmp_path / "train")


def test_pairs_are_loaded_as_they_were_saved_and_only_whole(tokenizer, tmp_path):
    pairs = EncodedPairs(encode_sentences(SENTENCES[:4], tokenizer), encode_sentences(SENTENCES[3:7], tokenizer))
    pairs.save(tmp_path / "train")
    again = EncodedPairs.load(tmp_path / "train")
    assert [rows(side) for side in again.sides] == [rows(side) for side in pairs.sides]
    pairs.source.select([0, 1]).save(tmp_path / "train.source")
    with pytest.raises(InputError, match="train: 2 encoded sources and 4 targets"):
        EncodedPairs.load(tmp_path / "train")
