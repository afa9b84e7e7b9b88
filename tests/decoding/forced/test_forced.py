"""The teacher-forced pass says of every token what the search said when it chose it."""

import numpy as np
import pytest
import tensorflow as tf

from qkv.config import choices
from qkv.decoding.forced import forced_pass
from qkv.model.recurrent import Recurrent
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from tests.support.searches import greedily
from tests.support.tiny_models import MODELS, RECURRENT, SOURCE, TWO_LAYERS, make_model, shared_transformer

SITES = [name for name, site in choices.inspection.SITES.items() if site.forced]
L = 9  # of targets; sources have 7 tokens
B, S, H, LAYERS = *SOURCE.shape, 2, 2


@pytest.fixture(scope="module")
def model():
    return shared_transformer(**TWO_LAYERS)


@pytest.fixture(scope="module")
def searched(model):
    """A search, and what the decoder looked at in each of its steps: site -> (step, layer, batch, head, key)."""
    steps = {"cross": [], "decoder": []}

    def step(tokens, state):
        memory, cache = state
        output = model.decode(tokens, memory, cache=cache)
        steps["cross"].append(np.stack([weights[:, :, 0] for weights in output.cross]))
        own = np.stack([weights[:, :, 0] for weights in output.decoder_self])
        steps["decoder"].append(np.pad(own, ((0, 0),) * 3 + ((0, L - own.shape[-1]),)))
        return output.logits[:, -1], (memory, output.cache)

    memory = model.encode(SOURCE)
    ids, log_probabilities = greedily(step, (memory, model.start_cache(memory)), np.array([9, 6, 8], "int32"), L)
    return ids, log_probabilities, {site: np.stack(rows) for site, rows in steps.items()}


def force(model, ids, sites=()):
    ids = np.asarray(ids)
    return forced_pass(model, SOURCE, np.concatenate([np.full((len(ids), 1), BOS), ids[:, :-1]], 1), ids, sites)


def test_row_t_of_the_pass_is_what_step_t_of_the_search_looked_at(model, searched):
    ids, _, steps = searched
    forced = force(model, ids, SITES)
    for site, keys in (("cross", S), ("decoder", L)):
        assert forced.attention[site].shape == (B, LAYERS, H, L, keys)
        for row in range(B):
            for t in range(int((ids[row].numpy() != PAD).sum())):
                np.testing.assert_allclose(forced.attention[site][row, :, :, t], steps[site][t][:, row], atol=1e-5)


def test_log_probabilities_are_those_of_the_search(model, searched):
    ids, log_probabilities, _ = searched
    forced_log_probabilities = force(model, ids).log_probabilities.numpy()
    real = ids.numpy() != PAD
    np.testing.assert_allclose(forced_log_probabilities[real], log_probabilities.numpy()[real], atol=1e-5)
    assert forced_log_probabilities.shape == (B, L) and forced_log_probabilities.dtype == "float32"


def test_a_token_that_is_not_the_likeliest_has_the_likeliest_beside_it(model):
    logits = model(SOURCE, np.array([[BOS, 7], [BOS, 7], [BOS, 7]])).numpy()
    forced = force(model, [[7, EOS]] * B)
    np.testing.assert_array_equal(forced.likeliest, logits.argmax(-1))
    assert forced.likeliest.dtype == "int32"
    expected = tf.nn.log_softmax(logits).numpy()
    np.testing.assert_allclose(forced.log_probabilities[:, 0], expected[:, 0, 7], atol=1e-6)
    np.testing.assert_allclose(forced.log_probabilities[:, 1], expected[:, 1, EOS], atol=1e-6)


def test_attention_rows_sum_to_one_and_padding_gets_nothing(model, searched):
    attention = force(model, searched[0], SITES).attention
    assert attention["encoder"].shape == (B, LAYERS, H, S, S)
    for weights in attention.values():
        np.testing.assert_allclose(weights.numpy().sum(-1), 1, atol=1e-5)
        assert weights.dtype == "float32"
    for row in range(B):
        length = int((SOURCE[row] != PAD).sum())
        assert not attention["cross"][row, ..., length:].numpy().any()
        assert not attention["encoder"][row, ..., length:].numpy().any()
    assert not np.triu(attention["decoder"].numpy(), 1).any()


