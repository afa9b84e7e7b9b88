"""The links of eflomal for a training text, with a program in its place that links word i with word i."""

import sys

import pytest
import yaml

from data.eflomal_links import main
from qkv.text.corpora.word_links import read_pharaoh
from tests.support.tiny_runs import small_settings, write_small_corpus

PROGRAM = f"""#!{sys.executable}
import sys
named = dict(zip(sys.argv[1::2], sys.argv[2::2]))
sides = [open(named[name], encoding="utf-8").read().split("\\n")[:-1] for name in ("-s", "-t")]
assert len(sides[0]) == len(sides[1])
for name in ("-f", "-r"):
    with open(named[name], "w") as file:
        for source, target in zip(*sides):
            pairs = zip(range(len(source.split())), range(len(target.split())))
            file.write(" ".join(f"{{i}}-{{j}}" for i, j in pairs) + "\\n")
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    program = tmp_path / "eflomal-align"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = small_settings(write_small_corpus(tmp_path), tmp_path, {"data.train.alignments": str(tmp_path / "made")})
    source, target = (tmp_path / name for name in ("odd.source", "odd.target"))
    # A no-break space and an ideographic one stand inside of words, two spaces are one gap, a line may be empty.
    source.write_text("a b\n\n1\u00a0000 b\u3000c  d\n", encoding="utf-8")
    target.write_text("A B C\nX\nA B C\n", encoding="utf-8")
    settings["data"]["train"].update(source=str(source), target=str(target))
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def test_links_count_the_words_between_spaces(config, capsys):
    assert main([str(config)]) == 0
    links = [sorted(line.sure) for line in read_pharaoh(config.parent / "made")]
    assert links == [[(0, 0), (1, 1)], [], [(0, 0), (1, 1), (2, 2)]]
    assert "3 pairs aligned" in capsys.readouterr().out


def change(config, **data):
    settings = yaml.safe_load(config.read_text())
    settings["data"] |= data
    config.write_text(yaml.safe_dump(settings))


def test_links_count_characters_where_the_config_says_so(config):
    (config.parent / "odd.target").write_text("我 喜\nX\n猫\u3000吃\n", encoding="utf-8")
    change(config, words={"target": "characters"})
    assert main([str(config)]) == 0
    links = [sorted(line.sure) for line in read_pharaoh(config.parent / "made")]
    assert links == [[(0, 0), (1, 1)], [], [(0, 0), (1, 1)]]


@pytest.mark.parametrize("changes", [{"words": {"target": "subwords"}}, {"tokenized": False}])
def test_text_whose_subwords_count_as_words_is_refused(config, capsys, changes):
    (config.parent / "odd.target").write_text("我喜欢\n猫\n猫吃苹果\n", encoding="utf-8")
    change(config, **changes)
    assert main([str(config)]) == 2
    assert "set data.words to characters" in capsys.readouterr().err


def test_links_that_would_be_read_turned_are_refused(config, capsys):
    settings = yaml.safe_load(config.read_text())
    change(config, train=settings["data"]["train"] | {"alignments_turned": True})
    assert main([str(config)]) == 2
    assert "source-target, counted from 0" in capsys.readouterr().err


def test_an_aligner_that_fails_leaves_no_links(config, capsys):
    (config.parent / "eflomal-align").write_text(f"#!{sys.executable}\nraise SystemExit(3)\n")
    assert main([str(config)]) == 2
    assert "eflomal-align: failed" in capsys.readouterr().err
    assert not (config.parent / "made").exists()


@pytest.mark.parametrize("names", [["-f"], ["-r"], ["-f", "-r"]], ids=" ".join)
@pytest.mark.parametrize("text", [None, "", "0-0\n\n"], ids=["no file", "no line", "two lines"])
def test_an_aligner_that_writes_too_few_lines_leaves_no_links(config, capsys, names, text):
    cut = "".join(f"import pathlib; path = pathlib.Path(named['{name}']); path.unlink()\n" for name in names)
    if text is not None:
        cut = cut.replace("path.unlink()", f"path.write_text({text!r})")
    (config.parent / "eflomal-align").write_text(PROGRAM + cut)
    assert main([str(config)]) == 2
    message = capsys.readouterr().err
    assert f"expected a line of links for each of 3 pairs, found {(text or '').count(chr(10))} (" in message
    assert not (config.parent / "made").exists()


def test_an_aligner_that_is_not_installed_is_named(config, capsys):
    (config.parent / "eflomal-align").unlink()
    assert main([str(config)]) == 2
    assert "pip install eflomal" in capsys.readouterr().err
