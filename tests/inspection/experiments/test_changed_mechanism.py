"""Changes of a trained model's cross-attention: each computes what a model that was built so computes."""

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.inspection.experiments import changed_mechanism
from qkv.inspection.experiments.changed_mechanism import MECHANISM_CHANGES, measure_changes
from qkv.model.recurrent import Recurrent
from tests.support.tiny_models import (
    RECURRENT,
    SOURCE,
    TARGET,
    every_site,
    make_transformer,
    shared_model,
    shared_transformer,
)

WEIGHTS = {"one-hot": "one_hot", "uniform": "uniform", "last word": "last"}


@pytest.fixture
def right_shares(monkeypatch):
    """The share of the tokens that the unchanged model and the named changes of it get right; of all, without names."""

    def shares(model, output, *names):
        named = {name: MECHANISM_CHANGES[name] for name in ("as it is", *names)} if names else MECHANISM_CHANGES
        monkeypatch.setattr(changed_mechanism, "MECHANISM_CHANGES", named)
        table = measure_changes(model, [(SOURCE, TARGET, output)])
        assert set(table["tokens"]) == {(output != 0).sum()}
        return table.set_index("change")["right"]

    return shares


def likeliest(model):
    """The tokens that a model predicts, where the target has any."""
    found = model.decode(TARGET, model.encode(SOURCE)).logits.numpy().argmax(-1)
    return np.where(TARGET == 0, 0, found)


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_change_of_weights_is_the_mechanism_of_that_name(name, right_shares):
    """What a model built with the mechanism predicts, the changed model gets right, and the unchanged one does not."""
    model = shared_transformer()
    built = make_transformer(cross={"mechanism": WEIGHTS[name]})
    built.set_weights(model.get_weights())
    shares = right_shares(model, likeliest(built), name)
    assert shares[name] == 1 > shares["as it is"]


def test_without_matrices_the_states_themselves_are_compared(right_shares):
    model = shared_transformer()
    built = make_transformer()
    built.set_weights(model.get_weights())
    for block in built.decoder_blocks:
        for projection in (block.cross_attention.query_projection, block.cross_attention.key_projection):
            projection.set_weights([np.eye(8), np.zeros(8)])
    shares = right_shares(model, likeliest(built), "raw vectors")
    assert shares["raw vectors"] == 1 > shares["as it is"]


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


def test_changes_that_the_sizes_of_heads_forbid_are_left_out(right_shares):
    shares = right_shares(shared_transformer(num_heads=3, **every_site(key_dim=5, value_dim=3)), TARGET)
    assert list(shares.index) == ["as it is", "one-hot", "uniform", "last word"]


def test_models_without_such_cross_attention_are_refused():
    for model in (shared_model(Recurrent, **RECURRENT), shared_transformer(cross={"mechanism": "linformer"})):
        with pytest.raises(InputError, match="expected a Transformer"):
            measure_changes(model, [])
    with pytest.raises(InputError, match="without"):
        measure_changes(shared_transformer(cross={"projection": False}), [])