def test_norms_are_the_weights_times_the_lengths_of_the_values(model, searched):
    attention = force(model, searched[0], SITES).attention
    memory = model.encode(SOURCE)
    for layer, block in enumerate(model.decoder_blocks):
        lengths = block.cross_attention.value_norms(memory.states).numpy()
        assert lengths.std() > 0.01
        expected = attention["cross"][:, layer].numpy() * lengths[:, :, None]
        expected /= expected.sum(-1, keepdims=True)
        np.testing.assert_allclose(attention["norms"][:, layer], expected, atol=1e-5)


def test_sites_that_an_architecture_lacks_have_no_layers_and_the_axes_of_the_others():
    model = make_model(Recurrent, **RECURRENT)
    target = np.array([[BOS, 7, 8]] * B)
    attention = forced_pass(model, SOURCE, target, target, ("cross", "encoder", "decoder", "norms")).attention
    assert attention["cross"].shape == (B, 1, 1, 3, S)
    assert attention["norms"].shape[:2] == (B, 0)  # its values are not projected
    assert attention["encoder"].shape == (B, 0, 1, S, S)
    assert attention["decoder"].shape == (B, 0, 1, 3, 3)


@pytest.mark.parametrize("sites", [(), ("cross",), ("decoder", "encoder")])
def test_only_the_sites_asked_for_are_returned(model, searched, sites):
    assert tuple(force(model, searched[0], sites).attention) == sites


def test_a_forced_pass_uses_no_dropout():
    model = shared_transformer(dropout=0.5, attention_dropout=0.5)
    first, second = (force(model, np.full((B, 4), 7)).log_probabilities for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_without_output_tokens_there_is_attention_alone(model, searched):
    ids = searched[0].numpy()
    whole, some, none = (
        forced_pass(model, SOURCE, np.concatenate([np.full((B, 1), BOS), ids[:, :-1]], 1), ids[:, :given], SITES)
        for given in (L, 4, 0)
    )
    assert none.log_probabilities.shape == none.likeliest.shape == (B, 0)
    np.testing.assert_allclose(some.log_probabilities, whole.log_probabilities[:, :4], atol=1e-6)
    for site in SITES:
        np.testing.assert_array_equal(none.attention[site], whole.attention[site])


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("rotary transformer with shared keys and a sink", {"cross": ["cross"]}),
        (
            "decoder-only with ALiBi and a sink",
            {"cross": ["cross", "decoder"], "decoder": ["cross", "decoder"], "encoder": ["encoder"]},
        ),
    ],
)
def test_what_rows_lack_to_a_sum_of_one_is_the_share_of_the_sink(name, rows):
    architecture, settings = MODELS[name]
    model = make_model(architecture, **settings)
    target = np.array([[BOS, 7, 10, 13, 5]] * B, "int32")
    forced = forced_pass(model, SOURCE, target, target, ("cross", "encoder", "decoder"))
    assert forced.sinks.keys() == rows.keys()
    for site, parts in rows.items():
        total = sum(forced.attention[part].numpy().sum(-1) for part in parts)
        shares = forced.sinks[site].numpy()
        real = np.ones_like(shares, bool) if site != "encoder" else (SOURCE != PAD)[:, None, None]
        real = np.broadcast_to(real, shares.shape)
        np.testing.assert_allclose((total + shares)[real], 1, atol=1e-6)
        assert shares[real].min() > 0.001
        assert shares[real].max() < 0.999


def test_models_without_a_sink_have_no_shares(model):
    target = np.array([[BOS, 7]] * B, "int32")
    assert not forced_pass(model, SOURCE, target, target, SITES).sinks
