"""Answers of a live run: those of its translator, of forced passes and of single perturbations, and what it refuses."""

import sys

import numpy as np
import pytest
from keras.ops import convert_to_numpy

from qkv.decoding.build import build_search, build_translator
from qkv.decoding.forced import forced_pass
from qkv.errors import InputError
from qkv.inspection.experiments.intervention import (
    CHANGES,
    ChangedModel,
    Intervention,
    changeable_layers,
    intervene,
    one_head,
)
from qkv.inspection.experiments.logit_parts import source_logits
from qkv.inspection.experiments.row_steps import row_steps, stepped_sites
from qkv.inspection.experiments.score_parts import explained_sites, find_attention, shared_float64, split_score
from qkv.live.live_run import LiveRun
from qkv.live.question import HeadChange, LogitQuestion, Question, RowQuestion, RowReplacement
from qkv.model.decoder_only import DecoderOnly
from qkv.run.trained_run import load_run
from qkv.text.batch import forced_batch
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.support import KEPT_RUNS
from tests.support.numpy_transformer import Pass
from tests.support.oracles import softmax
from tests.support.random_runs import random_run
from tests.support.tiny_models import DECODER_ONLY, shared_model, shared_transformer

TEXT = "the small cat sees Éva"
OFF = HeadChange(site="cross", layer=0, head=1, change="zeroed")


@pytest.fixture(scope="module")
def live(tokenizer, tmp_path_factory):
    return LiveRun(random_run(tokenizer, tmp_path_factory.mktemp("live")), "random")


@pytest.fixture(scope="module")
def plain(live):
    return live.answer(Question(text=TEXT))


def test_an_answer_is_what_the_translator_says(live, plain):
    settings = live.run.config.decoding.model_copy(update={"search": "beam", "beam_size": 1, "n_best": 1})
    search = build_search(settings, 0)
    (expected,) = build_translator(live.run.model, live.run.tokenizer, live.run.config, search).translate([TEXT])
    assert plain.facts["ids"] == expected.ids and plain.facts["sentence"]["hypothesis"] == expected.text
    assert plain.record.token_log_probabilities == expected.log_probabilities
    assert set(plain.record.attention) == {"cross", "encoder", "decoder"}
    plain.record.validate()


def test_a_sentence_is_composed_its_lines_are_joined_and_unknown_characters_are_named(live, plain):
    answer = live.answer(Question(text=TEXT.replace("É", "E\u0301").replace(" cat", "\ncat")))
    assert answer.record.source == TEXT and answer.facts["ids"] == plain.facts["ids"]
    assert live.answer(Question(text=f"{TEXT} Жд")).facts["difference"] == "the vocabulary has no 'Ж', 'д'"


def test_invisible_characters_change_no_answer_and_are_told(live, plain):
    answer = live.answer(Question(text=TEXT.replace(" c", "\xa0c\xad", 1)))
    assert answer.record.source == TEXT and answer.facts["ids"] == plain.facts["ids"]
    assert answer.facts["difference"] == (
        "invisible characters that the training text does not have, left out: U+00AD (1); read as a space: U+00A0 (1)"
    )
    with pytest.raises(InputError, match="character 1 is NUL"):
        live.answer(Question(text=f"\0{TEXT}"))


def test_a_text_is_divided_as_the_run_divides_it(live, monkeypatch):
    text = "The cat sees Éva.  She sees it.\n\nMr. Smith sees both."
    sentences = ["The cat sees Éva.", "She sees it.", "", "Mr. Smith sees both."]
    assert live.divide(text) == {"sentences": sentences, "spaces": ["  ", "\n", "\n"]}
    assert live.divide(TEXT) == {"sentences": [TEXT], "spaces": []}
    monkeypatch.setitem(sys.modules, "sentencex", None)
    vars(live.run.reader).pop("splitter")
    assert live.divide(text) is None


def test_a_change_of_nothing_changes_no_bit(live, plain):
    live.changes.set([])
    changed = ChangedModel(live.run.model, live.changes.of_heads)
    search = build_search(live.run.config.decoding.model_copy(update={"search": "beam", "beam_size": 1}), 0)
    (translation,) = build_translator(changed, live.run.tokenizer, live.run.config, search).translate([TEXT])
    assert (
        translation.ids == plain.facts["ids"] and translation.log_probabilities == plain.record.token_log_probabilities
    )


