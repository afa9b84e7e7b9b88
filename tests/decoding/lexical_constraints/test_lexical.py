"""Required and banned phrases in searches: brute force, every segmentation, every architecture, mixed batches."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from qkv.config.decoding import DecodingSettings
from qkv.decoding.beam import BeamSettings, beam_search
from qkv.decoding.build import build_search
from qkv.decoding.lexical_constraints import Ban, LexicalConstraint, make_requirements
from qkv.decoding.translator import Translator
from qkv.text.phrases.banned import BannedPhrases, make_ban_table
from qkv.text.phrases.required import encode_phrase, tokens_needed
from qkv.text.phrases.token_text import TokenText
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.minutes import by_hand
from tests.support.searches import log_probabilities, next_of_chain, normalized, words
from tests.support.text import SENTENCES, SPECIAL, ToyTokenizer, contains_words
from tests.support.tiny_models import SOURCE, model_of

pytestmark = pytest.mark.slow

TOY = ToyTokenizer([*SPECIAL, "▁a", "b", "▁b", "ab", "▁c"])
TOKENS = TokenText(TOY, tokenized=True)
V = TOY.vocabulary_size
SELDOM = V - 1  # the last token, which brute force leaves out
TEXTS = [token for token in range(SELDOM) if token not in (PAD, BOS, EOS)]


def toy_chains(batch, seed=0):
    logits = np.random.default_rng(seed).normal(size=(batch, V, V)) * 2
    logits[:, :, [PAD, BOS, SELDOM]] = -1e9, -1e9, -60.0
    return normalized(logits)


def required(rows, tokens=TOKENS):
    return [[encode_phrase(text, tokens, "here") for text in row] for row in rows]


def banned(texts, tokens=TOKENS, leads_out=False):
    symbols = tuple(map(tokens.of_text, texts))
    return BannedPhrases(tuple(texts), symbols, tokens, make_ban_table(symbols, tokens, leads_out))


def search_chain(chain, settings, most, rows=None, ban=(), leads_out=False):
    requirements = make_requirements(required(rows), ops.convert_to_tensor(TOKENS.symbols)) if rows else None
    most = np.broadcast_to(np.array(most, "int32"), len(chain))
    constraint = LexicalConstraint(
        Ban(banned(ban, leads_out=leads_out).table) if ban else None,
        requirements and type(requirements)(*map(ops.convert_to_tensor, requirements)),
        ops.convert_to_tensor(most),
        settings.size,
        settings.force_eos,
    )
    state = (ops.zeros((len(chain), int(most.max())), "int32"), ops.zeros((), "int32"))
    hypotheses = beam_search(next_of_chain, chain, state, most, int(most.max()), settings, constraint=constraint)
    return type(hypotheses)(*map(np.asarray, hypotheses))


def texts_of(hypotheses):
    """The texts of all hypotheses, for each sentence."""
    return [
        TOY.decode([words(ids) for ids, score in zip(of_ids, of_scores, strict=True) if np.isfinite(score)])
        for of_ids, of_scores in zip(hypotheses.ids, hypotheses.scores, strict=True)
    ]


@functools.cache
def every_target(length):
    rows = [[*row, EOS] for n in range(length) for row in itertools.product(TEXTS, repeat=n)]
    return rows, TOY.decode(rows)


def best_of_all(chain, settings, length, phrases=(), ban=()):
    """The score and tokens of the best target that keeps to the phrases, among all that end within a length."""
    candidates = []
    for tokens, text in zip(*every_target(length), strict=True):
        if all(contains_words(text, phrase) for phrase in phrases) and not any(
            contains_words(text, phrase) for phrase in ban
        ):
            score = sum(log_probabilities(chain, tokens)) / ((5 + len(tokens)) / 6) ** settings.length_penalty
            candidates.append((score, tokens))
    return max(candidates)


@pytest.mark.parametrize("ban", [(), pytest.param(("b",), marks=by_hand), ("a", "ab b")], ids=str)
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all_targets_that_keep_to_phrases(ban):
    rows = [[], ["ab"], ["a", "b"], ["b a"], ["bb"]]
    rows = [
        [phrase for phrase in row if not any(contains_words(phrase, banned_phrase) for banned_phrase in ban)]
        for row in rows
    ]
    # A token more where phrases are banned: near the limit, phrases are written as the tokenizer writes them.
    longest = 5 if ban else 4
    settings, chain = BeamSettings(size=700, best=1, length_penalty=0.6), toy_chains(len(rows))
    hypotheses = search_chain(chain, settings, longest, rows, ban)
    for sentence, phrases in enumerate(rows):
        score, tokens = best_of_all(chain[sentence], settings, longest, phrases, ban)
        assert words(hypotheses.ids[sentence, 0]) == tokens, phrases
        np.testing.assert_allclose(hypotheses.scores[sentence, 0], score, rtol=1e-5)


@pytest.mark.parametrize(
    ("size", "end"), [(5, {}), (2, {"force_eos": True, "min_length": 3, "no_repeat_ngram": 1, "renormalize": True})]
)
def test_phrases_are_met_and_bans_hold_even_where_the_model_would_never_say_so(size, end):
    rows = [["ab"], [], ["a", "b"], ["b a", "abab"], ["a a a"], ["bb", "a", "ab"]]
    chain = toy_chains(len(rows), seed=3)
    chain[::2, :, 4] = -40.0  # not even the beginning of most phrases
    ban = ("ba", "a bb", "ab ab")
    needed = [tokens_needed(row) for row in required(rows)]
    most = [max(5, tokens_needed + extra) for tokens_needed, extra in zip(needed, [0, 3] * 3, strict=True)]
    hypotheses = search_chain(chain, BeamSettings(size=size, best=2, **end), most, rows, ban, leads_out=True)
    for phrases, texts in zip(rows, texts_of(hypotheses), strict=True):
        assert texts
        for text in texts:
            assert all(contains_words(text, phrase) for phrase in phrases), (phrases, text)
            assert not any(contains_words(text, phrase) for phrase in ban), text


def test_bans_alone_hold_for_every_segmentation_and_for_what_is_cut():
    chain, ban = toy_chains(40, seed=5), ("ab", "b b", "a")
    free = search_chain(chain, BeamSettings(size=3, best=3), 5)
    hypotheses = search_chain(chain, BeamSettings(size=3, best=3), 5, ban=ban)
    broken = [
        sum(contains_words(text, phrase) for phrase in ban for row in texts_of(x) for text in row)
        for x in (free, hypotheses)
    ]
    assert broken[0] > 10 and broken[1] == 0


@pytest.mark.minutes
def test_sentences_without_phrases_are_found_as_without_a_list_bit_for_bit():
    chain, settings = toy_chains(6, seed=6), BeamSettings(size=4, best=4)
    rows = [["ab", "b"] if sentence % 3 == 0 else [] for sentence in range(6)]
    plain, mixed = search_chain(chain, settings, 8), search_chain(chain, settings, 8, rows)
    unbanned = search_chain(chain, settings, 8, ban=("bbbbbbbbbbbbbbbbbbbbbb",))
    for one, other, third in zip(plain, mixed, unbanned, strict=True):
        free = [sentence for sentence, row in enumerate(rows) if not row]
        np.testing.assert_array_equal(one[free], other[free])
        np.testing.assert_array_equal(one, third)
    for sentence in (0, 1):
        alone = search_chain(chain[[sentence]], settings, 8, [rows[sentence]])
        np.testing.assert_array_equal(alone.ids[0], mixed.ids[sentence])
        np.testing.assert_allclose(alone.scores[0], mixed.scores[sentence], rtol=1e-6)


LETTERS = ["▁a", "b", "▁b", "ab", "c", "▁c", "d", "▁", "e", "▁cd", "▁e", "f", "▁f"]
OF_MODEL = TokenText(ToyTokenizer([*SPECIAL, *LETTERS]), tokenized=True)
BAN = banned(["ab", "b", "c c", "e"], OF_MODEL, leads_out=True)


def found_by(model, settings, rows=None, source=SOURCE, prefixes=None, most=10):
    search, arguments = build_search(DecodingSettings(**settings), 1, BAN), {}
    if rows:
        arguments["required"] = make_requirements(required(rows, OF_MODEL), ops.convert_to_tensor(OF_MODEL.symbols))
    if prefixes:
        arguments["prefix"] = np.array([[*row, *[PAD] * (most - len(row))] for row in prefixes], "int32")

    def run(source, most_each):
        memory = model.encode(source, training=False)._replace(self_attention=())
        return search(model, memory, most_each, most, **arguments)

    signature = (tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32))
    hypotheses = tf.function(run, input_signature=signature, autograph=False)(
        source, np.full(len(source), most, "int32")
    )
    return OF_MODEL.tokenizer.decode([words(row) for row in hypotheses.ids.numpy().reshape(-1, most)])


@pytest.mark.minutes
@pytest.mark.parametrize("name", ["transformer", "recurrent"])
def test_every_architecture_keeps_to_phrases(name):
    model = model_of(name)
    rows = [["cd", "a c"], [], ["fd"]]
    settings = {"beam_size": 5, "n_best": 2, "coverage_penalty": 0.3}
    texts = found_by(model, settings, rows, prefixes=[[], [6, 8], [16, 16]])
    assert texts[2].startswith("bc") and texts[4].startswith("f f")
    for text, phrases in zip(texts, [row for row in rows for _ in range(2)], strict=True):
        assert all(contains_words(text, phrase) for phrase in phrases), text
        assert not any(contains_words(text, phrase) for phrase in BAN.texts), text


@pytest.mark.parametrize(
    "settings", [{"beam_size": 1, "force_eos": True, "min_length": 4}, {"search": "sampling", "n_best": 20}], ids=str
)
def test_other_searches_keep_to_bans_and_refuse_requirements(settings):
    model = model_of("transformer")
    texts = found_by(model, settings)
    assert not any(contains_words(text, phrase) for phrase in BAN.texts for text in texts)
    with pytest.raises(ValueError, match="required: expected None, because only a beam search"):
        found_by(model, settings, [["cd"], [], []])


@pytest.fixture(scope="module")
def translator(transformer, tokenizer):
    tokens = TokenText(tokenizer, tokenized=True)
    search = build_search(DecodingSettings(beam_size=5, n_best=2), seed=1)
    options = {"search": search, "max_positions": 24, "batch_sentences": 3, "max_target_ratio": 0.5}
    return Translator(transformer, tokenizer, tokens=tokens, **options)


@pytest.mark.minutes
def test_translations_contain_their_phrases_in_any_batch_and_others_are_as_without(translator, tokenizer):
    sources = tokenizer.encode([*SENTENCES[:5], "", ""])
    phrases = required([["Hund", "le chat"], [], ["où"], [], ["die Katze"], ["chien"], []], TokenText(tokenizer, True))
    translations = translator.translate_ids(sources, None, phrases)
    plain = translator.translate_ids(sources)
    for required_phrases, n_best, plain_n_best in zip(phrases, translations, plain, strict=True):
        if not required_phrases:
            assert [translation.ids for translation in n_best] == [translation.ids for translation in plain_n_best]
            np.testing.assert_allclose(n_best[0].score, plain_n_best[0].score, atol=1e-5)
        for translation in n_best:
            assert translation.required == [phrase.text for phrase in required_phrases]
            assert all(contains_words(translation.text, phrase) for phrase in translation.required), translation.text
    assert "chien" in translations[5][0].text and translations[6][0].text == ""


def test_required_phrases_need_the_tokens_of_the_target_language(transformer, tokenizer):
    translator = Translator(transformer, tokenizer, search=build_search(DecodingSettings(), 1), max_positions=24)
    with pytest.raises(ValueError, match="tokens: expected the target language's, because"):
        translator.translate_ids([[5]], None, required([["chat"]], TokenText(tokenizer, tokenized=True)))
