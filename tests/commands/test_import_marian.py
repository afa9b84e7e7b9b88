"""What a person does with an imported run: every command of its page, on the golden model."""

import importlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from qkv.commands import evaluate
from qkv.commands.import_marian import main
from tests.support import ROOT
from tests.support.marian import MARIAN, read_expected

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("loaded_once")]

PAGE = ROOT / "docs" / "use" / "import.md"
COMMANDS = [
    re.split(r"\s+#\s", line)[0]
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the model and a text of two sentences."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "opus-mt-en-fr").symlink_to(MARIAN)
    for suffix in ("en", "fr"):
        lines = (ROOT / "data" / "demo" / f"test.{suffix}").read_text(encoding="utf-8").splitlines()[:2]
        (tmp_path / f"my.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def run(command, monkeypatch):
    """Runs a command of the page in this process."""
    words = shlex.split(command)
    if "<" in words:
        text = Path(words.pop()).read_text(encoding="utf-8")
        words.pop()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    _, name, *arguments = words  # of "python" or "qkv"
    return importlib.import_module(f"qkv.commands.{name.removesuffix('.py')}").main(arguments)


@pytest.mark.minutes
def test_the_commands_of_the_page(folder, monkeypatch, capfd):
    for command in COMMANDS:
        assert run(command, monkeypatch) == 0, command
    said = capfd.readouterr().out
    assert "en to fr, 1 + 2 layers" in said and re.search(r"^\d+-\d+( \d+-\d+)*$", said, re.MULTILINE)
    results = folder / "runs" / "opus" / "evaluations"
    assert {path.name for path in results.iterdir()} == {"my.en", "my.en.forced", "greedy"}
    metrics = json.loads((results / "my.en" / "metrics.json").read_text(encoding="utf-8"))
    assert (metrics["search"], metrics["decoding"]["beam_size"]) == ("beam", 4)
    assert "\u2581" in (results / "my.en" / "viewer.html").read_text(encoding="utf-8")
    assert (folder / "attention.png").stat().st_size > 1000 and (folder / "both.html").is_file()


@pytest.mark.minutes
def test_the_archive_has_the_attention_of_hugging_face(folder):
    """Over the references, encoded by the model of the target."""
    from qkv.inspection import AttentionArchive

    assert main(["opus-mt-en-fr", "opus"]) == 0
    options = ["--source", "my.en", "--reference", "my.fr", "--forced", "--name", "forced"]
    assert evaluate.main(["opus", *options]) == 0
    _, arrays = read_expected()
    archive = AttentionArchive(folder / "opus" / "evaluations" / "forced" / "attention")
    for number in range(2):
        found = archive[number].attention["cross"]
        assert found.shape == arrays[f"cross_{number}"].shape
        assert abs(found.astype("float32") - arrays[f"cross_{number}"]).max() < 1e-3  # archives hold float16
