"""The code of pages, as it is written."""

import re
from pathlib import Path

from tests.support import ROOT

ARCHIVE = ROOT / "docs" / "use" / "archive.md"
BLOCKS = ROOT / "docs" / "extend" / "blocks.md"
PLUGINS = ROOT / "docs" / "extend" / "plugins.md"
EXPORT = ROOT / "docs" / "use" / "export.md"
EXPERIMENTS = ROOT / "docs" / "learn" / "experiments.md"
SURGERY = ROOT / "docs" / "learn" / "surgery.md"
PYTHON = ROOT / "docs" / "use" / "python.md"
KERAS = ROOT / "docs" / "use" / "keras.md"
DATAFRAME = ROOT / "docs" / "use" / "dataframe.md"
MACHINES = ROOT / "docs" / "use" / "machines.md"


def blocks_of(page: Path) -> list[str]:
    """Returns the blocks of Python of a page."""
    return re.findall(r"```py(?:thon)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def write_own_blocks(path: Path) -> Path:
    """Writes the file `my_blocks.py` of the page about own blocks."""
    code = [block for block in blocks_of(BLOCKS) if "@register_architecture" in block]
    path.write_text("\n\n".join(code), encoding="utf-8")
    return path


def recipe(word: str, page: Path = ARCHIVE) -> str:
    """Returns the block of Python in which a word stands, the first one that has it."""
    return next(block for block in blocks_of(page) if word in block)
