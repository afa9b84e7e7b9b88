"""What replacing a head costs: against passes one by one, whatever the batches; models without such heads are told."""

import numpy as np
import pytest

from qkv.decoding.forced import forced_pass
from qkv.errors import InputError
from qkv.inspection.experiments.intervention import CHANGES, Intervention, intervene, one_head
from qkv.inspection.experiments.perturbation import check_perturbable, sum_effects
from qkv.text.batch import forced_batch
from tests.support.tiny_models import shared_transformer


def test_loss_change_and_argmax_changed_are_means_over_all_tokens(effects, pairs):
    model = shared_transformer(decoder_layers=2)
    layers = [block.cross_attention for block in model.decoder_blocks]
    table = effects[effects["change"].isin(CHANGES)]
    assert len(table) == 2 * 2 * len(CHANGES) and (table["tokens"] == 10).all()
    assert table["loss_change"].is_monotonic_decreasing
    for row in table[::5].to_dict("records"):
        losses, changed = [], []
        for pair in pairs:
            batch = forced_batch([pair])
            usual = forced_pass(model, *batch.ids)
            place = row["layer"], row["head"], list(CHANGES).index(row["change"])
            with intervene(layers, Intervention(one_head(2, 2, *place))):
                found = forced_pass(model, *batch.ids)
            losses += list((usual.log_probabilities - found.log_probabilities)[0].numpy())
            changed += list((usual.likeliest != found.likeliest)[0].numpy())
        assert row["loss_change"] == pytest.approx(np.mean(losses), abs=1e-5)
        assert row["argmax_changed"] == pytest.approx(np.mean(changed))
    assert (table["loss_change"].abs() > 1e-4).any() and (table["argmax_changed"] > 0).any()


def test_a_model_without_cross_attention_heads_is_refused():
    with pytest.raises(InputError, match=r"--perturb .* Transformer"):
        check_perturbable(object())


def test_padding_adds_nothing_to_a_sentence():
    likelihoods = np.arange(12.0).reshape(2, 2, 3) * -1
    likeliest = np.arange(12).reshape(2, 2, 3)
    found = sum_effects(likelihoods, likeliest, np.array([[True, True, False], [True, False, False]]))
    assert found.tolist() == [[[12, 2]], [[6, 1]]]
