"""A head that is taught where to look: the loss against a loop, and a training that teaches that head alone."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.errors import InputError
from pipeline.evaluation.gold_alignment import head_table, read_gold_set
from pipeline.inspection.trace import Tracer
from pipeline.text.prepare import read_corpus
from pipeline.train import train
from pipeline.trained_run import load_run
from pipeline.training.guided_attention import Guidance, guidance_loss
from tests.tiny_runs import small_config, write_small_corpus

LINKS = np.array(
    [
        [[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]],
        [[0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]],
    ],
    bool,
)


def random_weights():
    weights = np.random.default_rng(0).random((2, 3, 5)).astype("float32")
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize(("side", "shift"), [("output", 0), ("input", 1)])
def test_the_loss_is_the_cross_entropy_with_an_even_spread_over_what_is_linked(side, shift):
    weights, expected = random_weights(), 0.0
    for b in range(2):
        for t in range(3):
            linked = np.flatnonzero(LINKS[b, t - shift]) if t >= shift else []
            if len(linked):
                expected -= np.mean(np.log(weights[b, t, linked]))
    assert float(guidance_loss(weights, LINKS, side)) == pytest.approx(expected, rel=1e-5)


def test_nothing_linked_and_no_weight_at_all_leave_finite_gradients():
    weights = tf.constant(np.zeros((2, 3, 5), np.float32))
    for links in (LINKS, np.zeros_like(LINKS)):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = guidance_loss(weights, links, "output")
        assert np.isfinite(loss) and np.isfinite(tape.gradient(loss, weights)).all()


def test_guidance_reads_its_own_layer_and_head():
    weights = random_weights()
    other = np.full_like(weights, 0.2)
    cross = (np.stack([other, other], 1), np.stack([other, weights], 1))
    found = Guidance(layer=1, head=1, side="output", weight=0.5).loss(cross, LINKS)
    assert float(found) == pytest.approx(0.5 * float(guidance_loss(weights, LINKS, "output")))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_small_corpus(tmp_path_factory.mktemp("guided"))


def error_rates(run, config):
    loaded = load_run(run)
    gold = read_gold_set("training text", read_corpus(config.data.train), config.data.train.alignments)
    tracer = Tracer(loaded.model, loaded.tokenizer, max_positions=config.model.max_positions)
    table = head_table(tracer, gold)
    return table[table["linked"] == "target"].set_index(["side", "layer", "head"])["aer"]


@pytest.mark.parametrize("side", ["input", "output"])
def test_the_guided_head_aligns_on_its_side_and_the_others_do_not(corpus, tmp_path, side):
    guided = {
        "data.joined_pairs": 0.5,
        "model.d_model": 32,
        "training.learning_rate": 0.01,
        "training.max_updates": 150,
        "training.validate_every_updates": 150,
        "training.guided_attention.side": side,
        "training.guided_attention.head": 1,
        "training.guided_attention.weight": 1.0,
    }
    config = small_config(corpus, tmp_path, side, guided)
    assert train(config) == 0
    rates = error_rates(tmp_path / side, config)
    assert rates[side, 0, 1] < 0.35
    others = rates.drop([(side, 0, 1), (side, 0, "mean")])
    assert others.min() > rates[side, 0, 1] + 0.1, rates


def test_what_cannot_be_guided_is_refused(corpus, tmp_path):
    def refused(changes, message):
        with pytest.raises(InputError, match=message):
            small_config(corpus, tmp_path, "refused", {"training.guided_attention.weight": 0.1, **changes})

    refused({"data.train.alignments": None}, r"guided_attention needs data.train.alignments")
    refused({"training.guided_attention.layer": 7}, r"no head 0 in decoder layer 7")
    refused({"training.guided_attention.head": 4}, r"no head 4 in decoder layer 0")
    refused({"model.attention.cross.mechanism": "uniform"}, r"weights that are learnt")
    refused({"training.guided_attention.weight": 0}, r"weight")
