"""Sentences in, translations out: one for each, in their order, whatever the batches."""

import functools
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.config.decoding import DecodingSettings
from qkv.decoding.build import build_search
from qkv.decoding.forced import forced_pass
from qkv.decoding.greedy import GreedySearch
from qkv.decoding.search import LENGTH_MULTIPLE, Hypotheses
from qkv.decoding.translator import CACHES, MEMORY_SHARE, BatchMemory, Draws, Translator
from qkv.errors import InputError
from qkv.model.interface import rows_for_each
from qkv.model.transformer import Transformer
from qkv.runtime.graphs import GraphCache
from qkv.text.batch import pad
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.layer_contract import stir
from tests.support.searches import search_by_full_passes
from tests.support.text import SENTENCES
from tests.support.tiny_models import SIZES, SOURCE, make_model, model_of

LINES = [SENTENCES[0], "", SENTENCES[2], "dog", "   ", *SENTENCES[3:], "chat"]
MOST = 24


@pytest.fixture(scope="module")
def translator(transformer, tokenizer):
    """A translator with such settings; making its graph is what takes long, so each is made once."""
    return functools.cache(
        lambda **settings: Translator(transformer, tokenizer, **({"max_positions": MOST} | settings))
    )


@pytest.fixture
def translate(translator):
    return lambda sentences, **settings: translator(**settings).translate(sentences)


def assert_same(translations, expected):
    for translation, expected_translation in zip(translations, expected, strict=True):
        assert all(
            getattr(translation, name) == getattr(expected_translation, name)
            for name in ("text", "source_ids", "ids", "truncated")
        )
        np.testing.assert_allclose(translation.log_probabilities, expected_translation.log_probabilities, atol=1e-4)


