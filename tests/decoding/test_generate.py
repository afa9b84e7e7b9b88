"""`model.generate` finds the targets that a run's translator finds, for any batch of sources."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from qkv.config.decoding import DecodingSettings
from qkv.decoding.beam import BeamSearch, BeamSettings
from qkv.decoding.generate import BATCH_SENTENCES, LENGTH_EXTRA, LENGTH_RATIO
from qkv.decoding.greedy import GreedySearch
from qkv.decoding.sampling import Sampling
from qkv.decoding.translator import Translator
from qkv.model import interface
from qkv.text.batch import pad
from qkv.text.tokens.special_tokens import EOS, PAD
from tests.support.searches import search_by_full_passes
from tests.support.tiny_models import model_of

pytestmark = pytest.mark.slow

ARCHITECTURES = ("transformer", "recurrent", "decoder-only")
VOCABULARY = 17
MOST = 12
SEARCHES = {
    "greedy": GreedySearch(),
    "beam": BeamSearch(BeamSettings(size=4, best=3, length_penalty=0.6, coverage_penalty=0.2)),
    "sampling": Sampling(seed=7, top_p=0.9, count=3),
}


class NoText:
    """A tokenizer for a translator whose text nobody reads."""

    def decode(self, ids):
        return [""] * len(ids)


def draw_sources(count, seed=1, longest=MOST - 1):
    """Sources of mixed lengths that end in EOS, one of them without a token."""
    generator = np.random.default_rng(seed)
    lengths = [0, *generator.integers(1, longest + 1, count - 1)]
    return [[*generator.integers(EOS + 1, VOCABULARY, length).tolist(), EOS] for length in lengths]


def tokens(row):
    return [int(token) for token in row if token != PAD]


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    return model_of(request.param)


@pytest.mark.parametrize("name", SEARCHES)
def test_targets_and_scores_are_those_of_a_translator(model, name):
    search = SEARCHES[name]
    sources = draw_sources(BATCH_SENTENCES + 5)  # two batches, so that draws go on
    translator = Translator(model, NoText(), search=search, max_positions=MOST, max_target_extra=LENGTH_EXTRA)
    expected = translator.translate_ids([row[:-1] for row in sources])
    count = 1 if name == "greedy" else 3
    ids, scores = model.generate(sources, search, n_best=count, return_scores=True)
    assert ids.dtype == np.int32 and ids.shape[:2] == scores.shape == (len(sources), count)
    assert ids.shape[2] == max(len(translation.ids) for n_best in expected for translation in n_best)
    for rows, row_scores, n_best in zip(ids, scores, expected, strict=True):
        found = [(tokens(row), score) for row, score in zip(rows, row_scores, strict=True) if np.isfinite(score)]
        assert [row for row, _ in found] == [translation.ids for translation in n_best]
        np.testing.assert_allclose([score for _, score in found], [one.score for one in n_best], atol=1e-5)
        assert not np.asarray(rows)[~np.isfinite(row_scores)].any()


def test_greedy_targets_are_those_of_full_passes(model):
    sources = draw_sources(5, longest=MOST - 4)
    targets = model.generate(sources, max_length=MOST - 2)
    assert tokens(targets[0]) == [EOS]
    for source, target in zip(sources[1:], targets[1:], strict=True):
        expected, _ = search_by_full_passes(model, source, MOST - 2)
        assert tokens(target) == list(expected)


def test_lists_arrays_and_tensors_give_the_same_targets_in_their_order(model):
    sources = draw_sources(9)
    expected = model.generate(sources)
    array = pad(sources, MOST + 4)  # with padding that no row needs
    for same in (
        array,
        array.astype("float32"),
        keras.ops.convert_to_tensor(array),
        [np.array(row) for row in sources],
    ):
        np.testing.assert_array_equal(model.generate(same), expected)
    order = np.random.default_rng(2).permutation(len(sources))
    np.testing.assert_array_equal(model.generate(array[order]), expected[order])
    for i, source in enumerate(sources):
        assert tokens(model.generate([source])[0]) == tokens(expected[i])


def test_the_best_of_a_beam_comes_first(model):
    sources = draw_sources(6)
    n_best, scores = model.generate(sources, "beam", n_best=7, return_scores=True)
    assert n_best.shape[:2] == (6, 7) and (np.diff(np.where(np.isfinite(scores), scores, -1e9)) <= 0).all()
    best, best_scores = model.generate(sources, BeamSearch(BeamSettings(size=7)), return_scores=True)
    assert best.shape[0] == 6 and best_scores.shape == (6,)
    for row, same in zip(n_best[:, 0], best, strict=True):
        assert tokens(row) == tokens(same)


def test_equal_seeds_draw_equal_targets_and_others_draw_others():
    model = model_of("transformer")
    sources = draw_sources(30)
    first, again, other = (model.generate(sources, "sampling", seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()
    np.testing.assert_array_equal(first, model.generate(sources, Sampling(seed=3)))


def test_a_limit_cuts_targets_and_no_sources_have_no_targets():
    model = model_of("transformer")
    sources = draw_sources(8)
    cut = model.generate(sources, max_length=2)
    assert cut.shape == (8, 2)
    whole = model.generate(sources)
    np.testing.assert_array_equal(cut, whole[:, :2])
    assert model.generate([]).shape == (0, 0)
    np.testing.assert_array_equal(model.generate(np.zeros((2, 5), "int32")), [[EOS], [EOS]])


def test_targets_are_those_of_the_present_weights():
    settings = model_of("transformer").get_config()
    model = type(model_of("transformer")).from_config(settings)
    model.build()
    sources = draw_sources(12, longest=MOST - 4)
    first = model.generate(sources, max_length=MOST - 2)
    trained = model_of("transformer")
    model.set_weights(trained.get_weights())
    np.testing.assert_array_equal(model.generate(sources), trained.generate(sources))
    model.enable_lora(2)
    np.testing.assert_array_equal(model.generate(sources), trained.generate(sources))
    for variable in model.trainable_variables:
        variable.assign(np.random.default_rng(5).normal(0, 1, variable.shape))
    changed = model.generate(sources, max_length=MOST - 2)
    assert changed.shape != first.shape or (changed != first).any()
    for source, target in zip(sources[1:], changed[1:], strict=True):
        expected, _ = search_by_full_passes(model, source, MOST - 2)
        assert tokens(target) == list(expected)


@pytest.mark.parametrize(
    ("source_ids", "settings", "error", "told"),
    [
        ([5, 6, 3], {}, TypeError, "list of lists; found 5 in row 0"),
        (np.array([5, 6, 3]), {}, TypeError, r"found the shape \(3,\); a single sentence is source_ids\[None\]"),
        ("ab", {}, TypeError, "expected an array .* found 'ab'"),
        ([[5.5, 3]], {}, TypeError, "whole numbers"),
        ([["a", "b"]], {}, TypeError, "whole numbers"),
        (
            [[5, 3], [5, 6]],
            {},
            ValueError,
            r"row 1: expected EOS \(3\) as the last id, as in training, found 6; add it",
        ),
        ([[17, 3]], {}, ValueError, "row 0: expected ids from 0 to 16, found 17"),
        ([[*[5] * 12, 3]], {}, ValueError, "at most max_positions = 12 ids in a row, EOS included, found 13"),
        ([[5, 3]], {"search": "bean"}, ValueError, "search: expected one of greedy, beam, sampling, .* found 'bean'"),
        ([[5, 3]], {"search": GreedySearch}, TypeError, "a search such as GreedySearch"),
        ([[5, 3]], {"search": 4}, TypeError, "search: expected .* found 4"),
        ([[5, 3]], {"seed": 1}, ValueError, "seed: only sampling draws"),
        ([[5, 3]], {"n_best": 2}, ValueError, "n_best: greedy search has one hypothesis, found 2"),
        ([[5, 3]], {"n_best": 0}, ValueError, "n_best: expected at least 1, found 0"),
        ([[5, 3]], {"search": BeamSearch(BeamSettings(size=2)), "n_best": 4}, ValueError, "twice the beam size 2"),
        ([[5, 3]], {"max_length": 0}, ValueError, "max_length: expected a whole number of at least 1, found 0"),
    ],
)
def test_mistakes_are_named(source_ids, settings, error, told):
    with pytest.raises(error, match=told):
        model_of("transformer").generate(source_ids, **settings)


def test_weights_that_have_diverged_are_refused():
    model = type(model_of("transformer")).from_config(model_of("transformer").get_config())
    model.build()
    model.output_embedding.table.assign(np.full(model.output_embedding.table.shape, np.nan))
    with pytest.raises(ValueError, match="scores that are not numbers"):
        model.generate([[5, 3]])


def test_searches_that_are_not_imported_are_named(monkeypatch):
    monkeypatch.setattr(interface, "_generators", [])
    with pytest.raises(RuntimeError, match=r"import qkv\.decoding\.generate"):
        model_of("transformer").generate([[5, 3]])


@pytest.mark.minutes
def test_an_architecture_of_the_package_generates_without_a_further_import():
    code = "from qkv import Transformer; model = Transformer(9, d_model=4, num_heads=1); model.build(); "
    code += "print(model.generate([[5, 3]], max_length=1).shape)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "(1, 1)\n"


def test_targets_are_as_long_as_those_of_a_run_with_default_settings():
    settings = DecodingSettings()
    assert (settings.max_target_ratio, settings.max_target_extra) == (LENGTH_RATIO, LENGTH_EXTRA)
