"""The package has one name, qkv, in a clone, installed, and in everything that people read."""

import re
import subprocess
import sys

import pytest

from tests.support import ROOT

FOLDER = str(ROOT / "pipeline")
READ = sorted(
    path
    for pattern in ("*.md", "*.yaml", "*.ipynb", "*.py")
    for folder in (ROOT / "pipeline", ROOT / "docs", ROOT / "configs", ROOT / "data")
    for path in folder.rglob(pattern)
)
READ += [*ROOT.glob("*.md"), *ROOT.glob("*.py"), ROOT / "Makefile"]


def in_the_root(code):
    """Runs Python where a clone's root is on the path, as in a notebook there, and the package is not installed."""
    start = f"import sys; sys.path = ['', *(p for p in sys.path if p != {FOLDER!r})]\n"
    return subprocess.run([sys.executable, "-I", "-c", start + code], cwd=ROOT, capture_output=True, text=True)


def test_no_page_and_no_message_names_the_folder_as_a_package():
    assert len(READ) > 250
    for path in READ:
        found = re.search(r"python -m pipeline|(from|import) pipeline\b", path.read_text(encoding="utf-8"))
        assert not found, f"{path}: {found[0]}"


def test_the_folder_is_no_second_name_of_the_package():
    ended = in_the_root("import pipeline.qkv.attention.masks")
    assert "ImportError: the package is called qkv, not pipeline.qkv" in ended.stderr
    assert ended.returncode == 1


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_the_scripts_take_the_package_of_their_clone(script):
    code = f"""
import runpy
sys.argv = [{script!r}, "--help"]
try:
    runpy.run_path({script!r}, run_name="__main__")
finally:
    own = [name for name, module in sys.modules.items() if {FOLDER!r} in str(getattr(module, "__file__", ""))]
    print(sorted({{name.partition(".")[0] for name in own}}), sys.modules["qkv"].__file__)
"""
    ended = in_the_root(code)
    assert ended.stdout.startswith(f"usage: python {script} "), ended.stderr
    assert ended.stdout.splitlines()[-1] == f"['qkv'] {FOLDER}/qkv/__init__.py"
