"""Candidates in a stack make the updates that training makes; tests/benchmarks/stacked/ trains two dozen on a GPU."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

from qkv.config.run import make_run_config
from qkv.config.yaml import read_yaml
from qkv.decoding.greedy import GreedySearch
from qkv.model.transformer import Transformer
from qkv.text.batch import Batch
from qkv.text.tokens.special_tokens import BOS, EOS, PAD
from qkv.training.loss import TotalLoss
from qkv.training.optimizers import make_optimizer
from qkv.training.schedule import WarmupSchedule
from qkv.training.step import TrainStep
from tests.benchmarks.stacked import buckets, optimizer, train, transformer
from tests.benchmarks.stacked.buckets import epoch, make_buckets, read_text
from tests.benchmarks.stacked.candidates import CANDIDATES, KEPT, Candidate
from tests.benchmarks.stacked.loss import loss
from tests.benchmarks.stacked.random_bits import dropout, mixed, uniform
from tests.benchmarks.stacked.search import translate
from tests.benchmarks.stacked.train import Architecture, Stack, make_update, stacked_settings, write_results
from tests.benchmarks.stacked.transformer import decode, encode, logits, shift_right
from tests.benchmarks.stacked.weights import from_keras, initial_weights, to_keras
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


def test_the_loss_is_its_formula(batch):
    """The passes differ by the tokens that are cut: of the second all of them, so that each pass is computed apart."""
    source, target = batch
    weights = initial_weights(1, 32, 48, LAYERS, VOCABULARY)
    settings = Candidate(dropout=0.0, second_pass=0.7, forward=2.0, backward=0.5, second_cut=1.0)
    kept = np.ones_like(source)
    logs = []
    for share in (1, 0):
        memory, mask = encode(weights, source, HEADS, kept=share * kept, dtype=jnp.float32)
        states = decode(weights, shift_right(target), memory, mask, HEADS, kept=share * kept)
        logs.append(np.asarray(jax.nn.log_softmax(logits(weights, states)), np.float64)[target != PAD])
    first, second = logs
    right = target[target != PAD]
    entropies = [-(0.9 * np.take_along_axis(x, right[:, None], 1)[:, 0] + 0.1 * x.mean(1)).mean() for x in logs]
    forward, backward = ((np.exp(p) * (p - q)).sum(1).mean() for p, q in ((first, second), (second, first)))
    expected = (entropies[0] + 0.7 * entropies[1] + 2.0 * forward + 0.5 * backward) / 1.7
    found, entropy = loss(weights, settings, source, target, jnp.uint32(5), HEADS, jnp.float32)
    assert float(found) == pytest.approx(expected, rel=1e-5) and min(forward, backward) > 0.01
    assert float(entropy) == pytest.approx(entropies[0], rel=1e-5)


def test_a_model_in_reverse_learns_from_exchanged_sides(batch):
    source, target = batch
    weights = jax.tree.map(lambda x: jnp.asarray(x)[None], initial_weights(1, 32, 48, LAYERS, VOCABULARY))
    update = jax.jit(make_update(UPDATES, HEADS, 2))
    rows = np.arange(6, dtype="int32")[None]
    one, two, other = (
        update(
            optimizer.start(weights), stacked_settings([PLAIN._replace(reverse=reverse)]), rows, *sides, np.int32(0)
        )[1]
        for reverse, sides in ((False, (source, target)), (True, (target, source)), (True, (source, target)))
    )
    assert one == two != other


def test_greedy_search_is_that_of_the_model(model, batch):
    source, _ = batch
    for variable in model.trainable_variables:
        if variable.path.endswith("kernel"):
            variable.assign(3 * variable)  # so that a token does not predict itself
    table = np.array(model.target_embedding.table)
    table[EOS] = 1.1 * table[38]  # so that some sentences end
    model.target_embedding.table.assign(table)
    memory = model.encode(source, training=False)
    expected = GreedySearch()(model, memory, np.full(len(source), 12, "int32"), 12).ids[:, 0]
    weights = jax.tree.map(jnp.asarray, from_keras(variables_of(model), LAYERS))
    found = translate(weights, jnp.asarray(source), HEADS, 12, jnp.float32)
    expected, found = np.asarray(expected), np.asarray(found)
    assert (expected == found).all() and len(np.unique(found)) > 3
    assert 0 < (found == EOS).any(1).sum() < len(found)


def test_an_epoch_has_each_pair_at_most_once_and_other_batches_for_each_model():
    generator = np.random.default_rng(2)
    sides = [[generator.integers(4, 50, size) for size in generator.integers(1, 20, 300)] for _ in range(2)]
    made = make_buckets(sides, (9, 14, 25), 100)
    batches = epoch(made, generator, models=2)
    seen = [set(), set()]
    for width, rows in batches:
        bucket = made[width]
        assert rows.shape == (2, bucket.batch)
        assert ((bucket.source != PAD).sum(1).max() <= width) and (bucket.source == EOS).sum(1).all()
        for model in range(2):
            pairs = {(width, int(row)) for row in rows[model]}
            assert len(pairs) == bucket.batch and not pairs & seen[model]
            seen[model] |= pairs
    assert len(seen[0]) > 260 and any((rows[0] != rows[1]).any() for _, rows in batches)
    assert {width for width, _ in batches} == {9, 14, 20} and sum(len(b.source) for b in made.values()) == 300


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


def test_random_numbers_are_uniform_and_not_alike_for_other_places():
    one, two = (np.asarray(uniform(mixed(jnp.uint32(1), number), (200, 500))) for number in (1, 2))
    counts = np.histogram(one, 10, (0, 1))[0]
    assert abs(counts - 10_000).max() < 500 and one.min() >= 0 and one.max() < 1
    neighbours = (one[:, 1:], one[:, :-1]), (one[1:], one[:-1]), (one, two)
    assert all(abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02 for a, b in neighbours)


def test_dropout_sets_its_share_to_zero_and_keeps_the_mean():
    dropped = np.asarray(dropout(jnp.ones((100, 400)), 0.2, jnp.uint32(3)))
    assert set(np.unique(dropped)) == {0, np.float32(1 / 0.8)} and abs((dropped == 0).mean() - 0.2) < 0.01


@pytest.mark.parametrize(("other", "seed_at"), [("encode", 4), ("decode", 6)])
def test_both_passes_have_their_own_dropout_on_either_side_and_the_first_is_cut(batch, other, seed_at, monkeypatch):
    """Without a change between the passes, their divergence is zero; `other` is the side without dropout."""

    def without_dropout(*arguments):
        return getattr(transformer, other)(*arguments[:seed_at], None, *arguments[seed_at + 1 :])

    monkeypatch.setattr(f"tests.benchmarks.stacked.loss.{other}", without_dropout)
    weights = initial_weights(1, 32, 48, LAYERS, VOCABULARY)

    def divergence(**settings):
        apart = PLAIN._replace(second_pass=0.0, forward=0.0, backward=0.0, **settings)
        plain, more = (
            loss(weights, candidate, *batch, jnp.uint32(5), HEADS, jnp.float32)[0]
            for candidate in (apart, apart._replace(forward=1.0))
        )
        return float(more - plain)

    assert abs(divergence()) < 1e-5
    assert divergence(dropout=0.3) > 0.01 and divergence(first_cut=0.3) > 0.01


def test_each_decay_shrinks_its_own_weights():
    weights = jax.tree.map(jnp.asarray, initial_weights(1, 8, 12, 1, 20))
    nothing = jax.tree.map(jnp.zeros_like, weights)
    settings = Candidate(weight_decay=0.5, embedding_decay=0.25)
    changed = optimizer.apply(optimizer.start(weights), nothing, settings, jnp.float32(1), 0.1).weights
    shares = jax.tree.map(lambda new, old: np.ptp(new - old) and float((new / old).mean()), changed, weights)
    assert shares["embeddings"] == pytest.approx(1 - 0.1 * 0.25)
    assert shares["decoder"]["cross_key_kernel"] == pytest.approx(1 - 0.1 * 0.5)
    assert shares["encoder"]["norm_gamma"] == shares["encoder"]["qkv_bias"] == 0


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


def test_kept_models_are_candidates_and_no_two_are_alike():
    assert set(KEPT) <= set(CANDIDATES) and len(set(CANDIDATES.values())) == len(CANDIDATES)


def test_text_of_another_run_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"train\.source\.ids\.npy: missing"):
        read_text(tmp_path, "train", 20)
    (tmp_path / "encoded").mkdir()
    for side in ("source", "target"):
        np.save(tmp_path / f"encoded/train.{side}.ids.npy", np.array([4, 20, 5], "uint16"))
        np.save(tmp_path / f"encoded/train.{side}.starts.npy", np.array([0, 2, 3]))
    assert [[list(ids) for ids in side] for side in read_text(tmp_path, "train", 21)] == [[[4, 20], [5]]] * 2
    with pytest.raises(SystemExit, match="expected fewer than 20 ids, found 20"):
        read_text(tmp_path, "train", 20)
