"""Files of weights are checked before they are loaded: bombs, links to other files, models larger than their data."""

import io
import shutil
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from qkv.errors import InputError
from qkv.run.weights import EXPECTED, WEIGHTS_FILE, check_weights_file, extracted_weights
from qkv.training.checkpoints import save_checkpoint
from qkv.training.progress import Progress
from tests.support.tiny_models import MODELS, make_model


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    architecture, settings = MODELS["transformer"]
    path = tmp_path_factory.mktemp("kept") / "model.keras"
    make_model(architecture, **settings).save(path)
    return path


@pytest.fixture
def saved(kept, tmp_path):
    return Path(shutil.copy(kept, tmp_path / "model.keras"))


def rewritten(path, change, extra=()):
    """The file again, with its HDF5 part changed and other members added."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = io.BytesIO(members[WEIGHTS_FILE])
    with h5py.File(content, "r+") as weights:
        change(weights)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, WEIGHTS_FILE: content.getvalue(), **dict(extra)}.items():
            archive.writestr(name, data)
    return path


def external_data(weights):
    weights.create_dataset("other", (4,), "f4", external=[("/etc/hostname", 0, 16)])


def virtual_data(weights):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/hostname", "x", (4,))
    weights.create_virtual_dataset("other", layout)


def nest(weights):
    for _ in range(300):
        weights = weights.create_group("g")


def multiply(weights):
    for _ in range(40):
        below = weights.create_group("x")
        weights["y"] = below
        weights = below


TRICKS = {
    "external link": (lambda w: w.__setitem__("x", h5py.ExternalLink("/etc/hostname", "/a")), (), "x is a link to"),
    "soft link": (lambda w: w.__setitem__("x", h5py.SoftLink("/layers")), (), "x is a link to other data"),
    "external data": (external_data, (), "the numbers of other are in another file"),
    "virtual data": (virtual_data, (), "the numbers of other are in another file"),
    "path out of it": (lambda w: None, [("../../evil.py", b"")], "and nothing else"),
    "further member": (lambda w: None, [("assets/code.py", b"")], "and nothing else"),
    "bomb": (lambda w: w.create_dataset("zeros", data=np.zeros(10_000_000, "f4")), (), "it would unpack to 40,"),
    "300 nested groups": (nest, (), "more groups than a model has"),
    "groups that hold each other": (
        lambda w: w.create_group("a").__setitem__("b", w),
        (),
        "more groups than a model has",
    ),
    "groups that multiply": (multiply, (), "more groups than a model has"),
    "numbers without data": (
        lambda w: w.create_dataset("x", (10**12,), "f4", chunks=(1024,)),
        (),
        "the numbers of x have 0 bytes",
    ),
    "compressed zeros": (
        lambda w: w.create_dataset("x", data=np.zeros(10**6, "f4"), compression="gzip"),
        (),
        "too few for the shape",
    ),
    "text": (lambda w: w.create_dataset("x", data=["a", "b"]), (), "the numbers of x are of type object"),
    "whole numbers": (lambda w: w.create_dataset("x", data=np.arange(9)), (), "the numbers of x are of type int64"),
    "complex": (lambda w: w.create_dataset("x", data=np.ones(3, "c8")), (), "the numbers of x are of type complex64"),
    "a type": (lambda w: w.__setitem__("x", np.dtype("f4")), (), "the numbers of x are a data type"),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_malicious_model_files_are_refused(saved, trick):
    change, extra, message = TRICKS[trick]
    with pytest.raises(InputError, match=f"model.keras: .*{message}"):
        check_weights_file(rewritten(saved, change, extra), 1)


def test_a_file_of_keras_is_accepted_and_refused_for_a_larger_model(saved):
    check_weights_file(saved, 1_000)
    check_weights_file(rewritten(saved, lambda weights: None), 1_000)
    with pytest.raises(InputError, match=r"at least 1,000,000 numbers, and [0-9,]+ at most are in the file"):
        check_weights_file(saved, 1_000_000)
    assert {WEIGHTS_FILE} < EXPECTED


def test_weights_stand_alone_while_they_are_loaded(saved, monkeypatch):
    with extracted_weights(saved) as path, zipfile.ZipFile(saved) as archive:
        assert path.name == WEIGHTS_FILE and path.read_bytes() == archive.read(WEIGHTS_FILE)
    assert not path.exists() and not path.parent.exists()

    def extract(archive, name, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extract", extract)
    with extracted_weights(saved) as path:
        assert path == saved
    with pytest.raises(OSError, match="of the caller"), extracted_weights(saved):
        raise OSError("of the caller")


@pytest.fixture
def checkpoint(tmp_path):
    architecture, settings = MODELS["transformer"]
    model, path = make_model(architecture, **settings), tmp_path / "best.npz"
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    save_checkpoint(path, model, optimizer, Progress())
    return path


def test_a_checkpoint_is_accepted_and_refused_for_a_larger_model(checkpoint):
    check_weights_file(checkpoint, 1_000)
    with pytest.raises(InputError, match=r"at least 1,000,000 numbers, and [0-9,]+ at most are in the file"):
        check_weights_file(checkpoint, 1_000_000)


HEADER = b"(8, 8), }" + 6 * b" "


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (8, b"(8000000, 8), }", r"other.npy says that it is of shape \(8000000, 8\), and has 384 bytes"),
        (8, b"(8, 8), (" + 6 * b" ", "the file is damaged"),
        (2_000_000, HEADER, "it would unpack to 64,"),
    ],
    ids=["more than its data", "an unreadable header", "a bomb"],
)
def test_a_checkpoint_whose_arrays_lie_is_refused(checkpoint, rows, header, message):
    content = io.BytesIO()
    np.save(content, np.zeros((rows, 8), "f4"))
    with zipfile.ZipFile(checkpoint, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/0099/other.npy", content.getvalue().replace(HEADER, header))
    with pytest.raises(InputError, match=message):
        check_weights_file(checkpoint, 1)


@pytest.mark.parametrize("name", ["model.keras", "best.npz"])
@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x05\x06" + 18 * b"\0"])
def test_a_file_of_another_kind_is_refused(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}: the weights do not fit the run's config, or the file is"):
        check_weights_file(tmp_path / name, 1)