@pytest.mark.parametrize("change", ["zeroed", "uniform", "permuted"])
def test_a_changed_head_gives_what_the_perturbation_of_the_pair_gives(live, change):
    head_change = HeadChange(site="cross", layer=0, head=1, change=change)
    answer = live.answer(Question(text=TEXT, changes=[head_change]))
    batch = forced_batch([(live.run.tokenizer.encode([TEXT])[0], answer.facts["ids"])])
    layers = changeable_layers(live.run.model)["cross"]
    kinds = one_head(1, layers[0].num_heads, 0, 1, list(CHANGES).index(change))
    with intervene(layers, Intervention(kinds)):
        expected = forced_pass(live.run.model, *batch.ids, sites=["cross"])
    np.testing.assert_allclose(answer.record.token_log_probabilities, expected.log_probabilities[0], atol=1e-5)
    np.testing.assert_allclose(answer.record.attention["cross"], expected.attention["cross"][0], atol=1e-6)
    assert np.any(answer.record.attention["cross"][0, 0])


def test_heads_of_encoder_and_decoder_can_be_changed(live, plain):
    for site, shown in (("encoder_self", "encoder"), ("decoder_self", "decoder")):
        answer = live.answer(Question(text=TEXT, changes=[HeadChange(site=site, layer=0, head=2, change="zeroed")]))
        assert not np.any(answer.record.attention[shown][0, 2]) and np.any(plain.record.attention[shown][0, 2])
        assert answer.facts["logProbability"] != plain.facts["logProbability"]


def test_changes_last_for_one_question(live, plain):
    live.answer(Question(text=TEXT, changes=[OFF]))
    again = live.answer(Question(text=TEXT))
    assert again.facts["ids"] == plain.facts["ids"]
    np.testing.assert_array_equal(again.record.attention["cross"], plain.record.attention["cross"])


def test_alternatives_are_the_likeliest_tokens_and_hold_the_chosen_one(plain):
    for token, logged, row in zip(
        plain.facts["ids"], plain.record.token_log_probabilities, plain.facts["alternatives"], strict=True
    ):
        values = [value for _, _, value in row]
        assert values == sorted(values, reverse=True) and sum(np.exp(values)) < 1.001
        assert {id_: value for id_, _, value in row}.get(token, logged) == pytest.approx(logged, abs=1e-3)


def test_a_translation_goes_on_from_another_token(live, plain):
    other = next(id_ for id_, _, _ in plain.facts["alternatives"][1] if id_ not in (plain.facts["ids"][1], EOS, 0, 2))
    prefix = [plain.facts["ids"][0], other]
    answer = live.answer(Question(text=TEXT, prefix=prefix))
    assert answer.facts["ids"][:2] == prefix and answer.facts["prefixTokens"] == 2
    whole = live.answer(Question(text=TEXT, target=answer.facts["ids"]))
    assert whole.facts["ids"] == answer.facts["ids"] and whole.record.mode == "forced"
    assert whole.facts["logProbability"] == pytest.approx(answer.facts["logProbability"], abs=1e-3)


def test_a_given_row_changes_the_tokens_after_it(live, plain):
    weights = plain.record.attention["cross"][0, 1, 2].tolist()
    question = {"text": TEXT, "target": plain.facts["ids"]}
    row = {"site": "cross", "layer": 0, "head": 1, "query": 2}
    same = live.answer(Question(**question, row=RowReplacement(**row, weights=weights)))
    expected = live.answer(Question(**question))
    values, expected_values = (
        np.array([[v for _, _, v in r] for r in a.facts["alternatives"]]) for a in (same, expected)
    )
    np.testing.assert_allclose(values, expected_values, atol=1e-3)
    moved = [0.0] * len(weights)
    moved[0] = 1.0
    other = live.answer(Question(**question, row=RowReplacement(**row, weights=moved)))
    np.testing.assert_array_equal(other.record.attention["cross"][0, 1, 2], moved)
    assert other.facts["alternatives"][:2] == expected.facts["alternatives"][:2]
    assert other.facts["alternatives"][2] != expected.facts["alternatives"][2]


def test_the_best_translations_of_a_beam_are_listed(live):
    answer = live.answer(Question(text=TEXT, beam_size=3, n_best=3))
    scores = [translation["score"] for translation in answer.facts["nBest"]]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert answer.facts["ids"] == answer.facts["nBest"][0]["ids"]


