"""Changes of a trained model's cross-attention: each computes what a model that was built so computes.

NumPy recomputes the changes, their controls and all intervals, from the papers' formulas and the model's weights.
"""

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.inspection.experiments import changed_mechanism
from qkv.inspection.experiments.changed_mechanism import (
    MECHANISM_CHANGES,
    draw_other_sentences,
    measure_changes,
    random_of_same_spectrum,
)
from qkv.model.recurrent import Recurrent
from tests.support.changed_pass import changed_table
from tests.support.documents import SURGERY, recipe
from tests.support.layer_contract import stir
from tests.support.plugins import registrations_undone
from tests.support.tiny_models import (
    RECURRENT,
    SIZES,
    SOURCE,
    TARGET,
    TWO_LAYERS,
    every_site,
    make_transformer,
    shared_model,
    shared_transformer,
)

WEIGHTS = {"one-hot": "one_hot", "uniform": "uniform", "last word": "last"}
ALONE = {name: change._replace(controls=()) for name, change in MECHANISM_CHANGES.items()}


@pytest.fixture
def right_shares(monkeypatch):
    """The share of the tokens that the unchanged model and the named changes of it get right; of all, without names."""

    def shares(model, output, *names):
        named = {name: ALONE[name] for name in ("as it is", *names)} if names else ALONE
        monkeypatch.setattr(changed_mechanism, "MECHANISM_CHANGES", named)
        table = measure_changes(model, [(SOURCE, TARGET, output)])
        assert set(table["tokens"]) == {(output != 0).sum()}
        return table.set_index("change")["right"]

    return shares


def likeliest(model, source=SOURCE, target=TARGET):
    """The tokens that a model predicts, where the target has any."""
    found = model.decode(target, model.encode(source)).logits.numpy().argmax(-1)
    return np.where(target == 0, 0, found)


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_change_of_weights_is_the_mechanism_of_that_name(name, right_shares):
    """What a model built with the mechanism predicts, the changed model gets right, and the unchanged one does not."""
    model = shared_transformer()
    built = make_transformer(cross={"mechanism": WEIGHTS[name]})
    built.set_weights(model.get_weights())
    shares = right_shares(model, likeliest(built), name)
    assert shares[name] == 1 > shares["as it is"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [("raw vectors", ("query", "key")), ("raw values", ("value", "output")), ("without W_O", ("output",))],
)
def test_without_matrices_the_states_themselves_are_used(name, parts, right_shares):
    model = shared_transformer()
    built = make_transformer()
    built.set_weights(model.get_weights())
    for block in built.decoder_blocks:
        for part in parts:
            getattr(block.cross_attention, f"{part}_projection").set_weights([np.eye(8), np.zeros(8)])
    shares = right_shares(model, likeliest(built), name)
    assert shares[name] == 1 > shares["as it is"]


@pytest.mark.parametrize(
    ("name", "given", "taking"), [("keys := values", "value", "key"), ("values := keys", "key", "value")]
)
def test_keys_and_values_stand_for_each_other(name, given, taking, right_shares):
    model = shared_transformer()
    built = make_transformer()
    built.set_weights(model.get_weights())
    for block in built.decoder_blocks:
        given_weights = getattr(block.cross_attention, f"{given}_projection").get_weights()
        getattr(block.cross_attention, f"{taking}_projection").set_weights(given_weights)
    shares = right_shares(model, likeliest(built), name)
    assert shares[name] == 1 > shares["as it is"]


def test_the_model_itself_stays_as_it_is(right_shares):
    model = shared_transformer()
    before = model.get_weights()
    shares = right_shares(model, likeliest(model))
    assert shares["as it is"] == 1
    assert list(shares.index) == list(MECHANISM_CHANGES)
    np.testing.assert_equal(model.get_weights(), before)


OF_WEIGHTS = ["as it is", "one-hot", "uniform", "last word", "nothing read"]


def test_changes_that_the_sizes_of_heads_forbid_are_left_out(right_shares):
    shares = right_shares(shared_transformer(num_heads=3, **every_site(key_dim=5, value_dim=3)), TARGET)
    assert list(shares.index) == OF_WEIGHTS


def test_changes_of_matrices_that_a_model_lacks_are_left_out(right_shares):
    shares = right_shares(shared_transformer(cross={"projection": False, "value_projection": True}), TARGET)
    assert list(shares.index) == [*OF_WEIGHTS[:-1], "raw values", "without W_O", "nothing read"]


