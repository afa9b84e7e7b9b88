"""Checkpoints: they hold all that a run needs to continue, and are intact or refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from qkv.errors import InputError
from qkv.files.written import FileList
from qkv.training.build import build_model_and_optimizer
from qkv.training.checkpoints import Checkpoints, load_checkpoint, save_checkpoint
from qkv.training.progress import Progress
from tests.support.layer_contract import stir
from tests.support.tiny_models import SOURCE, TARGET, make_transformer
from tests.support.tiny_runs import ARCHITECTURES as MODELS
from tests.support.tiny_runs import small_config

PROGRESS = Progress(
    update=7,
    epoch=1,
    batch=2,
    seconds=3.5,
    best_metric=0.25,
    best_update=5,
    validations_without_gain=1,
    history=[{"update": 5, "val_bleu": 0.25}],
)


def make(**settings):
    """A model with dropout, and its optimizer."""
    model = make_transformer(**({"dropout": 0.5, "name": "transformer"} | settings))
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def step(model, optimizer):
    """An update that depends on dropout's random numbers, the moments and the update's number."""
    logits = model(SOURCE, TARGET, training=True)
    size = keras.ops.mean(keras.ops.abs(logits))
    optimizer.apply([size * keras.ops.ones_like(variable) for variable in model.trainable_variables])


def values(model, optimizer):
    return [np.array(keras.ops.convert_to_numpy(v)) for v in [*model.variables, *optimizer.variables]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint, and the model and optimizer that it is of."""
    path = tmp_path_factory.mktemp("saved") / "checkpoint.npz"
    model, optimizer = make()
    step(model, optimizer)
    save_checkpoint(path, model, optimizer, PROGRESS)
    return path, model, optimizer


@pytest.fixture(scope="module")
def other():
    """Another model of the same settings, for tests that must leave it as it is."""
    return make()


@pytest.mark.parametrize("name", MODELS)
def test_a_resumed_model_of_every_architecture_trains_on_as_the_killed_one_would_have(name, tmp_path):
    """With dropout and drawn hash functions: all random numbers that a model draws are in its checkpoint."""
    config = small_config(tmp_path, tmp_path, name, {"model": MODELS[name], "training.max_updates": 9})
    model, optimizer = build_model_and_optimizer(config, 17, 0.01, tf.distribute.get_strategy())
    keras.utils.set_random_seed(5)
    loaded = build_model_and_optimizer(config, 17, 0.01, tf.distribute.get_strategy())
    step(model, optimizer)
    save_checkpoint(tmp_path / "checkpoint.npz", model, optimizer, PROGRESS)
    assert load_checkpoint(tmp_path / "checkpoint.npz", *loaded) == PROGRESS
    for each in ((model, optimizer), loaded):
        step(*each)
    np.testing.assert_equal(values(*loaded), values(model, optimizer))


def test_the_weights_alone_can_be_loaded_for_translating(saved):
    model, _ = make()
    stir(model, seed=5)
    load_checkpoint(saved[0], model)
    np.testing.assert_array_equal(model(SOURCE, TARGET), saved[1](SOURCE, TARGET))


def test_a_failed_write_leaves_the_old_checkpoint_and_no_temporary_file(saved, tmp_path, monkeypatch):
    path, model, optimizer = saved
    checkpoint = tmp_path / "checkpoint.npz"
    checkpoint.write_bytes(path.read_bytes())

    def full_disk(target, **arrays):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(checkpoint, model, optimizer, Progress())
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]
    assert checkpoint.read_bytes() == path.read_bytes()


def changed(path, **arrays):
    """A checkpoint's bytes with other arrays in it; None takes one out."""
    with np.load(path) as archive:
        kept = {name: archive[name] for name in archive.files} | arrays
    target = path.with_suffix(".changed.npz")
    np.savez(target, **{name: array for name, array in kept.items() if array is not None})
    return target.read_bytes()


def one_array(path):
    target = path.with_suffix(".npy")
    np.save(target, np.zeros(3))
    return target.read_bytes()


def flipped(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"\x93NUMPY") + 130] ^= 255  # beyond the header of 128 bytes
    return bytes(content)


def flipped_method(path):
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 10] ^= 255  # how the last array is compressed
    return bytes(content)