def test_each_sentence_gets_the_translation_that_full_passes_find(translate, transformer, tokenizer):
    for sentence, translation in zip(SENTENCES[:4], translate(SENTENCES[:4], max_target_ratio=0.5), strict=True):
        source = tokenizer.encode([sentence])[0]
        ids, log_probabilities = search_by_full_passes(transformer, [*source, EOS], min(len(source) // 2 + 10, MOST))
        assert (translation.source_ids, translation.ids) == (source, ids)
        np.testing.assert_allclose(translation.log_probabilities, log_probabilities, atol=1e-4)
        assert translation.text == tokenizer.decode([ids])[0]
        assert translation.truncated == (ids[-1] != EOS)


def test_translations_do_not_depend_on_the_number_of_threads(translate):
    assert translate(LINES, batch_sentences=1, threads=3) == translate(LINES, batch_sentences=1)


def test_there_is_one_translation_for_each_sentence_and_empty_ones_stay_empty(translate):
    translations = translate(LINES)
    assert len(translations) == len(LINES)
    for line, translation in zip(LINES, translations, strict=True):
        if line.strip():
            assert translation.ids and translation.source_ids
        else:
            assert (translation.text, translation.source_ids, translation.truncated) == ("", [], False)
            assert (translation.ids, translation.log_probabilities) == ([EOS], [0.0])


@pytest.mark.parametrize("lines", [[], [""], ["", " "]])
def test_translating_nothing_gives_empty_translations(translate, lines):
    assert [translation.text for translation in translate(lines)] == [""] * len(lines)


def test_translations_depend_neither_on_the_batch_size_nor_on_the_order_of_sentences(translate):
    order = np.random.default_rng(0).permutation(len(LINES))
    expected = translate(LINES)
    assert_same(translate(LINES, batch_sentences=1), expected)
    assert_same(translate([LINES[i] for i in order], batch_sentences=2), [expected[i] for i in order])


def test_a_source_over_the_longest_length_is_cut_to_it_and_marked(translate, tokenizer):
    short, long = "the cat", "the small dog sees the cat and " * 8
    whole = tokenizer.encode([long])[0]
    assert len(whole) > MOST
    translations = translate([short, long])
    assert translations[1].source_ids == whole[: MOST - 1]
    assert translations[1].truncated
    assert_same(translations[:1], translate([short]))


def test_a_source_of_as_many_tokens_as_its_batch_is_wide_keeps_its_eos(translate, tokenizer):
    sentence = "the small dog sees the cat and the small dog"
    while len(tokenizer.encode([sentence])[0]) != LENGTH_MULTIPLE:
        sentence = sentence[:-1]
    translations = translate([sentence])
    assert len(translations[0].source_ids) == LENGTH_MULTIPLE < MOST
    assert_same(translations, translate([sentence, f"{sentence} dog"])[:1])


def test_a_source_of_exactly_the_longest_length_is_not_cut(translate, tokenizer):
    ids = tokenizer.encode(["dog " * 30])[0][: MOST - 1]
    text = tokenizer.decode([ids])[0]
    assert len(tokenizer.encode([text])[0]) == MOST - 1
    translation = translate([text])[0]
    assert translation.source_ids == ids
    assert translation.truncated == (translation.ids[-1] != EOS)


@pytest.mark.parametrize(("ratio", "extra", "expected"), [(0, 3, 3), (1.5, 2, 11)])
def test_translations_are_no_longer_than_the_settings_allow(translate, tokenizer, ratio, extra, expected):
    text = "the small cat"
    assert len(tokenizer.encode([text])[0]) == 6
    translation = translate([text, "dog"], max_target_ratio=ratio, max_target_extra=extra)[0]
    whole = translate([text])[0]
    assert translation.ids == whole.ids[:expected]
    assert translation.truncated == (len(whole.ids) > expected or whole.truncated)


def test_the_longest_target_is_never_longer_than_the_positions(translator):
    lengths = translator(max_target_ratio=2, max_target_extra=10).max_lengths(np.array([1, 3, 7, 23]))
    np.testing.assert_array_equal(lengths, [12, 16, 24, 24])
    assert lengths.dtype == "int32"


def test_every_id_is_followed_by_its_log_probability_and_none_is_padding(translate):
    for translation in translate(LINES):
        assert len(translation.ids) == len(translation.log_probabilities)
        assert not {PAD, BOS} & set(translation.ids)
        assert EOS not in translation.ids[:-1]
        assert all(score <= 0 for score in translation.log_probabilities)


class LittleMemory(Translator):
    """A translator on a device that holds only `fits` sentences; `tried` has the sizes of all batches."""

    fits = 3

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.tried = []

    def _search(self, source, *arguments):
        self.tried.append(len(source))
        if len(source) > self.fits:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        return super()._search(source, *arguments)


def test_a_batch_that_does_not_fit_is_split_with_one_warning(translate, transformer, tokenizer, caplog):
    translator = LittleMemory(transformer, tokenizer, max_positions=MOST)
    sentences = [*LINES, *LINES[:6]]
    assert_same(translator.translate(sentences), translate(sentences))
    whole, half, *others = translator.tried
    assert whole == sum(bool(line.strip()) for line in sentences) == 12 and half == 6 and max(others) <= 3
    assert len(caplog.records) == 1 and "a batch of 12 sentences does not fit into memory" in caplog.text
    translator.tried.clear()
    assert_same(translator.translate(sentences), translate(sentences))
    assert max(translator.tried) <= 3 and len(caplog.records) == 1  # what did not fit is not tried again


def test_a_sentence_that_does_not_fit_is_refused_with_what_to_change(transformer, tokenizer):
    translator = LittleMemory(transformer, tokenizer, max_positions=MOST)
    translator.fits = 0
    with pytest.raises(InputError, match=r"a sentence of \d+ tokens takes more memory .* lower decoding\.beam_size"):
        translator.translate(LINES)


def test_batches_are_as_large_as_the_free_memory_allows(translate, transformer, tokenizer, monkeypatch):
    monkeypatch.setattr("qkv.decoding.translator.UNMEASURED_SENTENCES", 2)
    memory = BatchMemory.of(transformer, 1)
    sizes = []

    class Noted(LittleMemory):
        fits = 99

        def _search(self, source, max_lengths, length, constraints):
            longest = int((source != PAD).sum(axis=1).max())
            sizes.append(len(source) * memory.bytes_of_sentence(longest, int(max_lengths.max())))
            return super()._search(source, max_lengths, length, constraints)

    sentences = [*(3 * SENTENCES), *(9 * ["dog"])]
    longest = min(max(map(len, tokenizer.encode(sentences))) + 1, MOST)
    free = int(3.5 * memory.bytes_of_sentence(longest, MOST) / MEMORY_SHARE)
    translator = Noted(transformer, tokenizer, max_positions=MOST, free_memory=lambda: free)
    assert_same(translator.translate(sentences), translate(sentences))
    assert translator.tried[0] == 3 < max(translator.tried[1:])  # the first batch has the longest sentences
    assert max(sizes) <= free * MEMORY_SHARE
    tiny = Noted(transformer, tokenizer, max_positions=MOST, free_memory=lambda: 1)
    assert_same(tiny.translate(SENTENCES), translate(SENTENCES))
    assert set(tiny.tried) == {1}


@pytest.mark.parametrize("name", ["transformer", "decoder-only", "recurrent"])
def test_the_estimate_of_memory_counts_the_cache_that_steps_grow(name):
    model = model_of(name)
    source = np.tile(SOURCE[:, :6], 2)  # the 12 positions of the model
    memory = model.encode(source, training=False)
    rows = 3 * len(source)
    cache = rows_for_each(model.start_cache(memory), rows)
    for _ in range(5):
        output = model.decode(np.full((rows, 1), BOS, np.int32), memory, cache=cache, training=False)
        cache = output.cache
    estimate = BatchMemory.of(model, 3)
    held = sum(np.asarray(x).nbytes for x in keras.tree.flatten(cache)) / rows
    grown = estimate.cache_source * source.shape[1] + estimate.cache_target * 5
    assert held == pytest.approx(grown)
    assert estimate.logits == np.asarray(output.logits).nbytes / rows
    assert 3 * held < estimate.bytes_of_sentence(source.shape[1], 5) / CACHES


@pytest.mark.parametrize(
    ("score", "message"), [(float("nan"), "not numbers: its weights have diverged"), (-float("inf"), "no translation")]
)
def test_a_sentence_without_a_hypothesis_is_refused_with_what_to_change(transformer, tokenizer, score, message):
    class Search(GreedySearch):
        def __call__(self, model, memory, max_lengths, length, **given):
            batch = tf.shape(max_lengths)[0]
            ids = tf.ones((batch, 1, length), tf.int32)
            return Hypotheses(ids, tf.zeros((batch, 1, length)), tf.fill((batch, 1), score))

    with pytest.raises(InputError, match=message):
        Translator(transformer, tokenizer, search=Search()).translate(LINES)


def constant_graph(model, search):
    """A graph of a search whose numbers are constants."""

    def find(source, max_lengths, length):
        return search(model, model.encode(source, training=False)._replace(self_attention=()), max_lengths, length)

    shapes = [None, None], [None], []
    return tf.function(find, [tf.TensorSpec(shape, tf.int32) for shape in shapes], autograph=False)


NUMBERS = {
    "beam": [
        DecodingSettings(beam_size=3, n_best=2, length_penalty=alpha, coverage_penalty=beta, min_length=least)
        for alpha, beta, least in ((0.7, 0.3, 2), (1.9, 2.5, 5))
    ],
    "sampling": [
        DecodingSettings(search="sampling", n_best=2, temperature=temperature, top_p=top_p)
        for temperature, top_p in ((1.7, 0.9), (0.3, 0.4))
    ],
}


@pytest.mark.minutes
@pytest.mark.parametrize("kind", NUMBERS)
def test_settings_that_differ_in_numbers_share_a_graph_and_give_what_constants_give(kind, transformer, tokenizer):
    source = pad([[*tokenizer.encode([line])[0], EOS] for line in SENTENCES[:3]], MOST)
    limits = np.array([9, 12, 7], "int32")
    graphs = GraphCache()
    for seed, settings in enumerate(NUMBERS[kind]):
        search = build_search(settings, seed)
        graph = Translator(transformer, tokenizer, search=search, graphs=graphs).graph()
        hypotheses = graph(source, limits, 12, search.numbers, {})
        for values, expected in zip(hypotheses, constant_graph(transformer, search)(source, limits, 12), strict=True):
            np.testing.assert_array_equal(values, expected)
    assert len(graphs._values) == 1


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        ({"length_penalty": 0.7}, {"length_penalty": 1.3}),
        ({"min_length": 2}, {"min_length": 3}),
        ({"coverage_penalty": 0.2}, {"coverage_penalty": 3.0}),
        ({"beam_size": 1, "min_length": 1}, {"beam_size": 1, "min_length": 9}),
        ({"search": "sampling", "top_p": 0.5}, {"search": "sampling", "top_p": 0.7, "temperature": 0.5}),
    ],
)
def test_settings_share_a_graph_unless_what_is_computed_differs(transformer, tokenizer, settings, others):
    graphs = GraphCache()

    def graph(seed=1, **settings):
        search = build_search(DecodingSettings(**settings), seed)
        return Translator(transformer, tokenizer, search=search, graphs=graphs).graph()

    one = graph(**settings)
    assert one is graph(seed=2, **others)
    without = {name: settings[name] for name in settings if name in ("search", "beam_size")}
    assert (one is graph(**without)) == ("length_penalty" in settings)
    assert one is not graph(**settings, no_repeat_ngram=2)


