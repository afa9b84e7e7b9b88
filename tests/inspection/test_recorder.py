"""Records of translations and references: what one forced pass says, cut to each sentence's own tokens."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.decoding.forced import forced_pass
from qkv.decoding.translator import Translator
from qkv.inspection import recorder as recorder_module
from qkv.inspection.archive import ArchiveWriter
from qkv.inspection.recorder import AttentionRecorder, pair_references, pair_translations
from qkv.model.transformer import Transformer
from qkv.text.lines.line import words_of
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.support.text import SENTENCES
from tests.support.tiny_models import SIZES, TWO_LAYERS, make_model, shared_transformer

SOURCES = [*SENTENCES[:4], "", "dog", SENTENCES[4]]
REFERENCES = ["le chat voit le chien", "le chien", "", "the small dog sees Éva", "Éva", "le chien et le chat", "dog"]
ALL = ("cross", "encoder", "decoder")
MOST = 24


@pytest.fixture(scope="module")
def model(tokenizer):
    return shared_transformer(**TWO_LAYERS, vocabulary_size=tokenizer.vocabulary_size, max_positions=MOST)


@pytest.fixture(scope="module")
def recorder(model, tokenizer):
    return AttentionRecorder(model, tokenizer, sites=ALL, batch_tokens=40, max_positions=MOST, threads=2)


@pytest.fixture(scope="module")
def translations(model, tokenizer):
    return Translator(model, tokenizer, max_target_ratio=0.5, max_positions=MOST).translate(SOURCES)


def pairs_of_references(recorder):
    ids = (recorder.tokenizer.encode(side) for side in (SOURCES, REFERENCES))
    return pair_references(SOURCES, REFERENCES, *ids, MOST)


def assert_same(found, expected):
    """Compares everything but the ids."""
    for one, other in zip(found, expected, strict=True):
        assert (one.source_tokens, one.target_output_tokens) == (other.source_tokens, other.target_output_tokens)
        np.testing.assert_allclose(one.token_log_probabilities, other.token_log_probabilities, atol=1e-5)
        assert one.attention.keys() == other.attention.keys()
        for site, weights in one.attention.items():
            np.testing.assert_allclose(weights, other.attention[site], atol=1e-5)


def words_spelt(tokens, words):
    """The words that tokens with the same number spell together."""
    spelt = {}
    for token, word in zip(tokens, words, strict=True):
        if word is not None:
            spelt[word] = spelt.get(word, "") + token.replace("▁", "")
    return [spelt[word] for word in sorted(spelt)]


def test_a_record_is_the_forced_pass_over_its_sentence_alone(model, tokenizer, recorder):
    for record, source, target in zip(
        recorder.record_references(SOURCES, REFERENCES), SOURCES, REFERENCES, strict=True
    ):
        if not source or not target:
            continue
        source_ids, target_ids = tokenizer.encode([source, target])
        batch = (np.array([row], "int32") for row in ([*source_ids, EOS], [BOS, *target_ids], [*target_ids, EOS]))
        forced = forced_pass(model, *batch, ALL)
        np.testing.assert_allclose(record.token_log_probabilities, forced.log_probabilities[0], atol=1e-5)
        for site in ALL:
            np.testing.assert_allclose(record.attention[site], forced.attention[site][0], atol=1e-5)
        record.validate()


def test_log_probabilities_of_translations_are_those_of_the_forced_pass(model, recorder, translations):
    records = list(recorder.record(pair_translations(SOURCES, REFERENCES, translations)))
    for record, translation in zip(records, translations, strict=True):
        record.validate()
        assert (record.mode, record.hypothesis, record.truncated) == ("greedy", translation.text, translation.truncated)
        ids = translation.ids  # of an empty source EOS alone, which no search looked at
        batch = (np.array([row], "int32") for row in ([*translation.source_ids, EOS], [BOS, *ids[:-1]], ids))
        forced = forced_pass(model, *batch, ("cross",))
        np.testing.assert_allclose(record.token_log_probabilities, forced.log_probabilities[0], atol=1e-4)
    assert [record.reference for record in records] == REFERENCES


@pytest.mark.parametrize("batch_tokens", [1, 1000])
def test_records_do_not_depend_on_the_batch_size(monkeypatch, recorder, batch_tokens):
    expected = list(recorder.record_references(SOURCES, REFERENCES))
    monkeypatch.setattr(recorder, "batch_tokens", batch_tokens)
    assert_same(recorder.record_references(SOURCES, REFERENCES), expected)


def test_records_do_not_depend_on_the_order_of_sentences(recorder):
    expected = list(recorder.record_references(SOURCES, REFERENCES))
    assert_same(recorder.record_references(SOURCES[::-1], REFERENCES[::-1]), expected[::-1])


def test_ids_count_on_across_windows(monkeypatch, recorder):
    expected = list(recorder.record_references(SOURCES, REFERENCES))
    monkeypatch.setattr(recorder_module, "WINDOW_SENTENCES", 2)
    found = list(recorder.record(pairs_of_references(recorder)))
    assert [record.id for record in found] == list(range(len(SOURCES)))
    assert [record.source for record in found] == SOURCES
    assert_same(found, expected)


def test_records_do_not_depend_on_sentences_of_another_window_or_shard(monkeypatch, recorder, tmp_path):
    assert ArchiveWriter(tmp_path, manifest={}).sentences_per_shard == recorder_module.WINDOW_SENTENCES
    monkeypatch.setattr(recorder_module, "WINDOW_SENTENCES", 4)
    pairs = list(pairs_of_references(recorder))
    for alone, among in zip(recorder.record(pairs[4:]), list(recorder.record(pairs))[4:], strict=True):
        assert alone.token_log_probabilities == among.token_log_probabilities
        for site in ALL:
            np.testing.assert_array_equal(alone.attention[site], among.attention[site])


def test_tokens_of_references_belong_to_their_words(recorder):
    for record, source, reference in zip(
        recorder.record_references(SOURCES, REFERENCES), SOURCES, REFERENCES, strict=True
    ):
        found = (record.mode, record.reference, record.hypothesis, record.truncated)
        assert found == ("forced", reference, reference, False)
        assert words_spelt(record.source_tokens, record.source_words) == words_of(source)
        assert words_spelt(record.target_output_tokens, record.target_words) == words_of(reference)
        assert record.source_tokens[-1] == record.target_output_tokens[-1] == "</s>"
        assert record.source_words[-1] is record.target_words[-1] is None
        assert record.target_input_tokens == ["<s>", *record.target_output_tokens[:-1]]


def test_tokens_of_translations_belong_to_their_words(recorder, translations):
    for record in recorder.record(pair_translations(SOURCES, None, translations)):
        words = [word for word in record.target_words if word is not None]
        assert sorted(set(words)) == list(range(len(words_of(record.hypothesis))))
        assert record.reference is None


def test_empty_sentences_have_eos_alone(recorder):
    records = list(recorder.record_references(SOURCES, REFERENCES))
    assert records[4].source_tokens == ["</s>"] and records[4].source_words == [None]
    assert records[2].target_output_tokens == ["</s>"] and records[2].target_input_tokens == ["<s>"]
    assert records[2].attention["cross"].shape[2] == 1 and records[4].attention["cross"].shape[3] == 1


def test_no_sentences_give_no_records(recorder):
    assert list(recorder.record_references([], [])) == []


@pytest.mark.parametrize("side", ["source", "target"])
def test_sentences_that_are_too_long_are_cut_and_marked_truncated(tokenizer, recorder, side):
    long, short = "the small dog sees the cat and " * 8, "le chat"
    pair = (long, short) if side == "source" else (short, long)
    cut, whole = recorder.record_references([pair[0], short], [pair[1], "the dog"])
    cut.validate()
    assert cut.truncated and not whole.truncated
    ids = tokenizer.encode([long])[0]
    if side == "source":
        assert cut.source_tokens == [*tokenizer.pieces(ids[: MOST - 1]), "</s>"]
    else:
        assert cut.target_output_tokens == tokenizer.pieces(ids[:MOST])
        assert len([word for word in cut.target_words if word is not None]) == MOST
    assert cut.hypothesis == pair[1]


def test_a_reference_that_is_cut_keeps_its_words_around_unknown_characters(recorder):
    reference = "the 9a9 cat sees " + "the small dog " * 8  # no digit was trained on
    cut, whole = recorder.record_references(["a", "a"], [reference, "the 9a9 cat sees"])
    assert cut.truncated and not whole.truncated and "<unk>" in whole.target_output_tokens
    assert cut.target_words[: len(whole.target_words) - 1] == whole.target_words[:-1]


def test_sentences_of_exactly_the_longest_length_are_whole(tokenizer, recorder):
    text = ("dog " * (MOST - 1)).strip()
    lengths = len(tokenizer.encode([text])[0])
    words = words_of(text)[: (MOST - 1) * len(words_of(text)) // lengths]
    text = " ".join(words)
    assert len(tokenizer.encode([text])[0]) == MOST - 1
    (record,) = recorder.record_references([text], [text])
    assert not record.truncated and len(record.source_tokens) == len(record.target_output_tokens) == MOST


def test_records_hold_all_sites_of_the_recorder_by_default(model, tokenizer):
    (record,) = AttentionRecorder(model, tokenizer, sites=("decoder", "cross"), max_positions=MOST).record_references(
        ["a"], ["dog"]
    )
    assert set(record.attention) == {"decoder", "cross"}


@pytest.mark.minutes
def test_records_hold_the_sites_that_a_call_names(model, tokenizer):
    recorder = AttentionRecorder(model, tokenizer, sites=("cross", "gradients", "encoder"), max_positions=MOST)
    whole = list(recorder.record(pairs_of_references(recorder)))
    assert set(whole[0].attention) == {"cross", "gradients", "encoder"}
    for sites in (("encoder", "cross"), ("cross", "gradients")):
        for record, expected in zip(recorder.record(pairs_of_references(recorder), sites=sites), whole, strict=True):
            assert set(record.attention) == set(sites)
            for site in sites:
                np.testing.assert_array_equal(record.attention[site], expected.attention[site])


def test_by_token_every_token_but_eos_is_a_word(recorder):
    for record in recorder.record_references(SOURCES, REFERENCES):
        found = record.by_token()
        assert found.source_words == [*range(len(record.source_tokens) - 1), None]
        assert found.target_words == [*range(len(record.target_output_tokens) - 1), None]
        found.validate()


def test_references_are_read_some_at_a_time_and_give_the_same_records(recorder, monkeypatch):
    expected = list(recorder.record_references(SOURCES, REFERENCES))
    monkeypatch.setattr("qkv.inspection.recorder.ENCODED_SENTENCES", 2)
    read = []

    class Text(list):
        def __getitem__(self, index):
            read.append(index)
            return super().__getitem__(index)

        def __iter__(self):
            raise AssertionError("read as a whole")

    found = list(recorder.record_references(Text(SOURCES), Text(REFERENCES)))
    assert [part.stop - part.start for part in read] == [2] * 8
    assert [record.id for record in found] == list(range(len(SOURCES)))
    assert_same(found, expected)


def test_search_and_passes_are_traced_once_for_any_text(tokenizer, monkeypatch):
    """A text of another length or number of sentences is another shape, but no other graph."""
    model = make_model(Transformer, **SIZES | {"vocabulary_size": tokenizer.vocabulary_size, "max_positions": MOST})
    encode, traces = Transformer.encode, []

    def count(self, source_ids, **arguments):
        assert not tf.executing_eagerly()
        traces.append(source_ids.shape)
        return encode(self, source_ids, **arguments)

    monkeypatch.setattr(Transformer, "encode", count)
    translator = Translator(model, tokenizer, max_positions=MOST)
    recorder = AttentionRecorder(model, tokenizer, sites=("cross", "encoder"), max_positions=MOST)
    for sentences in (SOURCES, SOURCES[:1], ["dog", "a dog"], 3 * SOURCES):
        translator.translate(sentences)
        list(recorder.record_references(sentences, sentences))
    assert [list(shape) for shape in traces] == 2 * [[None, None]]  # of the search and of the pass
