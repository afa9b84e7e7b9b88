"""What all commands share: wrong paths are told before TensorFlow is loaded, and common options stand anywhere."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from qkv.commands.cli import COMMON, ArgumentParser, exit_cleanly, text_file, whole_number
from qkv.config.yaml import dump_yaml
from qkv.errors import InputError
from qkv.run.start import check_config_paths
from tests.support.processes import run_without
from tests.support.tiny_runs import small_config, small_settings, write_small_corpus

EVERY_COMMAND = """
import contextlib, importlib, io, json, sys
answers = []
for name, *arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = importlib.import_module(f"qkv.commands.{name}").main(arguments)
    answers.append([status, said.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture
def place(tmp_path):
    """Runs without weights, with them, interrupted before the first validation, and with a file in the place of its
    evaluations; a text, and two configs."""
    files = ("begun/config.yaml", "run/config.yaml", "run/model.keras", "interrupted/config.yaml")
    filed = ("filed/config.yaml", "filed/model.keras", "filed/evaluations")
    for file in (*files, "interrupted/checkpoints/passing-00000001.npz", *filed):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "text").write_text("a b\n", encoding="utf-8")
    corpus = write_small_corpus(tmp_path / "corpus")
    for name, changes in {"good": {}, "bad": {"data.validation.target": str(tmp_path / "none.fr")}}.items():
        settings = small_settings(corpus, tmp_path / "text" if name == "good" else tmp_path / "runs", changes)
        (tmp_path / f"{name}.yaml").write_text(dump_yaml(settings), encoding="utf-8")
    return tmp_path


def ask(*arguments):
    """Gives arguments to a command with an option of each kind."""
    parser = ArgumentParser("any")
    parser.add_argument("--path", type=text_file)
    parser.add_argument("--one", choices=["a", "b"])
    parser.add_argument("--number", type=whole_number(0, 9))
    parser.add_argument("--text")
    parser.add_argument("--many", nargs="+")
    return exit_cleanly(lambda given: print(vars(parser.parse_args(given))))([*arguments])


@pytest.mark.parametrize("option", ["path", "one", "number", "plugins"])
def test_two_hyphens_are_a_value_as_any_other(option, capsys):
    assert ask(f"--{option}=--") == 2
    assert re.fullmatch(r"error: .*--.*\n", capsys.readouterr().err)


def test_two_hyphens_are_text(capsys):
    assert ask("--text=--", "--many=--") == 0
    assert "'text': '--', 'many': ['--']" in capsys.readouterr().out


def test_an_empty_path_is_not_the_working_directory(capsys):
    assert ask("--path", "") == 2
    assert (
        capsys.readouterr().err
        == "error: argument --path: expected the path of a file or folder, found ''; see --help\n"
    )


@pytest.mark.parametrize("option", ["path", "one", "number", "plugins", "none"])
def test_a_long_word_is_quoted_in_part(option, capsys):
    assert ask(f"--{option}", "x" * 5000) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and len(said) < 500


CASES = {
    "train CONFIG": (["train", "--config", "none.yaml"], r"none\.yaml: "),
    "train no CONFIG": (["train", "--config", ""], r"\.: cannot be read as a config file"),
    "train text": (["train", "--config", "bad.yaml"], r"none\.fr: there is no such file"),
    "train folder": (["train", "--config", "good.yaml"], r"text/good: cannot be created: .*text is a file"),
    "train RUN": (["train", "--resume", "none"], "none: there is no run to resume here"),
    "doctor CONFIG": (["doctor", "none.yaml"], r"none\.yaml: "),
    "doctor text": (["doctor", "bad.yaml"], r"none\.fr: there is no such file"),
    "evaluate RUN": (["evaluate", "none"], "none: no such run"),
    "evaluate weights": (["evaluate", "begun"], r"begun/checkpoints: no weights .* --resume .*begun"),
    "evaluate RUN2": (["evaluate", "run", "none"], "none: no such run"),
    "evaluate weights of RUN2": (["evaluate", "run", "begun"], r"begun/checkpoints: no weights to translate"),
    "evaluate --source": (["evaluate", "run", "--source", "none.en"], r"none\.en: there is no such file"),
    "evaluate --reference": (
        ["evaluate", "run", "--source", "text", "--reference", "run"],
        "run: this is a directory; expected a text file",
    ),
    "evaluate results": (
        ["evaluate", "filed", "--forced"],
        "filed/evaluations: this is a file, in the place of a folder",
    ),
    "translate RUN": (["translate", "text"], "text: no such run"),
    "translate RUN2": (["translate", "run", "run", "text"], "text: no such run"),
    "translate weights": (["translate", "begun", "--checkpoint", "last"], "begun/checkpoints: no weights to translate"),
    "translate before validation": (["translate", "interrupted"], "--resume .*interrupted; or .* --checkpoint last"),
    "export before validation": (["export", "interrupted", "new", "--format", "marian"], "or .* --checkpoint last"),
    "evaluate without checkpoints": (["evaluate", "run", "--checkpoint", "last"], "leave out --checkpoint last"),
    "align REVERSE": (["align", "run", "none", "--source", "text", "--target", "text"], "none: no such run"),
    "align --target": (["align", "run", "--source", "text", "--target", "none.fr"], r"none\.fr: there is no such file"),
    "link CONFIG": (["link", "none.yaml"], r"none\.yaml: "),
    "link text": (["link", "--source", "text", "--target", "none.fr"], r"none\.fr: there is no such file"),
    "compare --csv": (["compare", "run", "run", "--csv", "run"], "run: this is a directory; expected the name"),
    "compare RUN": (["compare", "none", "run"], "none: no such run"),
    "measure ARCHIVE": (["measure", "none"], "none: no such run"),
    "measure a folder": (["measure", "corpus"], "corpus: neither a run, which has .*nor an attention archive"),
    "measure --choose_on": (["measure", "run", "--choose_on", "corpus"], "corpus: neither a run"),
    "measure --alignments": (["measure", "run", "--alignments", "none.fr"], r"none\.fr: there is no such file"),
    "measure --folder": (["measure", "run", "--folder", "text"], "text: this is a file; expected the name of a folder"),
    "view RUN": (["view", "none"], "none: no such run"),
    "live RUN": (["live", "none", "--page", "page.html"], "none: no such run"),
    "live --page": (["live", "run", "--page", "corpus"], "corpus: this is a directory; expected the name of a file"),
    "live weights": (["live", "begun"], "begun/checkpoints: no weights to translate with yet"),
    "draw RUN": (["draw", "none", "--sentence", "0"], "none: no such run"),
}


def test_every_command_tells_a_wrong_path_without_tensorflow(place):
    names = {path.name for path in place.iterdir()} | {"none", "none.en", "none.fr", "none.yaml", "text/links"}
    commands = [[str(place / word) if word in names else word for word in words] for words, _ in CASES.values()]
    answer = run_without(["tensorflow", "keras"], place / "site", "-c", EVERY_COMMAND, json.dumps(commands))
    assert answer.returncode == 0, answer.stderr
    for (case, (_, pattern)), (status, said) in zip(CASES.items(), json.loads(answer.stdout), strict=True):
        assert status == 2 and re.match("error: ", said) and re.search(pattern, said), f"{case}: {said}"


def test_patterns_of_a_new_run_are_checked_first(tmp_path):
    corpus = write_small_corpus(tmp_path / "corpus")
    for name, source, target, message in (
        ("none", "x*.en", "train.fr", r"x\*\.en: no file matches this pattern"),
        ("unequal", "t*.en", "train.fr", "stands for 2 files and .* stands for 1 file"),
        ("good", "tra*.en", "tra*.fr", None),
    ):
        changes = {"data.train": [{"source": str(corpus / source), "target": str(corpus / target)}], "run.name": name}
        with pytest.raises(InputError, match=message) if message else nullcontext():
            check_config_paths(small_config(corpus, tmp_path, name, changes))
    cached = small_config(corpus, tmp_path, "cached", {"data.cache": str(corpus / "train.en")})
    with pytest.raises(InputError, match=r"train\.en: this is a file; expected the name of a folder"):
        check_config_paths(cached)


def test_the_options_of_every_command_stand_anywhere():
    arguments = ["run", "--plugins", "a.py", "--set", "test", "--debug", "--plugins=b.py"]
    common, others = COMMON.parse_known_args(arguments)
    assert (common.plugins, common.debug) == ([Path("a.py"), Path("b.py")], True)
    assert others == ["run", "--set", "test"]


def test_a_missing_plugin_ends_the_command_with_status_2(tmp_path, capsys):
    ran = []
    command = exit_cleanly(lambda arguments: ran.append(arguments))
    assert command(["--plugins", str(tmp_path / "absent.py")]) == 2
    assert "absent.py: no such file" in capsys.readouterr().err
    assert command(["--plugins"]) == 2
    assert "argument --plugins: expected one argument" in capsys.readouterr().err
    assert not ran
