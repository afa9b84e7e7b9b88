"""The activations and scores of sentences that are given as text, and patching between them."""

import numpy as np
import pytest

import qkv
from qkv.errors import InputError
from qkv.inspection.experiments.activations import Inside
from tests.support import KEPT_RUNS

CLEAN = "the cat eats the apple .", "le chat noir mange la pomme ."
CORRUPTED = "the cat eats the tree .", CLEAN[1]


@pytest.fixture(scope="module")
def run():
    return qkv.load(KEPT_RUNS / "transformer")


def test_tokens_and_probabilities_belong_to_the_rows_of_the_arrays(run):
    (inside,) = run.cache([CLEAN], ["decoder.*.cross.weights"])
    assert isinstance(inside, Inside)
    assert set(inside.arrays) == {f"decoder.{i}.cross.weights" for i in range(len(run.model.decoder_blocks))}
    assert inside.target_input_tokens[1:] == inside.target_output_tokens[:-1]
    assert (inside.target_input_tokens[0], inside.target_output_tokens[-1]) == ("<s>", "</s>")
    rows, columns = len(inside.target_output_tokens), len(inside.source_tokens)
    assert rows != columns
    assert inside.arrays["decoder.0.cross.weights"].shape[1:] == (rows, columns)
    ids = [run.trained.tokenizer.encode([side])[0] + [3] for side in CLEAN]
    recorder = run.trained.recorder(["cross"])
    likelihood = recorder.forced_graph(
        np.array([ids[0]]), np.array([[2, *ids[1][:-1]]]), np.array([ids[1]])
    ).log_probabilities
    np.testing.assert_allclose(inside.log_probabilities, np.array(likelihood)[0], atol=1e-5)


def test_a_source_alone_is_read_with_its_translation(run):
    (inside,) = run.cache([CLEAN[0]], ["*.residual"])
    translation = run.trained.translator.translate([CLEAN[0]])[0]
    assert inside.target_output_tokens == run.trained.tokenizer.pieces(translation.ids)


def test_everything_patched_gives_the_clean_probabilities_and_nothing_new_gives_the_own(run):
    clean, corrupted = run.cache([CLEAN, CORRUPTED], ["*.residual"])
    whole = run.patch(CLEAN, CORRUPTED, ["decoder.*.feed_forward.residual"])
    np.testing.assert_array_equal(whole.log_probabilities, clean.log_probabilities)
    own = run.patch(CORRUPTED, CORRUPTED, ["*"])
    np.testing.assert_array_equal(own.log_probabilities, corrupted.log_probabilities)
    some = run.patch(CLEAN, CORRUPTED, ["decoder.0.cross.head.0"]).log_probabilities
    assert not np.array_equal(some, clean.log_probabilities) and not np.array_equal(some, corrupted.log_probabilities)


@pytest.mark.minutes
@pytest.mark.parametrize("architecture", ["decoder_only", "recurrent"])
def test_runs_of_other_architectures_are_read_and_patched(architecture):
    run, other = qkv.load(KEPT_RUNS / architecture), ("the apple eats the cat .", CLEAN[1])
    clean, corrupted = run.cache([CLEAN, other])
    assert clean.arrays["decoder.0.cross.weights"].shape[1:] == (
        len(clean.target_input_tokens),
        len(clean.source_tokens),
    )
    np.testing.assert_array_equal(clean.arrays["logits"], clean.logits)
    whole = run.patch(CLEAN, other, ["encoder.*"])
    np.testing.assert_array_equal(whole.log_probabilities, clean.log_probabilities)
    assert not np.array_equal(corrupted.log_probabilities, clean.log_probabilities)


def test_the_parts_of_a_score_are_named_after_the_tokens_of_the_sentence(run):
    (inside,) = run.cache([CLEAN], ["decoder.0.cross.scores"])
    parts = run.explain(CLEAN, "decoder.0.cross", head=1, row=2)
    assert parts.keys == inside.source_tokens
    assert (parts.query, parts.predicted) == (inside.target_input_tokens[2], inside.target_output_tokens[2])
    expected = inside.arrays["decoder.0.cross.scores"][1, 2]
    np.testing.assert_allclose(parts.scores, expected, atol=1e-5 * np.abs(expected).max())
    of_source = run.explain(CLEAN, "encoder.0.self", head=0, row=3)
    assert (of_source.query, of_source.predicted) == (inside.source_tokens[3], "")


def test_a_single_text_in_the_place_of_a_list_is_refused_rather_than_read_by_letters(run):
    with pytest.raises(InputError, match="expected a list"):
        run.trained.translator.translate(CLEAN[0])


@pytest.mark.parametrize(
    "sentence", [(*CLEAN, "x"), CLEAN[:1], (CLEAN[0], 5), 5, None, {"a": "b"}, b"a", ["a", ["b"]]], ids=repr
)
def test_a_sentence_is_text_or_a_pair_of_texts(run, sentence):
    told = r"^sentence: expected text, or a pair \(source, target\) of texts, found "
    with pytest.raises(InputError, match=told):
        run.cache([sentence])
    for pair in ((sentence, CLEAN), (CLEAN, sentence)):
        with pytest.raises(InputError, match=told):
            run.patch(*pair, ["*"])
    with pytest.raises(InputError, match=told):
        run.explain(sentence, "decoder.0.cross", head=0, row=0)


@pytest.mark.parametrize("sentences", [5, None, {"a": "b"}, b"a"], ids=repr)
def test_sentences_of_another_type_are_refused(run, sentences):
    with pytest.raises(InputError, match=r"^sentences: expected a sentence, a pair, or a list of them, found "):
        run.cache(sentences)


@pytest.mark.parametrize("names", [5, None, [5]], ids=repr)
def test_names_of_values_of_another_type_are_refused(run, names):
    for read in (lambda: run.cache([CLEAN], names), lambda: run.patch(CLEAN, CLEAN, names)):
        with pytest.raises(InputError, match=r"^names: expected names such as "):
            read()


def test_a_single_sentence_and_a_single_name_need_no_list(run):
    name = "decoder.0.cross.weights"
    for sentence in (CLEAN, CLEAN[0]):
        inside, (listed,) = run.cache(sentence, name), run.cache([sentence], [name])
        assert inside.target_input_tokens == listed.target_input_tokens and list(inside.arrays) == [name]
        np.testing.assert_array_equal(inside.arrays[name], listed.arrays[name])
    assert len(run.cache(list(CLEAN), name)) == 2, "a list of two texts has two sources"
    patched = [run.patch(CLEAN, CLEAN, names).logits for names in (name, [name])]
    np.testing.assert_array_equal(*patched)


def test_names_may_come_one_by_one(run):
    (inside,) = run.cache((pair for pair in [CLEAN]), (name for name in ["decoder.0.cross.weights"]))
    assert list(inside.arrays) == ["decoder.0.cross.weights"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"layer": 5}, "layer: expected text such as 'decoder.0.cross', found 5"),
        ({"head": "0"}, "head: expected a number from 0 to 1, found '0'"),
        ({"head": 0.5}, "head: expected a number from 0 to 1, found 0.5"),
        ({"head": True}, "head: expected a number from 0 to 1, found True"),
        ({"row": None}, "row: expected a number from 0 to "),
    ],
)
def test_scores_are_explained_of_a_named_layer_and_numbered_heads_and_rows(run, changes, told):
    with pytest.raises(InputError, match=told):
        run.explain(CLEAN, **{"layer": "decoder.0.cross", "head": 0, "row": 0, **changes})
