"""What an evaluation is said to be of."""

import re
from types import SimpleNamespace

import pytest

from qkv.config.run import make_run_config
from qkv.errors import InputError
from qkv.evaluation import request
from qkv.files.run_directory import RunDirectory
from qkv.text.lines.typed_line import TypedText
from qkv.text.tokens.words import AT_SPACES
from tests.support.tiny_runs import small_settings, write_small_corpus


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run without a model, whose corpus is in its folder."""
    for reader in ("read_configured_gold", "read_choice_set"):
        monkeypatch.setattr(request, reader, lambda *_: None)
    config = make_run_config(small_settings(write_small_corpus(tmp_path), tmp_path), {}, "run")
    read_as_it_is = SimpleNamespace(read=lambda lines: (lines, []), readable=list)
    reader = SimpleNamespace(segmenter=None, typed_text=lambda *_, **form: read_as_it_is)
    return SimpleNamespace(config=config, directory=RunDirectory(tmp_path), reader=reader)


@pytest.mark.parametrize("set_name", ["test", "validation"])
def test_a_set_of_the_config_keeps_its_name_whatever_the_folder_is_called(run, set_name):
    data = request.read_configured_set(run, "mine", set_name)
    assert (data.name, data.set_name, data.is_own_text) == ("mine", set_name, False)


@pytest.mark.parametrize("reference", [None, "test.fr"])
def test_text_of_ones_own_is_called_after_its_file(run, reference):
    folder = run.directory.root
    data = request.read_own_set(run, "mine", folder / "test.en", reference and folder / reference)
    assert (data.name, data.set_name, data.is_own_text) == ("mine", "test.en", True)
    assert (data.reference is None) == (reference is None)


def test_links_counted_from_one_are_refused_with_the_option_that_reads_them(run, tmp_path):
    lines = (tmp_path / "test.align").read_text().splitlines()
    from_1 = tmp_path / "from_1.align"
    from_1.write_text("".join(f"{re.sub('[0-9]+', lambda number: str(int(number[0]) + 1), line)}\n" for line in lines))
    run.reader.segmenter = AT_SPACES
    files = [tmp_path / f"test.{side}" for side in ("en", "fr")]
    told = r"from_1\.align:\d+, of .* If they are counted from 1, give --first_index 1 \(first_index=1 from Python\);"
    with pytest.raises(InputError, match=told):
        request.read_own_set(run, "mine", *files, from_1)
    read = request.read_own_set(run, "mine", *files, from_1, first_index=1).gold
    assert read.gold == request.read_own_set(run, "mine", *files, tmp_path / "test.align").gold.gold
    assert read.dropped_links == 0


def test_references_are_scored_without_characters_that_no_translation_has(run, tokenizer, tmp_path):
    run.reader.typed_text = lambda name, *_, **form: TypedText(tokenizer, None, None, 50, name)
    for name, line in (("my.en", "the c\xadat \u200b sees"), ("my.fr", "le ch\u200bat\xa0voit\xad")):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    data = request.read_own_set(run, "mine", tmp_path / "my.en", tmp_path / "my.fr")
    assert (data.source, data.reference) == (["the cat \u200b sees"], ["le chat\xa0voit"])
