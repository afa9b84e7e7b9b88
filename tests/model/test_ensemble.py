"""Several models as one: equal to each of equal ones, the mean of different ones, whatever the search."""

import numpy as np
import pytest
from keras import ops

from qkv.config.decoding import DecodingSettings
from qkv.decoding.build import build_search
from qkv.decoding.forced import forced_pass
from qkv.model.ensemble import Ensemble
from qkv.text.batch import pad
from qkv.text.tokens.special_tokens import BOS, PAD
from tests.support.oracles import log_softmax
from tests.support.searches import MOST_TOKENS as L
from tests.support.searches import SEARCHES, found_by, words
from tests.support.tiny_models import MODELS, SIZES, SOURCE, TARGET, make_model, model_of, shared_model


def mixed():
    """Two architectures, with other numbers of layers and heads."""
    deeper = shared_model(MODELS["transformer"][0], **SIZES | {"d_model": 12, "num_heads": 3, "decoder_layers": 2})
    return [deeper, model_of("luong")]


def mean_by_definition(members, source, target):
    """The mean of the members' log-softmaxes, as logits of a distribution: `(B, T, V)` in float64."""
    return log_softmax(np.mean([log_softmax(model(source, target, training=False)) for model in members], axis=0))


def assert_the_scores_are_those_of_the_mean(members, found, atol=1e-4):
    count = found.ids.shape[1]
    rows = found.ids.reshape(-1, L)
    targets = np.concatenate([np.full((len(rows), 1), BOS), rows[:, :-1]], 1).astype("int32")
    expected = mean_by_definition(members, np.repeat(SOURCE, count, 0), targets)
    expected = np.take_along_axis(expected, rows[..., None], -1).reshape(found.ids.shape)
    np.testing.assert_allclose(found.log_probabilities, np.where(found.ids == PAD, 0, expected), atol=atol)


@pytest.mark.minutes
def test_a_model_with_itself_is_that_model():
    model, search = model_of("decoder-only"), build_search(SEARCHES["beam with penalties"], seed=1)
    alone, together = found_by(search, model), found_by(search, Ensemble([model, model]))
    np.testing.assert_equal(together, alone)


@pytest.mark.minutes
def test_sampling_scores_by_the_mean_of_the_log_probabilities():
    found = found_by(build_search(SEARCHES["sampling"], seed=1), Ensemble(mixed()))
    assert_the_scores_are_those_of_the_mean(mixed(), found)


def test_greedy_search_takes_the_token_with_the_highest_mean():
    members = mixed()
    found = found_by(build_search(SEARCHES["greedy"], seed=1), Ensemble(members))
    assert_the_scores_are_those_of_the_mean(members, found)
    ids = found.ids[:, 0]
    targets = np.concatenate([np.full((len(ids), 1), BOS), ids[:, :-1]], axis=1).astype("int32")

    def likeliest(members):
        scores = mean_by_definition(members, SOURCE, targets)
        scores[..., [PAD, BOS]] = -np.inf
        return np.where(ids == PAD, PAD, scores.argmax(-1))

    np.testing.assert_array_equal(ids, likeliest(members))
    assert all((likeliest([model]) != ids).any() for model in members)  # or the mean would say nothing


def test_a_forced_pass_gives_the_mean_and_the_token_to_which_it_is_highest():
    members, output = mixed(), np.roll(TARGET, -1, axis=1)[:, :3]
    forced = forced_pass(Ensemble(members), SOURCE, TARGET, output)
    expected = mean_by_definition(members, SOURCE, TARGET)[:, :3]
    np.testing.assert_allclose(
        forced.log_probabilities, np.take_along_axis(expected, output[..., None], -1)[..., 0], atol=1e-5
    )
    np.testing.assert_array_equal(forced.likeliest, expected.argmax(-1))


def test_a_prefix_is_kept_and_scored_by_the_mean_whatever_the_other_sentences_of_the_batch():
    members, prefixes = mixed(), [[7, 7, 9], [], [5]]
    search = build_search(DecodingSettings(beam_size=2, n_best=2), seed=1)

    def run(rows):
        ensemble, most = Ensemble(members), np.full(len(rows), 5, "int32")
        memory = ensemble.encode(SOURCE[rows], training=False)
        found = search(ensemble, memory, most, L, pad([prefixes[row] for row in rows], L))
        return type(found)(*map(np.asarray, found))

    found = run([0, 1, 2])
    assert_the_scores_are_those_of_the_mean(members, found)
    for row, prefix in enumerate(prefixes):
        assert all(words(ids)[: len(prefix)] == prefix for ids in found.ids[row])
    alone = run([2])  # the others are shorter, or padded
    np.testing.assert_array_equal(alone.ids[0], found.ids[2])
    np.testing.assert_allclose(alone.scores[0], found.scores[2], atol=1e-5)


@pytest.mark.minutes
def test_coverage_counts_every_member_alike_however_many_layers_it_has():
    members, weight = mixed(), 0.4
    settings = DecodingSettings(beam_size=2, length_penalty=0, coverage_penalty=weight, force_eos=True)
    found = found_by(build_search(settings, seed=1), Ensemble(members), most=4)
    bonuses = []
    for row, ids in enumerate(found.ids[:, 0]):
        tokens = words(ids)
        source, target = SOURCE[row : row + 1], np.array([[BOS, *tokens[:-1]]], "int32")
        layers = [model.decode(target, model.encode(source)).cross for model in members]
        assert [len(of_member) for of_member in layers] == [2, 1]
        received = np.mean([np.mean([np.mean(layer, axis=1) for layer in one], axis=0) for one in layers], axis=0)
        covered = received[0].sum(axis=0)[source[0] != PAD]
        bonuses.append(weight * np.log(np.minimum(covered, 1)).sum())
        forced = len(tokens) == 4  # the fourth token must be EOS, and costs nothing
        total = found.log_probabilities[row, 0][: 3 if forced else None].sum()
        np.testing.assert_allclose(found.scores[row, 0], total + bonuses[-1], atol=1e-4)
    assert min(bonuses) < -0.01


def test_members_of_other_precisions_are_averaged_in_float32():
    rounded = make_model(MODELS["transformer"][0], **SIZES, dtype="mixed_bfloat16")
    members = [rounded, model_of("recurrent")]
    output = Ensemble(members).decode(TARGET, Ensemble(members).encode(SOURCE))
    assert output.logits.dtype == "float32"
    np.testing.assert_allclose(log_softmax(output.logits), mean_by_definition(members, SOURCE, TARGET), atol=1e-5)


def test_a_member_without_cross_attention_takes_no_part_in_coverage():
    both = Ensemble([model_of("recurrent of one context vector"), model_of("luong")])
    (cross,) = both.decode(TARGET, both.encode(SOURCE)).cross
    luong = model_of("luong")
    np.testing.assert_array_equal(cross, luong.decode(TARGET, luong.encode(SOURCE)).cross[0])
    assert ops.shape(cross)[1] == 1


def test_an_ensemble_has_members():
    with pytest.raises(ValueError, match="members: expected at least one model, found none"):
        Ensemble([])
