"""Files of weights that are not what they say: bombs, links to other files, models larger than what is in them."""

import io
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.weights_file import EXPECTED, WEIGHTS, check_weights_file
from tests.tiny_models import MODELS, make_model


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
    content = io.BytesIO(members[WEIGHTS])
    with h5py.File(content, "r+") as weights:
        change(weights)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, WEIGHTS: content.getvalue(), **dict(extra)}.items():
            archive.writestr(name, data)
    return path


def external_data(weights):
    weights.create_dataset("other", (4,), "f4", external=[("/etc/hostname", 0, 16)])


def virtual_data(weights):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/hostname", "x", (4,))
    weights.create_virtual_dataset("other", layout)


TRICKS = {
    "external link": (lambda w: w.__setitem__("x", h5py.ExternalLink("/etc/hostname", "/a")), (), "x is a link to"),
    "soft link": (lambda w: w.__setitem__("x", h5py.SoftLink("/layers")), (), "x is a link to elsewhere"),
    "external data": (external_data, (), "the numbers of other are in another file"),
    "virtual data": (virtual_data, (), "the numbers of other are in another file"),
    "path out of it": (lambda w: None, [("../../evil.py", b"")], "and nothing else"),
    "further member": (lambda w: None, [("assets/code.py", b"")], "and nothing else"),
    "bomb": (
        lambda w: w.create_dataset("zeros", data=np.zeros(10_000_000, "f4")),
        (),
        "it would unpack to 40,",
    ),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_tricks_are_refused(saved, trick):
    change, extra, message = TRICKS[trick]
    with pytest.raises(InputError, match=message):
        check_weights_file(rewritten(saved, change, extra), 1)


def test_what_keras_writes_is_accepted_and_a_model_that_is_larger_is_not(saved):
    check_weights_file(saved, 1_000)
    check_weights_file(rewritten(saved, lambda weights: None), 1_000)
    with pytest.raises(InputError, match=r"at least 1,000,000 numbers, and [0-9,]+ at most are here"):
        check_weights_file(saved, 1_000_000)
    assert {WEIGHTS} < EXPECTED


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x05\x06" + 18 * b"\0"])
def test_what_is_no_such_file_is_refused(tmp_path, content):
    (tmp_path / "model.keras").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.keras: the weights do not fit the run's config, or the file is"):
        check_weights_file(tmp_path / "model.keras", 1)