def test_draws_go_on_from_batch_to_batch_and_from_call_to_call(transformer, tokenizer):
    search = build_search(DecodingSettings(search="sampling"), 3)
    translator = Translator(transformer, tokenizer, search=search, batch_sentences=1, max_positions=8)
    translations = [translator.translate(["dog"])[0] for _ in range(2)] + translator.translate(["dog", "dog"])
    for drawn, translation in zip(
        np.cumsum([0, *(len(translation.ids) for translation in translations)]), translations, strict=False
    ):
        other = replace(translator, search=replace(search, drawn=int(drawn)), draws=Draws())
        assert other.translate(["dog"])[0] == translation
    assert len({tuple(translation.ids) for translation in translations}) > 1
    assert len(translator.graphs._values) == 1


def test_matrices_of_low_rank_count_at_once(tokenizer):
    sizes = {"vocabulary_size": tokenizer.vocabulary_size, "max_positions": 24}
    model = make_model(Transformer, **SIZES | sizes)
    translator = Translator(model, tokenizer, max_positions=8)
    before = translator.translate(LINES[:1])[0].log_probabilities
    model.enable_lora(2)
    stir(model)
    after = translator.translate(LINES[:1])[0]
    ids = (np.array([ids], "int32") for ids in ([*after.source_ids, EOS], [BOS, *after.ids[:-1]], after.ids))
    np.testing.assert_allclose(after.log_probabilities, forced_pass(model, *ids).log_probabilities[0], atol=1e-4)
    assert after.log_probabilities != before
