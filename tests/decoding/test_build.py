"""The searches over models: every architecture, n-best, sampling, and what the constraints forbid."""

from types import SimpleNamespace

import numpy as np
import pytest

from qkv.config.decoding import DecodingSettings
from qkv.decoding.beam import BeamSearch
from qkv.decoding.build import build_search, build_translator
from qkv.decoding.greedy import GreedySearch
from qkv.decoding.sampling import Sampling
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.devices import pretend_gpus
from tests.support.searches import MOST_TOKENS, SEARCHES, forced_scores, found_by, words
from tests.support.tiny_models import SOURCE, model_of, shared_transformer


@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"search": "sampling", "n_best": 2}])
def test_a_target_that_reaches_its_limit_ends_in_eos_if_that_is_forced(settings):
    model = model_of("transformer")
    search = build_search(DecodingSettings(**settings, force_eos=True, min_length=20), seed=1)
    hypotheses = found_by(search, model, most=5)
    assert all(len(words(row)) == 5 and words(row).index(EOS) == 4 for row in hypotheses.ids.reshape(-1, MOST_TOKENS))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("transformer", SEARCHES["greedy"]),
        ("recurrent of one context vector", SEARCHES["beam"]),
        ("transformer", SEARCHES["beam with penalties"]),
        ("recurrent", SEARCHES["sampling"]),
    ],
)
def test_every_search_finds_targets_with_the_log_probabilities_that_the_model_gives_them(name, settings):
    model = model_of(name)
    hypotheses = found_by(build_search(settings, seed=1), model)
    assert hypotheses.ids.shape == (len(SOURCE), settings.n_best, MOST_TOKENS)
    assert np.all(np.isfinite(hypotheses.scores))
    assert hypotheses.scores.shape == hypotheses.ids.shape[:2]
    if settings.kind == "beam":  # those that ended, best first, then those that did not, best first
        ended = (hypotheses.ids == EOS).any(-1)
        assert np.all(ended[:, :-1] >= ended[:, 1:])
        as_they_rank = np.lexsort((-hypotheses.scores, ~ended), axis=1)
        np.testing.assert_array_equal(as_they_rank, np.broadcast_to(np.arange(settings.n_best), ended.shape))
    else:
        np.testing.assert_allclose(hypotheses.scores, hypotheses.log_probabilities.sum(-1), atol=1e-5)
    expected = forced_scores(model, hypotheses.ids)
    for of_ids, of_scores, of_expected in zip(hypotheses.ids, hypotheses.log_probabilities, expected, strict=True):
        for ids, scores, forced in zip(of_ids, of_scores, of_expected, strict=True):
            tokens = words(ids)
            assert not {PAD, BOS} & set(tokens) and EOS not in tokens[:-1]
            np.testing.assert_allclose(scores[: len(tokens)], forced[: len(tokens)], atol=2e-4)
            assert not scores[len(tokens) :].any()


@pytest.mark.minutes
@pytest.mark.parametrize(
    "make",
    [
        lambda constraints: GreedySearch(**constraints),
        lambda constraints: build_search(DecodingSettings(search="sampling", n_best=3, **constraints), 1),
    ],
    ids=["greedy", "sampling"],
)
def test_constraints_hold_in_every_search(make):
    free = found_by(make({}), shared_transformer())
    hypotheses = found_by(make({"min_length": 4, "no_repeat_ngram": 1}), shared_transformer())

    def breaks(row):
        tokens = words(row)
        return len(set(tokens)) < len(tokens) or (EOS in tokens and len(tokens) <= 4)

    assert any(breaks(row) for row in free.ids.reshape(-1, MOST_TOKENS))  # or the constraints would say nothing
    assert not any(breaks(row) for row in hypotheses.ids.reshape(-1, MOST_TOKENS))


def test_samples_are_settled_by_the_seed_and_those_of_a_sentence_are_drawn_independently():
    def drawn(seed):
        return found_by(
            build_search(DecodingSettings(search="sampling", n_best=4), seed), shared_transformer()
        ).ids.tolist()

    draws = drawn(1)
    assert draws == drawn(1) != drawn(2)
    assert len({tuple(row) for row in draws[0]}) > 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"beam_size": 1}, GreedySearch), ({}, BeamSearch), ({"search": "sampling"}, Sampling)],
    ids=str,
)
def test_settings_choose_the_search(settings, expected):
    assert type(build_search(DecodingSettings(**settings), 1)) is expected


@pytest.mark.parametrize("setting", ["auto", 7])
def test_batches_are_sized_by_the_memory_of_a_gpu_unless_the_config_has_a_number(setting, monkeypatch):
    def translator():
        decoding = DecodingSettings(batch_sentences=setting)
        config = SimpleNamespace(decoding=decoding, model=SimpleNamespace(max_positions=24))
        return build_translator(shared_transformer(), None, config, GreedySearch())

    on_processor = translator()
    assert on_processor.batch_sentences == (64 if setting == "auto" else 7) and on_processor.free_memory() is None
    pretend_gpus(monkeypatch, (8, 0))
    monkeypatch.setattr("qkv.runtime.devices.gpu_memory", lambda: [1000])
    monkeypatch.setattr("tensorflow.config.experimental.get_memory_info", lambda device: {"current": 300, "peak": 900})
    assert translator().batch_sentences == (2048 if setting == "auto" else 7)
    assert translator().free_memory() == (700 if setting == "auto" else None)
