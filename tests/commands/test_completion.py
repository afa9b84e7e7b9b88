"""The script that makes a shell complete commands, options, choices and runs."""

import shutil
import subprocess
import sys

import pytest

from qkv.commands import COMMANDS, completion


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with three runs and another folder, in which bash completes."""
    folder = tmp_path_factory.mktemp("completed")
    for path in ("runs/demo/config.yaml", "runs/my run/config.yaml", "runs/a:b/config.yaml", "other/my.yaml"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).touch()
    return folder


def write_script(shell, capsysbinary):
    pytest.importorskip("shtab")
    assert completion.main([shell]) == 0
    return capsysbinary.readouterr().out.decode()


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["tr"], ["train", "translate"]),
        ([""], [*COMMANDS]),
        (["translate", "runs/d"], ["runs/demo"]),
        (["translate", ""], ["other", "runs", "runs/a:b", "runs/demo", "runs/my run"]),
        (["translate", "runs/demo", "--checkp"], ["--checkpoint"]),
        (["translate", "runs/demo", "--checkpoint", ""], ["best", "last"]),
        (["train", "--model.attention.cross.sc"], ["--model.attention.cross.score"]),
        (["train", "--config", "other/"], ["other/my.yaml"]),
        (["train", "--resume", "runs/m"], ["runs/my run"]),
        (["doctor", "other/m"], ["other/my.yaml"]),
        (["completion", "z"], ["zsh"]),
        (["translate", "runs/a"], ["runs/a:b"]),
        (["translate", "runs/a", ":"], ["b"]),
        (["translate", "runs/a", ":", "b"], ["b"]),
        (["translate", "runs/a", ":", "b", "--checkp"], ["--checkpoint"]),
        (["translate", "runs/a", ":", "b", "--checkpoint", ""], ["best", "last"]),
        (["align", "runs/a", ":", "b", "runs/d"], ["runs/demo"]),
    ],
)
def test_bash_completes(typed, expected, folder, capsysbinary):
    asked = """
    COMP_LINE=$1; shift; COMP_WORDS=(qkv "$@"); COMP_CWORD=$#; _qkv; printf '%s\n' "${COMPREPLY[@]}"
    """
    script = f"{write_script('bash', capsysbinary)}\n{asked}"
    line = " ".join(["qkv", *typed]).replace(" :", ":").replace(": b", ":b")  # bash divides words at colons
    said = subprocess.run(
        ["bash", "-c", script, "bash", line, *typed], cwd=folder, capture_output=True, text=True, check=True
    )
    assert sorted(said.stdout.splitlines()) == sorted(expected)
    assert said.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_the_settings(shell, capsysbinary):
    script = write_script(shell, capsysbinary)
    assert all(name in script for name in COMMANDS)
    assert "model.attention.cross.score" in script


def test_without_the_library_the_message_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert completion.main(["bash"]) == 2
    assert "pip install shtab" in capsys.readouterr().err