DAMAGES = {
    "empty": lambda path: b"",
    "no archive": lambda path: b"some text\n" * 9,
    "cut": lambda path: path.read_bytes()[: path.stat().st_size // 2],
    "a byte of an array": flipped,
    "a byte of the table of contents": flipped_method,
    "one array": one_array,
    "code": lambda path: changed(path, progress=np.array([print], object)),
    "no progress": lambda path: changed(path, progress=None),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_changes_nothing(saved, other, tmp_path, damage):
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(saved[0].read_bytes())
    path.write_bytes(DAMAGES[damage](path))
    before = values(*other)
    with pytest.raises(InputError, match=r"checkpoint\.npz: the checkpoint is missing or damaged .*; use another one"):
        load_checkpoint(path, *other)
    np.testing.assert_equal(values(*other), before)


def test_a_missing_checkpoint_is_named(tmp_path, other):
    with pytest.raises(InputError, match=r"nowhere\.npz: the checkpoint is missing or damaged .*No such file"):
        load_checkpoint(tmp_path / "nowhere.npz", *other)


@pytest.mark.parametrize(
    ("settings", "with_optimizer", "message"),
    [
        ({"d_model": 12}, True, r"of shape \(17, 12\), found \(17, 8\); the config or the tokenizer was"),
        ({"vocabulary_size": 19}, False, r"of shape \(19, 8\), found \(17, 8\)"),
        ({"encoder_layers": 3}, True, "only one of the two has (model|optimizer)/"),
        ({"decoder_layers": 2}, False, "only one of the two has (model|optimizer)/"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused_and_changes_nothing(saved, settings, message, with_optimizer):
    model, optimizer = make(**settings)
    before = values(model, optimizer)
    with pytest.raises(InputError, match=rf"checkpoint\.npz: the checkpoint is of another model: .*{message}"):
        load_checkpoint(saved[0], model, optimizer if with_optimizer else None)
    np.testing.assert_equal(values(model, optimizer), before)


def test_the_last_keep_checkpoints_and_the_best_are_kept(saved, tmp_path):
    _, model, optimizer = saved
    checkpoints = Checkpoints(tmp_path, keep=2)
    for update in (500, 1000, 1500, 20_000):
        checkpoints.save(model, optimizer, Progress(update=update), best=update == 1000)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["best.npz", "update-00001500.npz", "update-00020000.npz"]
    assert checkpoints.last().name == "update-00020000.npz"
    assert load_checkpoint(checkpoints.best, model).update == 1000


def test_an_interim_checkpoint_stays_until_the_next_one_and_is_not_among_those_of_validations(saved, tmp_path):
    _, model, optimizer = saved
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(model, optimizer, Progress(update=500))
    for update in (600, 700):
        checkpoints.save_interim(model, optimizer, Progress(update=update))
    names = ["passing-00000700.npz", "update-00000500.npz"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert [path.name for path in checkpoints.recent()] == names[1:]
    assert checkpoints.last().name == names[0]
    assert checkpoints.restore(model, optimizer).update == 700
    (tmp_path / names[0]).write_bytes(b"damaged")
    assert checkpoints.restore(model, optimizer).update == 500
    checkpoints.save_interim(model, optimizer, Progress(update=800))
    checkpoints.save(model, optimizer, Progress(update=1000))
    assert [path.name for path in checkpoints.all()] == ["update-00000500.npz", "update-00001000.npz"]


def test_an_interim_checkpoint_older_than_that_of_a_validation_is_not_restored(saved, tmp_path):
    _, model, optimizer = saved
    checkpoints = Checkpoints(tmp_path, keep=2)
    for update in (500, 1000):
        checkpoints.save(model, optimizer, Progress(update=update))
    checkpoints.save_interim(model, optimizer, Progress(update=700))
    assert checkpoints.restore(model, optimizer).update == 1000


def test_checkpoints_that_a_kill_kept_from_being_deleted_are_deleted_by_the_resumed_run(saved, tmp_path):
    _, model, optimizer = saved
    everything = Checkpoints(tmp_path, keep=9)
    for update in (500, 1000, 1500):
        everything.save(model, optimizer, Progress(update=update))
    for update in (1200, 1500):
        save_checkpoint(tmp_path / f"passing-{update:08d}.npz", model, optimizer, Progress(update=update))
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.restore(model, optimizer)
    checkpoints.delete_superseded()
    assert [path.name for path in checkpoints.all()] == ["update-00001000.npz", "update-00001500.npz"]


def test_copies_put_beside_checkpoints_are_neither_deleted_nor_loaded(saved, tmp_path):
    _, model, optimizer = saved
    copies = ["update-00000500-before.npz", "update-mine.npz", "passing-copy.npz", ".update-00000500.npz"]
    for name in copies:
        (tmp_path / name).write_bytes(b"mine")
    checkpoints = Checkpoints(tmp_path, keep=1)
    for update in (500, 1000):
        checkpoints.save_interim(model, optimizer, Progress(update=update))
        checkpoints.save(model, optimizer, Progress(update=update))
    assert checkpoints.restore(model, optimizer).update == 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*copies, "update-00001000.npz"])


def test_a_damaged_newest_checkpoint_is_replaced_by_the_one_before(saved, tmp_path, caplog):
    _, model, optimizer = saved
    checkpoints = Checkpoints(tmp_path, keep=3)
    for update in (1, 2, 3):
        checkpoints.save(model, optimizer, Progress(update=update))
    newest = tmp_path / "update-00000003.npz"
    newest.write_bytes(newest.read_bytes()[:-1000])
    with caplog.at_level("WARNING"):
        assert checkpoints.restore(model, optimizer).update == 2
    assert "update-00000003.npz: the checkpoint is missing or damaged" in caplog.text
    assert "continuing from the checkpoint before it" in caplog.text and "update-00000002.npz" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["update-00000001.npz", "update-00000002.npz"]


def test_checkpoints_of_others_that_a_list_does_not_name_are_not_deleted(saved, tmp_path):
    _, model, optimizer = saved
    folder, files = tmp_path / "checkpoints", FileList(tmp_path)
    checkpoints = Checkpoints(folder, keep=1)
    folder.mkdir()
    for name in ("update-00000001.npz", "update-00000099.npz"):
        (folder / name).write_bytes(b"mine")
    with files.recording():
        for update in (2, 3):
            checkpoints.save(model, optimizer, Progress(update=update))
        assert checkpoints.restore(model, optimizer).update == 3
        checkpoints.delete_superseded()
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert left.keys() == {"update-00000001.npz", "update-00000003.npz", "update-00000099.npz.other"}
    assert left["update-00000001.npz"] == left["update-00000099.npz.other"] == b"mine"
