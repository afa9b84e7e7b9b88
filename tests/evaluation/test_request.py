"""Where the results of an evaluation go, and what they are said to be of."""

from types import SimpleNamespace

import pytest

from qkv.commands.evaluate import make_parser
from qkv.config.run import make_run_config
from qkv.evaluation import request
from qkv.files.run_directory import RunDirectory
from tests.support.tiny_runs import small_settings, write_small_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = write_small_corpus(tmp_path_factory.mktemp("text"))
    (folder / "run").mkdir()
    (folder / "run/config.yaml").touch()
    (folder / "run/model.keras").touch()
    return folder


@pytest.mark.parametrize(
    ("options", "name", "origin", "own"),
    [
        ([], "test", "test", False),
        (["--forced"], "test.forced", "test", False),
        (["--set", "validation", "--forced"], "validation.forced", "validation", False),
        (["--forced", "--name", "mine"], "mine", "test", False),
        (["--source", "test.en"], "test.en", "test.en", True),
        (["--source", "test.en", "--reference", "test.fr", "--forced"], "test.en.forced", "test.en", True),
        (["--source", "test.en", "--reference", "test.fr", "--name", "mine"], "mine", "test.en", True),
    ],
)
def test_attention_over_references_has_a_folder_of_its_own(corpus, monkeypatch, options, name, origin, own):
    config = make_run_config(small_settings(corpus, corpus), {}, "run")
    directory = RunDirectory(corpus / "run")
    run = SimpleNamespace(config=config, directory=directory, cutter=None, target_tokens=None)
    run.with_config = lambda changed: run  # search settings do not matter here
    run.typed_text = lambda *_, **form: SimpleNamespace(read=lambda lines: (lines, []))
    data = read(monkeypatch, run, [str(corpus / text) if "." in text else text for text in options])
    assert (data.name, data.set_name, data.own) == (name, origin, own)


def read(monkeypatch, run, options):
    for reader in ("read_configured_gold", "read_choice_set"):
        monkeypatch.setattr(request, reader, lambda *_: None)
    monkeypatch.setattr(request, "load_runs", lambda *_: run)
    monkeypatch.setattr(request, "replace", lambda changed, **_: changed)
    return request.read_request(make_parser().parse_args([str(run.directory.root), *options])).data