@pytest.mark.parametrize("text", ["", "猫 \u202e</script>", "a " * 300])
def test_any_text_is_answered(live, text):
    answer = live.answer(Question(text=text))
    answer.record.validate()
    assert len(answer.facts["ids"]) <= live.run.config.model.max_positions


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"prefix": [9_999]}, r"tokens: expected ids below"),
        ({"prefix": [0]}, r"tokens: expected ids below .*except those of padding"),
        ({"prefix": [5] * 65}, r"tokens: expected at most 64, found 65"),
        ({"target": [EOS, 5]}, r"target: expected no end of sentence"),
        ({"changes": [OFF.model_copy(update={"layer": 1})]}, r"cross: expected a layer from 0 to 0"),
        ({"changes": [OFF.model_copy(update={"site": "sideways"})]}, "site: expected encoder_self, decoder_self"),
        (
            {"target": [5, EOS], "row": RowReplacement(site="cross", layer=0, head=0, query=2, weights=[1.0] * 9)},
            r"row: expected a query from 0 to 1",
        ),
        (
            {"target": [5, EOS], "row": RowReplacement(site="cross", layer=0, head=0, query=1, weights=[1.0])},
            r"row: expected .* weights",
        ),
    ],
)
def test_what_the_run_does_not_have_is_refused(live, asked, message):
    with pytest.raises(InputError, match=message):
        live.answer(Question(text=TEXT, **asked))


@pytest.mark.minutes
def test_other_architectures_answer_and_keep_their_heads():
    live = LiveRun(load_run(KEPT_RUNS / "recurrent"), "recurrent")
    answer = live.answer(Question(text="the cat sleeps ."))
    answer.record.validate()
    assert answer.facts["sites"] == {"cross": [1, 1], "encoder": [0, 1], "decoder": [0, 1]}
    assert live.changes.heads == {}
    with pytest.raises(InputError, match="only the heads of a Transformer can be changed"):
        live.answer(Question(text="the cat sleeps .", changes=[OFF]))


ROW = {"text": TEXT, "site": "cross", "layer": 0, "head": 1, "query": 2}


def test_the_scores_of_a_row_are_explained_as_the_run_explains_them(live, plain):
    facts = live.explain(RowQuestion(**ROW, target=plain.facts["ids"]))
    pair = [*live.run.tokenizer.encode([TEXT])[0], EOS], [BOS, *plain.facts["ids"][:-1]]
    parts = split_score(shared_float64(live.run.model, live.run.graphs), pair, "decoder.0.cross", 1, 2).merged()
    assert (facts["queryParts"], facts["keyParts"]) == (parts.query_parts, parts.key_parts)
    assert facts["keys"] == plain.record.source_tokens
    np.testing.assert_allclose(facts["scores"], parts.scores, atol=1e-5)
    differences = np.array(facts["differences"])
    assert differences.shape == (len(facts["keys"]), len(parts.query_parts), len(parts.key_parts))
    np.testing.assert_allclose(differences.sum((1, 2)), parts.scores - parts.scores.mean(), atol=1e-4)
    weights = np.exp(facts["scores"]) / np.exp(facts["scores"]).sum()
    np.testing.assert_allclose(weights, plain.record.attention["cross"][0, 1, 2], atol=1e-5)


@pytest.mark.parametrize("site", ["cross", "decoder_self", "encoder_self"])
def test_a_row_is_computed_as_numpy_computes_it(live, plain, site):
    """From the weights of the model and the recorded states alone; `numpy_transformer` is another implementation."""
    ids = plain.facts["ids"]
    pair = [*live.run.tokenizer.encode([TEXT])[0], EOS], [BOS, *ids[:-1]]
    facts = live.row(RowQuestion(**ROW | {"site": site}, target=ids))
    expected = Pass(live.run.model, *pair)
    layer = {"cross": "decoder.0.cross", "decoder_self": "decoder.0.self", "encoder_self": "encoder.0.self"}[site]
    seen = slice(0, 3 if site == "decoder_self" else None)
    weights = expected.values[f"{layer}.weights"][1, 2, seen]
    values = expected.values[f"{layer}.values"][1, seen]
    np.testing.assert_allclose(facts["weights"], weights, atol=1e-5)
    np.testing.assert_allclose(facts["values"], values, atol=1e-4)
    np.testing.assert_allclose(facts["context"], weights @ values, atol=1e-4)
    np.testing.assert_allclose(facts["products"], np.array(facts["keys"]) @ facts["query"], atol=1e-4)
    np.testing.assert_allclose(facts["scores"], np.array(facts["products"]) * facts["scale"], atol=1e-4)
    np.testing.assert_allclose(softmax(np.array(facts["scores"])), weights, atol=1e-5)
    assert facts["scale"] == pytest.approx(len(facts["query"]) ** -0.5)
    tokens = live.run.tokenizer.pieces(pair[1] if site == "decoder_self" else pair[0])
    assert facts["tokens"] == tokens[seen]
    attention = find_attention(live.run.model, pair, layer, 1, 2)
    kernel = np.split(convert_to_numpy(attention.output_projection.kernel), 3)[1]
    np.testing.assert_allclose(facts["lengths"], np.linalg.norm(values @ kernel, axis=-1), atol=1e-4)
    alone = live.run.tokenizer.pieces(expected.read_out(values @ kernel).argmax(-1).tolist())
    assert facts["words"] == ([] if site == "encoder_self" else alone)


