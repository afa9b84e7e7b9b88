"""Links between words become links between tokens: against a loop over both, and joined pairs against their parts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.config.choices.text import WORD_UNITS
from qkv.text.batch import link_matrices
from qkv.text.corpora import corpus as corpora
from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.word_links import GoldAlignment
from qkv.text.lines.line import is_empty, words_of
from qkv.text.tokens import token_links
from qkv.text.tokens.bpe_dropout import BPEDropout, sample_segmentation
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences, encode_sentences
from qkv.text.tokens.special_tokens import UNK
from qkv.text.tokens.token_links import TokenLinker, iterate_word_numbers, link_tokens
from qkv.text.tokens.words import BETWEEN_SPACES, NO_WORD
from tests.support.text import SENTENCES

LINKS = [{(0, 0), (1, 2), (1, 0)}, set(), {(2, 1)}, {(0, 1), (0, 0), (3, 2)}]


@pytest.fixture
def linked(tokenizer):
    return link(tokenizer, LINKS)


def link(tokenizer, links, sides=(SENTENCES[:4], SENTENCES[1:5])):
    gold = (GoldAlignment(frozenset(), frozenset(one)) for one in links)
    corpus = Corpus(*sides, range(len(sides[0])), "pairs")
    pairs = EncodedPairs(*(encode_sentences(side, tokenizer) for side in sides))
    return TokenLinker(corpus, gold, tokenizer.side_models, BETWEEN_SPACES).link(pairs)


def test_tokens_are_linked_as_their_words_are(linked, tokenizer):
    assert max(len(row) for row in linked.source) > 5  # words of several tokens
    for number, (source, target) in enumerate(pairwise(SENTENCES[:5])):
        words = [tokenizer.words_from_text([text])[0] for text in (source, target)]
        expected = {(i, j) for i, w in enumerate(words[0]) for j, v in enumerate(words[1]) if (w, v) in LINKS[number]}
        assert set(map(tuple, linked.links[number].reshape(-1, 2).tolist())) == expected


def test_links_outside_a_sentence_are_left_out(linked, tokenizer):
    more = [LINKS[0] | {(99, 0), (0, 99)}, {(50, 50)}, *LINKS[2:]]
    links = link(tokenizer, more).links
    np.testing.assert_array_equal(links.ids, linked.links.ids)


def test_an_empty_side_has_no_links(tokenizer):
    links = link(tokenizer, [{(0, 0)}], ([""], SENTENCES[:1])).links
    assert (len(links), len(links.ids)) == (1, 0)


@pytest.mark.parametrize("unit", WORD_UNITS)
@given(text=st.text("aeht▁ \u00a0\u3000猫☃\t", max_size=12))
def test_words_are_counted_as_in_evaluation_whatever_is_in_the_text(tokenizers, unit, text):
    for tokenizer in tokenizers.values():
        text = tokenizer.as_read(text)  # training text is learnt with all its characters
        (expected,) = tokenizer.words_from_text([text], unit)
        for model in tokenizer.side_models:
            (found,) = iterate_word_numbers(model, unit, [text])
            assert [None if word == NO_WORD else word for word in found.tolist()] == expected


@pytest.mark.parametrize("dropout", [0.0, 0.6])
@pytest.mark.parametrize("unit", WORD_UNITS)
@given(sentences=st.lists(st.text("aeht▁ \u00a0猫☃", max_size=12), min_size=1, max_size=3))
def test_drawn_tokens_belong_to_the_words_of_their_last_characters(tokenizer, dropout, unit, sentences):
    model = tokenizer.side_models[1]
    usual = list(iterate_word_numbers(model, unit, sentences))
    encoded = EncodedSentences.from_rows(model.encode(sentences))
    ids, ends = sample_segmentation(sentences, encoded, BPEDropout.of(tokenizer, dropout), 1, 1000, model)
    words = list(iterate_word_numbers(model, unit, sentences, ends))
    for number, sentence in enumerate(sentences):
        if not dropout:
            assert words[number].tolist() == usual[number].tolist()
        if is_empty(sentence):
            assert not len(ids[number])
        if UNK in ids[number] or is_empty(sentence):
            continue
        marked = "".join(f"▁{word}" for word in words_of(sentence))
        ends = np.cumsum([len(piece) for piece in tokenizer.pieces(ids[number])])
        of_characters = words_of_characters(sentence, unit, tokenizer)
        assert len(of_characters) == len(marked)
        assert words[number].tolist() == [of_characters[end - 1] for end in ends]


def words_of_characters(sentence, unit, tokenizer):
    """The word of each character of the words with their marks in front."""
    if unit == "spaces":
        return [number for number, word in enumerate(words_of(sentence)) for _ in f"▁{word}"]
    if unit == "subwords":
        pieces = tokenizer.pieces(tokenizer.encode([sentence])[0])
        numbers = [number for number, piece in enumerate(pieces) for _ in piece]
        marked = "".join(f"▁{word}" for word in words_of(sentence))
        assert "".join(pieces) == marked.rstrip("▁") or "<unk>" in pieces
        return numbers + [NO_WORD] * (len(marked) - len(numbers))
    numbers, before = [], 0
    characters = sum(not character.isspace() for character in sentence)
    for word in words_of(sentence):
        numbers.append(before)
        for character in word:
            numbers.append(before)
            before += not character.isspace()
    return [number if number < characters else NO_WORD for number in numbers]


def test_words_that_share_a_token_are_linked_together():
    """As evaluation groups them; a token is the last of its words."""
    words = [np.array(row) for row in ([1, 3, NO_WORD], [0, 0, 2, NO_WORD])]
    for link, expected in (((0, 1), [0, 2]), ((2, 0), [1, 0, 1, 1]), ((4, 0), []), ((0, 3), []), ((3, 2), [1, 2])):
        assert link_tokens(*words, [link]).tolist() == expected


def test_drawn_tokens_that_would_be_too_many_keep_the_places_of_the_usual_ones(tokenizer):
    model = tokenizer.side_models[0]
    encoded = encode_sentences(SENTENCES, tokenizer)
    _, ends = sample_segmentation(SENTENCES, encoded, BPEDropout.of(tokenizer, 0.9), 1, 0, model)
    assert [row.tolist() for row in ends] == model.ends(SENTENCES)


def test_tokens_are_linked_by_several_processes_as_by_one(linked, tokenizer, monkeypatch):
    monkeypatch.setattr(corpora, "SHARD_PAIRS", 2)
    monkeypatch.setattr(token_links, "usable_cores", lambda: 2)
    monkeypatch.setattr(token_links, "is_large", lambda corpus: True)
    assert [row.tolist() for row in link(tokenizer, LINKS).links] == [row.tolist() for row in linked.links]


def matrices(pairs):
    lengths = pairs.target.lengths.max() + 1, pairs.source.lengths.max() + 2
    return link_matrices(list(pairs.links), *map(int, lengths))


def test_the_links_of_joined_pairs_are_those_of_both_side_by_side(linked):
    joined = linked.select(range(4), [[0, 2], [3, 3], [1, 0]])
    for number, (first, second) in enumerate([(0, 2), (3, 3), (1, 0)], start=4):
        width, height = linked.source.lengths[first], linked.target.lengths[first]
        found, alone = matrices(joined), matrices(linked)
        np.testing.assert_array_equal(found[number, :height, :width], alone[first, :height, :width])
        length, reach = linked.target.lengths[second], linked.source.lengths[second]
        np.testing.assert_array_equal(
            found[number, height : height + length, width : width + reach], alone[second, :length, :reach]
        )
        assert found[number].sum() == alone[first].sum() + alone[second].sum()
    np.testing.assert_array_equal(matrices(joined)[:4, : alone.shape[1], : alone.shape[2]], alone)


def test_links_are_chosen_and_come_back_from_disk_with_their_pairs(linked, tmp_path):
    chosen = linked.select([3, 0])
    chosen.save(tmp_path / "train")
    again = EncodedPairs.load(tmp_path / "train", linked=True)
    for number, row in enumerate((3, 0)):
        np.testing.assert_array_equal(again.links[number], linked.links[row])
        np.testing.assert_array_equal(again.target[number], linked.target[row])
    assert EncodedPairs.load(tmp_path / "train").links is None
    assert isinstance(again.links, EncodedSentences)
