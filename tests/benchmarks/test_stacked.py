"""Candidates in a stack make the updates that training makes; tests/benchmarks/stacked/ trains two dozen on a GPU."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from qkv.config.run import make_run_config
from qkv.config.yaml import read_yaml
from qkv.model.transformer import Transformer
from qkv.text.batch import Batch
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from qkv.training.loss import TotalLoss
from qkv.training.optimizers import make_optimizer
from qkv.training.schedule import WarmupSchedule
from qkv.training.step import TrainStep
from tests.benchmarks.stacked import buckets, optimizer, train, transformer
from tests.benchmarks.stacked.candidates import CANDIDATES, Candidate
from tests.benchmarks.stacked.train import Architecture, Stack, make_update, stacked_settings, write_results
from tests.benchmarks.stacked.transformer import shift_right
from tests.benchmarks.stacked.weights import from_keras, to_keras
from tests.support import ROOT

pytestmark = pytest.mark.minutes  # JAX compiles each of them for seconds

VOCABULARY, LAYERS, HEADS, UPDATES = 50, 2, 2, 4
SIZES = {"d_model": 32, "num_heads": HEADS, "d_ff": 48, "encoder_layers": LAYERS, "decoder_layers": LAYERS}
PLAIN = Candidate(dropout=0.0)


def drawn_ids(generator, longest, width):
    """Six sentences of up to `longest` tokens, EOS included."""
    ids = generator.integers(EOS + 1, VOCABULARY, (6, width))
    for row in ids:
        end = generator.integers(1, longest)
        row[end:] = PAD
        row[end] = EOS
    return ids.astype("int32")


@pytest.fixture(scope="module")
def batch():
    generator = np.random.default_rng(7)
    return drawn_ids(generator, 9, 9), drawn_ids(generator, 5, 9)


@pytest.fixture
def model():
    model = Transformer(VOCABULARY, **SIZES, dropout=0.0, norm="post", positions="rotary")
    model.build()
    for variable in model.trainable_variables:  # biases and norms too, which begin with the same number everywhere
        variable.assign_add(0.3 * np.random.default_rng(3).standard_normal(variable.shape).astype("float32"))
    return model


def variables_of(model):
    return {variable.path.partition("/")[2]: np.array(variable) for variable in model.trainable_variables}


def test_the_updates_are_those_of_training(model, batch):
    """With R-Drop, label smoothing, clipping, weight decay and the schedule; dropout alone is left out."""
    source, target = batch
    weights = from_keras(variables_of(model), LAYERS)
    schedule = WarmupSchedule("linear", PLAIN.learning_rate, 2, UPDATES)
    muon = make_optimizer(
        schedule, optimizer="muon", beta_1=0.9, beta_2=0.98, epsilon=1e-9, weight_decay=PLAIN.weight_decay
    )
    muon.build(model.trainable_variables)
    total_loss = TotalLoss(model, label_smoothing=0.1, r_drop=3.0)
    step = TrainStep(total_loss, muon, tf.distribute.get_strategy(), clip_norm=1.0)
    state = jax.tree.map(lambda array: jnp.asarray(array)[None], optimizer.start(weights))
    with jax.default_matmul_precision("highest"):
        update = jax.jit(make_update(UPDATES, HEADS, 2, jnp.float32))
        for number in range(UPDATES):
            shifted = np.asarray(shift_right(target))
            metrics = step(Batch(*map(tf.constant, (source, shifted, target))))
            rows = np.arange(6, dtype="int32")[None]
            state, entropy = update(state, stacked_settings([PLAIN]), rows, source, target, np.int32(number))
            assert float(entropy[0]) == pytest.approx(float(metrics.loss / metrics.tokens), rel=1e-5)
    expected, before = variables_of(model), to_keras(weights)
    found = to_keras(jax.tree.map(lambda array: np.asarray(array[0]), state.weights))
    assert found.keys() == expected.keys()
    for path, array in found.items():
        # All scores of a query change alike with the keys' biases: their gradient is rounding, which Adam scales up.
        if not path.endswith(("key/bias", "qkv/bias")):
            np.testing.assert_allclose(array, expected[path], atol=2e-4, err_msg=path)
            assert np.abs(before[path] - expected[path]).max() > 2e-3


def test_a_stack_learns_and_writes_what_comes_of_it(tmp_path):
    generator = np.random.default_rng(4)
    source = [np.full(size, token, "int32") for size, token in generator.integers(4, 8, (60, 2))]
    text = [source, [ids + 4 for ids in source]]
    names = ["best preset 1", "German to English, no decay 1"]
    stack = Stack([CANDIDATES[name]._replace(dropout=0.0) for name in names], text, 60, Architecture(16, 16, 2, 1, 12))
    lines = []
    stack.train(lines.append)
    losses, translations = stack.validate(text)
    assert lines[-1].startswith("update 60, ")
    assert all(loss_of_model < 0.6 * np.log(12) for loss_of_model in losses)
    write_results(tmp_path, names, stack, losses, translations)
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [(row["name"], row["updates"], row["weight_decay"]) for row in rows] == [
        (names[0], 60, 0.3),
        (names[1], 60, 0),
    ]
    assert np.load(tmp_path / "translations.npz")[names[1]].shape[0] == 60
    kernel = stack.state.weights["decoder"]["cross_key_kernel"][1, 0]
    kept = np.load(tmp_path / "weights" / f"{names[1]}.npz")["decoder_0/cross_attention/key/kernel"]
    np.testing.assert_array_equal(kept, np.float16(kernel))


def test_the_defaults_are_those_of_the_best_preset():
    values, origins = read_yaml(ROOT / "configs/multi30k_en_de_best.yaml")
    config = make_run_config(values, origins, default_name="best")
    model, training = config.model, config.training
    assert (model.norm, model.positions, model.activation, model.tie_embeddings) == ("post", "rotary", "relu", "all")
    assert Candidate() == Candidate(
        dropout=model.dropout,
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
        label_smoothing=training.label_smoothing,
        forward=training.r_drop / 2,
        backward=training.r_drop / 2,
    )
    layers, vocabulary = model.encoder_layers, config.tokenizer.vocabulary_size
    assert Architecture() == (model.d_model, model.d_ff, model.num_heads, layers, vocabulary)
    assert model.decoder_layers == layers and training.warmup_updates == train.WARMUP
    assert config.batches.batch_tokens == buckets.BATCH_POSITIONS
    assert (training.optimizer, training.schedule, training.clip_norm) == ("muon", "linear", optimizer.CLIP_NORM)
    assert (training.beta_1, training.beta_2) == optimizer.BETAS and training.epsilon == optimizer.EPSILON
    assert (transformer.PAD, transformer.BOS, transformer.EOS) == (PAD, BOS, EOS)
