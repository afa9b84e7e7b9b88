"""The package as others install it: a wheel beside nothing else, and a clone that is not installed."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

from qkv.__main__ import COMMANDS
from qkv.version import __version__
from tests.support import KEPT_RUNS, ROOT
from tests.support.tiny_runs import small_settings, write_small_corpus

PACKAGE = ROOT / "pipeline" / "qkv"

pytestmark = pytest.mark.minutes  # builds a wheel, and starts eight processes


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / "pipeline" / "qkv", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = folder / "wheels"
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, source], check=True)
    (wheel,) = wheels.glob("qkv-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True)
    return folder / "site"


def run(site, *command):
    """What a command prints in a folder that holds nothing of ours."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(
        [sys.executable, *command], cwd=site.parent, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_layers_and_the_archive_are_imported_from_the_wheel(site):
    code = """
import qkv
from qkv.attention import AdditiveAttention, CrossAttention, MultiHeadAttention, SelfAttention, padding_mask
from qkv.config import load_run_config
from qkv.inspection import AttentionArchive, Sentence, write_archive
from qkv.inspection.archive_export import bertviz_arguments, write_inseq, write_soft_alignments
from qkv.run import train
print(qkv.__file__)
"""
    assert run(site, "-c", code).split() == [str(site / "qkv" / "__init__.py")]


@pytest.mark.parametrize("command", [*COMMANDS])
def test_every_command_runs(site, command):
    assert run(site, site / "bin" / "qkv", command, "--help").startswith(f"usage: qkv {command} ")


def test_qkv_translates_from_any_folder(site):
    """With a run of the repository, which the installed package reads as well."""
    run_folder = KEPT_RUNS / "transformer"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, site / "bin" / "qkv", "translate", run_folder]
    answer = subprocess.run(
        command, cwd=site.parent, env=environment, input="the cat\na dog\n", capture_output=True, text=True
    )
    assert (answer.returncode, answer.stdout.count("\n")) == (0, 2), answer.stderr


def test_a_clone_that_is_not_installed_trains_and_evaluates_in_several_processes(tmp_path):
    """Its own files are used, also by the processes that share the work, whatever is installed."""
    shutil.copytree(PACKAGE, tmp_path / "pipeline" / "qkv", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("train.py", "evaluate.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "pipeline" / "qkv" / "version.py").write_text(
        (PACKAGE / "version.py").read_text().replace(f'"{__version__}"', '"9.8.7"')
    )
    settings = small_settings(write_small_corpus(tmp_path / "text"), tmp_path / "runs")
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    commands = ["train.py --config my.yaml", "evaluate.py runs/my --workers 2"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for command in commands:
        words = [sys.executable, *command.split()]
        subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    manifest = json.loads((tmp_path / "runs" / "my" / "manifest.json").read_text())
    assert manifest["versions"]["qkv"] == "9.8.7"
    assert (tmp_path / "runs" / "my" / "evaluations" / "test" / "metrics.json").is_file()


def test_qkv_says_its_version(site):
    assert run(site, site / "bin" / "qkv", "--version") == f"qkv {__version__}\n"


def test_the_page_comes_with_its_scripts(site):
    files = {path.relative_to(PACKAGE) for suffix in ("html", "css", "js") for path in PACKAGE.rglob(f"*.{suffix}")}
    assert len(files) > 20 and all((site / "qkv" / file).is_file() for file in files)


def test_every_folder_of_the_package_is_installed(site):
    own = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py")}
    assert {path.relative_to(site / "qkv") for path in (site / "qkv").rglob("__init__.py")} == own
