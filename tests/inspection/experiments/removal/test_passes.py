"""What is taken away is gone, for every architecture: against passes one by one, over other sources."""

import random

import numpy as np
import pytest

from qkv.decoding.forced import make_forced_graph
from qkv.inspection.experiments.removal import ReducedReader
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.tiny_models import MODELS, make_transformer, shared_model, shared_transformer

SOURCE_IDS, TARGET_IDS = [5, 9, 4, 16, 7, 11], [7, 10, 13, 5, EOS]
KEPT = np.array([[1, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 0, 0]])
POSITIONS = np.array([2, 4, 1, 4, 0])


@pytest.fixture(scope="module")
def reader():
    random.seed(0)  # this runs before each test's own seed, and a model's weights follow it
    return ReducedReader(shared_transformer(decoder_layers=2))


@pytest.fixture(scope="module")
def graph():
    return make_forced_graph(shared_transformer(decoder_layers=2))


def predict(graph, source, position):
    """The probability of one target token, from the tokens before it alone."""
    target = [BOS, *TARGET_IDS[:position]], TARGET_IDS[: position + 1]
    read = graph(*(np.array([ids], "int32") for ids in ([*source, EOS], *target)))
    return float(np.exp(read.log_probabilities[0, -1]))


@pytest.mark.parametrize("batch_tokens", [7, 1000])
def test_each_prediction_is_that_of_a_pass_of_its_own(batch_tokens, reader, graph, monkeypatch):
    monkeypatch.setattr(reader, "batch_tokens", batch_tokens)
    found = reader.read_masked(SOURCE_IDS, TARGET_IDS, POSITIONS, KEPT.astype(bool))
    expected = [predict(graph, np.where(kept, SOURCE_IDS, PAD), t) for kept, t in zip(KEPT, POSITIONS, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(set(found)) == 5


@pytest.mark.parametrize("name", ["transformer", "recurrent", "decoder-only"])
def test_a_token_that_is_taken_away_may_be_any(name, reader):
    if name != "transformer":
        architecture, settings = MODELS[name]
        reader = ReducedReader(shared_model(architecture, **settings))
    kept = KEPT.astype(bool)
    rows = [0, 3]
    found = reader.read_masked(SOURCE_IDS, TARGET_IDS, POSITIONS[rows], kept[rows])
    other = np.where(kept[0], SOURCE_IDS, 8).tolist()
    again = reader.read_masked(other, TARGET_IDS, POSITIONS[rows], kept[rows])
    np.testing.assert_allclose(again, found, rtol=1e-6)
    seen = reader.read_masked(other, TARGET_IDS, POSITIONS[rows], kept[[1, 1]])
    assert np.all(np.abs(seen / found - 1) > 1e-4)


def test_units_that_are_not_kept_are_zero_and_eos_and_the_target_keep_theirs(reader, graph):
    """Against a table in which each thinned vector is one of the vocabulary. Source, target and output share a table in
    the model that is read, so a target thinned by mistake would be seen."""
    model, other = shared_transformer(decoder_layers=2), make_transformer(decoder_layers=2, tie_embeddings="none")
    table = model.source_embedding.table.numpy()
    for mine, theirs in zip(
        model.encoder_blocks + model.decoder_blocks, other.encoder_blocks + other.decoder_blocks, strict=True
    ):
        theirs.set_weights(mine.get_weights())
    for mine, theirs in zip(model.final_norms, other.final_norms, strict=True):
        theirs.set_weights(mine.get_weights())
    for embedding in (other.target_embedding, other.output_embedding):
        embedding.table.assign(table)
    kept = np.random.default_rng(0).random((2, len(SOURCE_IDS), table.shape[1])) < 0.5
    positions, other_graph = np.array([3, 1]), make_forced_graph(other)
    found = reader.read_thinned(SOURCE_IDS, TARGET_IDS, positions, lambda rows: kept[rows])
    for row in range(2):
        changed = table.copy()
        changed[SOURCE_IDS] *= kept[row]
        other.source_embedding.table.assign(changed)
        assert found[row] == pytest.approx(predict(other_graph, SOURCE_IDS, positions[row]), rel=1e-5)
    usual = [predict(graph, SOURCE_IDS, t) for t in positions]
    assert np.all(np.abs(found - usual) > 1e-4)
    whole = reader.read_thinned(SOURCE_IDS, TARGET_IDS, positions, lambda rows: kept[rows] | True)
    np.testing.assert_allclose(whole, usual, rtol=1e-5)
