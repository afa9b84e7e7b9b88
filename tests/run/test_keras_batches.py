"""The batches for `fit` of Keras: the very batches of `train.py`, whose losses `fit` then has."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from qkv.errors import InputError
from qkv.losses import TokenCrossEntropy
from qkv.metrics import TokenAccuracy
from qkv.model.build import build_model
from qkv.model.interface import TranslationModel
from qkv.run import train
from qkv.run.keras_batches import batches
from qkv.text.batch_plan import batches_by_length
from qkv.training.build import build_batches
from qkv.training.schedule import WarmupSchedule
from tests.support.tiny_runs import small_config, write_small_corpus

CHANGES = {
    "training.max_updates": 20,
    "training.validate_every_updates": 20,
    "training.label_smoothing": 0.1,
    "training.learning_rate": 0.01,
    "training.precision": "float32",
    "training.early_stopping.metric": "loss",
    "training.average_checkpoints": 1,
    "model.dropout": 0.0,
    "model.decoder_layers": 1,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    return small_config(write_small_corpus(folder / "corpus"), folder / "runs", "trained", CHANGES)


@pytest.fixture(scope="module")
def made(config):
    return batches(config)


def a_pass(dataset):
    """All batches of a pass, as Keras reads them."""
    dataset.on_epoch_begin()
    found = [dataset[index] for index in range(len(dataset))]
    dataset.on_epoch_end()
    return found


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ((source, target_input), target_output), batch in zip(found, expected, strict=True):
        np.testing.assert_equal((source, target_input, target_output), tuple(batch.ids))


def test_each_pass_reads_the_batches_of_an_epoch_of_training(config, made):
    expected = build_batches(config, made.text, tf.distribute.get_strategy(), config.batches.batch_tokens)
    dataset = batches(config)
    assert_same(a_pass(dataset), list(expected.epoch(0)))
    dataset.on_epoch_begin()
    dataset[0]
    dataset.on_epoch_end()  # as when Keras reads one batch to build a model
    second = a_pass(dataset)
    assert_same(second, list(expected.epoch(1)))
    assert any(not np.array_equal(x[1], y.target_output) for x, y in zip(second, expected.epoch(0), strict=True))


def test_the_validation_text_has_the_same_batches_in_every_pass(config):
    dataset = batches(config, "validation")
    pairs = dataset.text.validation_pairs
    rows = batches_by_length(*(side.lengths + 1 for side in pairs.sides))
    first, second = a_pass(dataset), a_pass(dataset)
    assert sum(len(x[1]) for x in first) == len(pairs.source) == sum(map(len, rows))
    np.testing.assert_equal(first, second)


def test_batches_and_their_text_show_their_sizes_on_one_line(config, made):
    """The sizes are those of the arrays without padding; a target counts with EOS, but not with BOS."""
    for dataset, name in ((made, "train"), (batches(config, "validation"), "validation")):
        inputs = [dataset._batch(index) for index in range(len(dataset))]
        sentences = sum(len(batch.source) for batch in inputs)
        tokens = sum(int((ids != 0).sum()) for batch in inputs for ids in (batch.source, batch.target_output))
        sizes = f"{len(dataset):,} batches, {sentences:,} sentences, {tokens:,} tokens an epoch"
        assert repr(dataset) == f"<KerasBatches {name}: {sizes}>"
        text = dataset.text
        pairs = f"{len(text.segmentations[0].source):,} training pairs, {len(text.validation):,} validation pairs"
        tokenizer = f"<Tokenizer: {text.tokenizer.vocabulary_size:,} tokens>"
        assert repr(text) == f"<TrainingText: {pairs}, {tokenizer}>"


@pytest.fixture(scope="module")
def packed(config):
    settings = config.batches.model_copy(update={"packed": True, "batch_tokens": 400})
    return config.model_copy(update={"batches": settings})


def test_packed_batches_have_segments_and_one_shape(packed):
    dataset = batches(packed)
    expected = build_batches(packed, dataset.text, tf.distribute.get_strategy(), 400)
    found = a_pass(dataset)
    assert len(found) > 3
    for (inputs, target_output), batch in zip(found, expected.epoch(0), strict=True):
        arrays = batch.source, batch.target_input, batch.source_segments, batch.target_segments, batch.target_output
        np.testing.assert_equal((*inputs, target_output), tuple(map(np.array, arrays)))
        assert [array.shape for array in inputs] == [array.shape for array in found[0][0]]
    pairs = sum(int(inputs[2].max(1).sum()) for inputs, _ in found)
    assert pairs == len(dataset.text.segmentations[0].source) and f"{pairs:,} sentences" in repr(dataset)


def test_the_validation_text_is_never_packed(config, packed):
    np.testing.assert_equal(a_pass(batches(packed, "validation")), a_pass(batches(config, "validation")))


@pytest.mark.minutes
def test_fit_on_packed_batches_has_the_loss_of_the_pairs_alone(config, packed):
    """Of an epoch at a learning rate of 0, which is the mean over all target tokens, and of validation."""
    histories = []
    for settings in (config, packed):
        dataset, validation = batches(settings), batches(settings, "validation")
        keras.utils.set_random_seed(1)
        model = build_model(settings.model, dataset.text.tokenizer.vocabulary_size)
        model.compile(keras.optimizers.SGD(0.0), TokenCrossEntropy(), metrics=[TokenAccuracy()])
        history = model.fit(dataset, epochs=1, shuffle=False, verbose=0, validation_data=validation).history
        histories.append({name: value for name, value in history.items() if name != "loss"})
        tokens = 0
        total = 0.0
        for index in range(len(dataset)):
            count = int((dataset[index][1] > 0).sum())
            tokens += count
            total += count * float(model.evaluate(*dataset[index], batch_size=10**6, verbose=0)[0])
        histories[-1]["loss"] = [total / tokens]
    assert histories[0].keys() == histories[1].keys()
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-4, err_msg=name)


def test_keras_sees_that_lengths_are_free(made):
    assert not made._reading
    (first, output), (second, other) = made[0], made[1]
    for x, y in zip((*first, output), (*second, other), strict=True):
        assert x.shape[1] != y.shape[1]


def test_a_split_that_is_not_there_is_refused(config):
    with pytest.raises(InputError, match="split: expected train or validation, found 'test'"):
        batches(config, "test")


def test_other_processes_are_refused_and_threads_are_not(config):
    dataset = batches(config)
    with pytest.raises(InputError, match=r"use_multiprocessing.* set only workers"):
        dataset.use_multiprocessing = True
    dataset.workers, dataset.use_multiprocessing = 2, False
    assert (dataset.workers, dataset.use_multiprocessing) == (2, False)


def test_replicas_get_the_sentences_of_whole_batches_and_as_many_rows_each(config, made, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(tf.distribute, "get_strategy", lambda: SimpleNamespace(num_replicas_in_sync=3))
        shared = batches(config)
    for ((source, target_input), target_output), (_, whole) in zip(shared, made, strict=True):
        rows = len(whole)
        assert len(source) == len(target_input) == len(target_output) == -(-rows // 3) * 3
        assert not source[rows:].any() and not target_input[rows:].any() and not target_output[rows:].any()
        np.testing.assert_array_equal(target_output[:rows, : whole.shape[1]], whole)


@pytest.fixture
def counting(made):
    """Makes a translation model of one weight, whose value after some updates depends on the order of the batches."""

    words = made.text.tokenizer.vocabulary_size

    class Counting(TranslationModel):
        def build(self, input_shape=None):
            self.factor = self.add_weight(name="factor", initializer="ones")

        def call(self, source_ids, target_ids=None, training=None):
            source_ids, target_ids = source_ids if target_ids is None else (source_ids, target_ids)
            steps = ops.cast(target_ids - source_ids[:, :1], "float32")
            return ops.sin(self.factor * steps[..., None] * ops.cast(ops.arange(words), "float32"))

    def make():
        model = Counting()
        model.build()
        model.compile(keras.optimizers.Adam(0.1), TokenCrossEntropy(), run_eagerly=True)
        return model

    return make


def epochs_read(model, dataset, **arguments):
    """The epoch of each batch that `fit` takes."""
    epochs = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: epochs.append(dataset.epoch))
    model.fit(dataset, shuffle=False, verbose=0, callbacks=note, **arguments)
    return epochs


def test_fits_in_a_row_read_one_epoch_after_another(config, counting):
    dataset, model, validation = batches(config), counting(), batches(config, "validation")
    count = len(dataset)
    for arguments, epochs in (
        ({"epochs": 2, "validation_data": validation}, (0, 1)),
        ({"epochs": 1}, (2,)),
        ({"epochs": 9, "initial_epoch": 7}, (7, 8)),
        ({"epochs": 2}, (9, 10)),
    ):
        assert epochs_read(model, dataset, **arguments) == [epoch for epoch in epochs for _ in range(count)]
        dataset.workers = 2
    assert epochs_read(model, dataset, epochs=5, initial_epoch=4, steps_per_epoch=2) == [4 * 2 // count] * 2


def test_a_fit_that_is_broken_and_restored_ends_as_an_unbroken_one(config, counting, tmp_path):
    def fit(model, *callbacks):
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)
        model.fit(batches(config), epochs=4, shuffle=False, verbose=0, callbacks=[*callbacks, backup])
        return float(model.factor)

    def stop(epoch, logs):
        if epoch == 2:
            raise KeyboardInterrupt

    unbroken = counting()
    unbroken.fit(batches(config), epochs=4, shuffle=False, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        fit(counting(), keras.callbacks.LambdaCallback(on_epoch_begin=stop))
    assert fit(counting()) == float(unbroken.factor)


class Losses(keras.callbacks.Callback):
    """The loss of each update."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.compiled:  # by `fit`, which otherwise reports means
            self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        self.found.append(logs["loss"])


