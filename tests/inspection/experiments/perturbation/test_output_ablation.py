"""What a head's output is worth: against passes one by one in which the output is put together by hand."""

import numpy as np
import pytest

from qkv.config.choices.inspection import OUTPUT_ABLATIONS
from qkv.decoding.forced import make_forced_graph
from qkv.inspection.experiments.perturbation import perturbation_effects
from qkv.layers.tap import tapped
from qkv.text.batch import forced_batch
from tests.support.tiny_models import make_transformer, shared_transformer


def of_outputs(effects):
    return effects[effects["change"].isin(OUTPUT_ABLATIONS)]


@pytest.fixture
def table(effects):
    return of_outputs(effects)


def test_every_head_has_a_row_of_each_kind_the_largest_loss_first(table):
    assert len(table) == 2 * 2 * 2 and set(table["change"]) == set(OUTPUT_ABLATIONS)
    assert (table["tokens"] == 10).all() and table["loss_change"].is_monotonic_decreasing
    assert (table["loss_change"].abs() > 1e-4).all()


def test_a_head_whose_mean_stands_for_it_adds_a_constant(table, pairs):
    """The head's part of the projection moves into its bias: what it adds on average, whatever it reads."""
    model = shared_transformer(decoder_layers=2)
    attention = model.decoder_blocks[1].cross_attention
    kernel, bias = attention.output_projection.kernel, attention.output_projection.bias
    contexts = []

    def remember(layer, part, value, **inputs):
        if layer is attention and part == "heads":
            contexts.append(value.numpy()[0])
        return value

    for pair in pairs:
        ids = forced_batch([pair]).ids
        with tapped(remember):
            model.decode(ids[1], model.encode(ids[0]))
    mean = np.concatenate(contexts, axis=1)[0].mean(axis=0)  # of head 0
    read = make_forced_graph(model)
    losses = [[], []]
    before, size = (kernel.numpy(), bias.numpy()), attention.value_dim
    for changed, found in enumerate(losses):
        for pair in pairs:
            found += list(read(*forced_batch([pair]).ids).log_probabilities.numpy()[0])
        if not changed:
            bias.assign(before[1] + mean @ before[0][:size])
            kernel.assign(np.where(np.arange(len(before[0]))[:, None] < size, 0, before[0]))
    kernel.assign(before[0])
    bias.assign(before[1])
    row = table[(table["layer"] == 1) & (table["head"] == 0) & (table["change"] == "mean")]
    assert row["loss_change"].item() == pytest.approx(np.mean(losses[0]) - np.mean(losses[1]), abs=1e-5)


@pytest.mark.minutes
def test_outputs_of_another_sentence_are_never_the_own_ones(pairs):
    """The one head gives all tokens the mean of the values, so the other sentence's output is that of its source."""
    model = make_transformer(num_heads=1, cross={"mechanism": "uniform"})
    first, second = pairs[0], pairs[2]
    found = of_outputs(perturbation_effects(model, [first, second]).table()).set_index("change")["loss_change"]
    read, losses = make_forced_graph(model), []
    for (source, target), (other, _) in ((first, second), (second, first)):
        usual, exchanged = (read(*forced_batch([(one, target)]).ids).log_probabilities[0] for one in (source, other))
        losses += list((usual - exchanged).numpy())
    assert found["resampled"] == pytest.approx(np.mean(losses), abs=1e-5)
    alone = of_outputs(perturbation_effects(model, pairs[:1]).table())
    assert alone["change"].tolist() == ["mean"] and alone["loss_change"].item() == pytest.approx(0, abs=1e-6)


@pytest.mark.minutes
def test_batches_change_nothing(effects, pairs):
    again = perturbation_effects(shared_transformer(decoder_layers=2), pairs).table()
    keys = ["layer", "head", "change"]
    one, other = (found.sort_values(keys)["loss_change"].to_numpy() for found in (effects, again))
    np.testing.assert_allclose(one, other, atol=1e-5)
