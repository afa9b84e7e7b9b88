"""What an evaluation is said to be of."""

from types import SimpleNamespace

import pytest

from qkv.config.run import make_run_config
from qkv.evaluation import request
from qkv.files.run_directory import RunDirectory
from tests.support.tiny_runs import small_settings, write_small_corpus


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run without a model, whose corpus is in its folder."""
    for reader in ("read_configured_gold", "read_choice_set"):
        monkeypatch.setattr(request, reader, lambda *_: None)
    config = make_run_config(small_settings(write_small_corpus(tmp_path), tmp_path), {}, "run")
    read_as_it_is = SimpleNamespace(read=lambda lines: (lines, []))
    return SimpleNamespace(
        config=config, directory=RunDirectory(tmp_path), cutter=None, typed_text=lambda *_, **form: read_as_it_is
    )


@pytest.mark.parametrize("set_name", ["test", "validation"])
def test_a_set_of_the_config_keeps_its_name_whatever_the_folder_is_called(run, set_name):
    data = request.read_configured_set(run, "mine", set_name)
    assert (data.name, data.set_name, data.own) == ("mine", set_name, False)


@pytest.mark.parametrize("reference", [None, "test.fr"])
def test_text_of_ones_own_is_called_after_its_file(run, reference):
    folder = run.directory.root
    data = request.read_own_set(run, "mine", folder / "test.en", reference and folder / reference)
    assert (data.name, data.set_name, data.own) == ("mine", "test.en", True)
    assert (data.reference is None) == (reference is None)