def test_the_words_of_values_are_those_that_explain_prints(live, plain):
    ids = plain.facts["ids"]
    pair = [*live.run.tokenizer.encode([TEXT])[0], EOS], [BOS, *ids[:-1]]
    steps = row_steps(shared_float64(live.run.model, live.run.graphs), pair, "decoder.0.cross", 1, 2, ids[2])
    printed = live.run.tokenizer.pieces(steps.values["alone"].argmax(-1).tolist())
    assert live.row(RowQuestion(**ROW, target=ids))["words"] == printed


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"site": "norms"}, "site: expected encoder_self, decoder_self, cross, found 'norms'"),
        ({"layer": 4}, r"decoder\.4\.cross: expected one of"),
        ({"head": 3}, "head: expected a number from 0 to 2, found 3"),
        ({"query": 99}, "row: expected a number from 0 to .*, found 99"),
        ({"target": [9_999]}, "tokens: expected ids below"),
    ],
)
def test_rows_that_are_not_there_are_not_explained(live, plain, asked, message):
    for ask in (live.explain, live.row):
        with pytest.raises(InputError, match=message):
            ask(RowQuestion(**ROW | {"target": plain.facts["ids"]} | asked))


def test_the_logit_of_a_token_is_split_over_the_source_words_and_what_else_there_is(live, plain):
    ids = plain.facts["ids"]
    pair = [*live.run.tokenizer.encode([TEXT])[0], EOS], [BOS, *ids[:-1]]
    model, (source, target) = shared_float64(live.run.model, live.run.graphs), (np.array([ids]) for ids in pair)
    logits = convert_to_numpy(model.decode(target, model.encode(source, training=False), training=False).logits)[0]
    for query in (0, len(ids) - 1):
        facts = live.split(LogitQuestion(text=TEXT, target=ids, query=query))
        values = [value for _, value in facts["sources"] + facts["others"]]
        assert sum(values) == pytest.approx(facts["total"], abs=1e-4)
        assert facts["total"] == pytest.approx(logits[query, ids[query]] - logits[query].mean(), abs=1e-4)
        assert [token for token, _ in facts["sources"]] == plain.record.source_tokens
        read = source_logits(model, pair, ids)[query]
        np.testing.assert_allclose([value for _, value in facts["sources"]], read, atol=1e-5)
        assert np.abs(read).min() > 0


def test_a_logit_that_is_not_there_is_not_split(live, plain):
    with pytest.raises(InputError, match=f"row: expected a number from 0 to {len(plain.facts['ids']) - 1}, found 99"):
        live.split(LogitQuestion(text=TEXT, target=plain.facts["ids"], query=99))
    with pytest.raises(InputError, match="tokens: expected ids below"):
        live.split(LogitQuestion(text=TEXT, target=[9_999], query=0))


def test_a_run_says_which_scores_it_can_explain(live):
    assert live.explained == ["encoder_self", "decoder_self", "cross"]
    for settings, expected in (
        ({"cross": {"score": "additive"}}, ["encoder_self", "decoder_self"]),
        ({"encoder_self": {"mechanism": "uniform"}}, []),
    ):
        model = shared_transformer(**settings)
        assert explained_sites(model) == expected and stepped_sites(model) == expected
    assert stepped_sites(shared_transformer(positions="rotary")) == ["cross"]
    assert explained_sites(shared_model(DecoderOnly, **DECODER_ONLY)) == []