@pytest.mark.minutes
def test_twenty_updates_of_fit_have_the_losses_of_training(config):
    trained, fitted = Losses(), Losses()
    assert train(config, callbacks=[trained]) == 0
    dataset = batches(config.run.directory / "trained")
    model = build_model(config.model, dataset.text.tokenizer.vocabulary_size)
    settings = config.training
    rate = WarmupSchedule(settings.schedule, settings.learning_rate, settings.warmup_updates)
    betas = {"beta_1": settings.beta_1, "beta_2": settings.beta_2, "epsilon": settings.epsilon}
    adam = keras.optimizers.Adam(rate, **betas, global_clipnorm=settings.clip_norm)
    model.compile(adam, TokenCrossEntropy(settings.label_smoothing), metrics=[TokenAccuracy()])
    model.fit(dataset, epochs=-(-20 // len(dataset)), shuffle=False, callbacks=[fitted], verbose=0)
    assert len(trained.found) == 20
    np.testing.assert_allclose(fitted.found[:20], trained.found, atol=1e-4)


@pytest.mark.parametrize("config", [5, None, {"model": 3}])
def test_batches_are_of_a_config_or_a_path(config):
    with pytest.raises(
        InputError, match=r"^config: expected a config, the path of one, or the folder of a run, found "
    ):
        batches(config)


PAIRS = [("the cat sleeps .", "le chat dort ."), ("", "vide"), ("a dog .", "un chien ."), ("x " * 300, "long")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    config = small_config(write_small_corpus(folder / "corpus"), folder / "runs", "two", {"training.max_updates": 2})
    train(config)
    return folder / "runs" / "two"


@pytest.mark.minutes
@pytest.mark.parametrize("split", ["train", "validation"])
def test_pairs_in_memory_are_encoded_by_the_tokenizer_of_a_run(trained, split):
    made = batches(trained, split, pairs=PAIRS)
    (((source, target_input), target_output),) = a_pass(made)
    tokenizer = made.text.tokenizer
    texts = tokenizer.decode(source), tokenizer.of_target.decode(target_output)
    assert {*zip(*texts, strict=True)} == {PAIRS[0], PAIRS[2]}
    following = target_input[:, 1:] > 0
    np.testing.assert_array_equal(target_input[:, 1:][following], target_output[:, :-1][following])
    assert set(target_input[:, 0]) == {2}


@pytest.mark.minutes
def test_pairs_in_memory_need_a_run_and_a_pair_that_fits(trained, config):
    with pytest.raises(InputError, match="pairs: expected the folder of a run beside them"):
        batches(config, pairs=PAIRS)
    with pytest.raises(InputError, match="pairs: expected pairs with text on both sides"):
        batches(trained, pairs=[("", "a")])