def test_the_model_of_the_page_has_one_matrix_for_keys_and_values(right_shares):
    names: dict = {}
    with registrations_undone():
        exec(recipe("register_architecture", SURGERY), names)
        model = names["OneMatrixTransformer"](**SIZES)
        model(SOURCE, TARGET)
        stir(model)
        cross = model.decoder_blocks[0].cross_attention
        assert cross.value_projection is cross.key_projection
        assert shared_transformer().count_params() - model.count_params() == 8 * 8 + 8
        shares = right_shares(model, likeliest(model), "raw values", "values := keys")
    assert shares["values := keys"] == 1 > shares["raw values"]


def test_controls_that_the_heads_forbid_are_left_out():
    table = measure_changes(shared_transformer(num_heads=1), [(SOURCE, TARGET, TARGET)], draws=1)
    assert "random W_V" in set(table["control"]) and "another head's values" not in set(table["control"])


def test_models_without_such_cross_attention_and_empty_text_are_refused():
    for model in (shared_model(Recurrent, **RECURRENT), shared_transformer(cross={"mechanism": "linformer"})):
        with pytest.raises(InputError, match="expected a Transformer"):
            measure_changes(model, [])
    with pytest.raises(InputError, match="expected sentence pairs"):
        measure_changes(shared_transformer(), [])


def some_pairs(count=11):
    """Sources with EOS and targets with BOS of the tiny models, of several lengths, one of them the only one."""
    random = np.random.default_rng(1)
    lengths = [2, *random.integers(3, 6, size=count - 2), 9]
    sources = [[*random.integers(4, 17, size=length - 1), 3] for length in lengths]
    targets = [[2, *random.integers(4, 17, size=random.integers(1, 7))] for _ in lengths]
    return sources, targets


def padded(rows):
    return np.array([[*row, *[0] * (max(map(len, rows)) - len(row))] for row in rows], "int32")


def batches_of(model, pairs, size):
    """Batches of so many sentences, whose targets are right where the sum of the ids before is no multiple of 4."""
    sources, targets = pairs
    for first in range(0, len(sources), size):
        source, target = (padded(rows[first : first + size]) for rows in (sources, targets))
        right = np.cumsum(target, axis=1) % 4 > 0
        output = np.where(right, likeliest(model, source, target), 5)
        yield source, target, np.where(target == 0, 0, output)


@pytest.mark.minutes
def test_numpy_computes_the_same_table():
    model = shared_transformer(**TWO_LAYERS, num_heads=4)
    batches = list(batches_of(model, some_pairs(), 11))
    table = measure_changes(model, batches, draws=3)
    expected = changed_table(model, batches, draws=3)
    assert len(set(table["right"])) > 12, "changes and controls differ"
    compared = table.drop(columns="meaning").set_index(["change", "control"])
    assert list(compared.index) == list(expected.index)
    np.testing.assert_allclose(compared.to_numpy(float), expected.to_numpy(float), atol=1e-12)


@pytest.mark.minutes
def test_the_table_does_not_depend_on_the_batches(monkeypatch):
    drawn_by_sentence = ("weights permuted", "another sentence's keys", "another sentence's values")
    change = MECHANISM_CHANGES["as it is"]._replace(controls=drawn_by_sentence)
    monkeypatch.setattr(changed_mechanism, "MECHANISM_CHANGES", {"as it is": change})
    model = shared_transformer(**TWO_LAYERS, num_heads=4)
    tables = [measure_changes(model, batches_of(model, some_pairs(), size), draws=2) for size in (11, 6)]
    np.testing.assert_allclose(*(table.select_dtypes("number").to_numpy() for table in tables), atol=1e-12)


def test_a_random_matrix_has_the_same_singular_values_in_any_direction():
    matrix = np.random.default_rng(0).normal(size=(6, 3))
    drawn = np.array([random_of_same_spectrum(matrix, np.random.default_rng(seed)) for seed in range(400)])
    singular_values = np.linalg.svd(matrix, compute_uv=False)
    np.testing.assert_allclose(np.linalg.svd(drawn, compute_uv=False), np.tile(singular_values, (400, 1)))
    mean_square = (singular_values**2).sum() / matrix.size  # of each number, if no direction is preferred
    np.testing.assert_allclose((drawn**2).mean(axis=0), np.full((6, 3), mean_square), rtol=0.3)
    np.testing.assert_allclose(drawn.mean(axis=0), np.zeros((6, 3)), atol=4 * np.sqrt(mean_square / 400))


def test_the_other_sentence_is_as_long_or_the_nearest():
    lengths = [5, 3, 5, 9, 3, 5, 7, 2]
    drawn = np.array([draw_other_sentences(lengths, np.random.default_rng(seed)) for seed in range(60)])
    choices = [set(column.tolist()) for column in drawn.T]
    assert choices == [{2, 5}, {4}, {0, 5}, {6}, {1}, {0, 2}, {0, 2, 5}, {1, 4}]
    assert draw_other_sentences([4], np.random.default_rng(0)).tolist() == [0]
