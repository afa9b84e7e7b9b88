"""Python without some of its modules and their packages, as on a machine that lacks them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.tiny_runs import ROOT

# Libraries need Python's own modules on this system, so these are missing for qkv alone. What is known of the
# package of a module is missing, too.
WITHOUT = """
import builtins, sys
from importlib.metadata import Distribution

usual, usually_found = builtins.__import__, Distribution.discover

def without(name, globals=None, locals=None, fromlist=(), level=0):
    library = name.partition(".")[0]
    if level == 0 and library in {names!r}:
        importer = (globals or {{}}).get("__name__", "")
        if library not in sys.stdlib_module_names or importer.partition(".")[0] == "qkv":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return usual(name, globals, locals, fromlist, level)

def found(**given):
    return (one for one in usually_found(**given) if one.name.replace("-", "_") not in {names!r})

builtins.__import__ = without
Distribution.discover = found
"""


def run_without(modules: Sequence[str], folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own, without these modules; `folder` gets a file that sees to it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(WITHOUT.format(names=tuple(modules)), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")
