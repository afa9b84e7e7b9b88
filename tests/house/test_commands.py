"""All commands as one program, and how messages name them."""

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.__main__ import main
from qkv.commands import COMMANDS, GROUPS
from qkv.errors import invocation
from qkv.version import __version__
from tests.support import ROOT


def test_every_module_that_is_a_command_is_listed():
    modules = {path.stem for path in (ROOT / "pipeline" / "qkv" / "commands").glob("*.py")}
    assert modules - {"__init__", "cli"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_gets_its_arguments(name, monkeypatch):
    module = importlib.import_module(f"qkv.commands.{name}")
    monkeypatch.setattr(module, "main", lambda arguments: len(arguments))
    assert main([name, "--debug", "x"]) == 2


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_help_lists_every_command(arguments, capsys):
    status = 0
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code
    assert status == 0
    listed = capsys.readouterr().out.split("make a run:")[1]
    assert re.findall(r"^  (\w+) +\w", listed, re.MULTILINE) == [*COMMANDS]
    assert re.findall(r"^(.+):$", listed, re.MULTILINE) == [*GROUPS][1:]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_an_option_is_a_sentence_of_at_most_25_words_and_its_values(name):
    module = importlib.import_module(f"qkv.commands.{name}")
    for action in module.make_parser()._actions if hasattr(module, "make_parser") else ():
        if action.help and action.help != argparse.SUPPRESS:
            sentence, *values = re.split(r"(?<!al)\. ", re.sub(r" \(default[^()]*\)", "", action.help))
            assert len(sentence.split()) <= 25, action.option_strings
            assert sentence[0].islower() and not sentence.endswith("."), action.option_strings
            assert len(values) <= 2, action.option_strings
            assert all(re.match(r"[\w-]+: ", value) for value in values), action.option_strings


HELP = """
import runpy, sys
programs = sys.argv[1:]
for program in programs:
    module, *arguments = program.split()
    sys.argv = [module, *arguments, "--help"]
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as end:
        assert not end.code, program
    heavy = {"tensorflow", "keras", "numpy", "pandas", "sacrebleu", "matplotlib"} & sys.modules.keys()
    assert not heavy, f"{program} imports {heavy}"
"""


def test_help_is_given_before_anything_heavy_is_imported():
    programs = ["train", "evaluate", "data.eflomal_links", *(f"qkv {command}" for command in COMMANDS)]
    answer = subprocess.run([sys.executable, "-c", HELP, *programs], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("usage:") == len(programs)


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"qkv {__version__}\n"


@pytest.mark.parametrize(
    ("given", "answer"),
    [("trian", "did you mean train?; see qkv --help"), ("xyzzy", "see qkv --help"), ("--traim", "see qkv --help")],
)
def test_a_misspelt_command_is_answered_with_the_nearest(given, answer, capsys):
    assert main([given, "--config", "x"]) == 2
    assert capsys.readouterr().err == f"error: {given}: no such command; {answer}\n"


def test_messages_name_a_command_as_it_can_be_typed(monkeypatch):
    assert [invocation("train"), invocation("view")] == ["qkv train", "qkv view"]
    monkeypatch.setattr("sys.argv", ["/a/clone/train.py", "--config", "x.yaml"])
    assert [invocation("train"), invocation("evaluate")] == ["python train.py", "python evaluate.py"]
    assert invocation("view") == "qkv view"


def test_commands_in_messages_are_quoted_for_the_shell(monkeypatch):
    assert invocation("train", "--resume", Path("runs/my run")) == "qkv train --resume 'runs/my run'"
    monkeypatch.setattr("sys.argv", ["train.py"])
    assert invocation("train", "--config", "my $1.yaml") == "python train.py --config 'my $1.yaml'"


def test_no_message_puts_an_argument_behind_a_command_unquoted():
    for path in (ROOT / "pipeline" / "qkv").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"invocation\([^()]*\)\} (--\w+ )?\{|--logdir [\w ]*\{", text), path
