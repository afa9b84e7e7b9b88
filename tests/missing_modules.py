"""Python without some of its modules, as on a machine that lacks them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.tiny_runs import ROOT

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def run_without(modules: Sequence[str], folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own, without these modules; `folder` gets a file that sees to it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(WITHOUT.format(names=tuple(modules)), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")
