"""The code of pages, as it is written."""

import re
from pathlib import Path

from tests.support import ROOT

ARCHIVE = ROOT / "docs" / "use" / "archive.md"
PLUGINS = ROOT / "docs" / "extend" / "plugins.md"
EXPORT = ROOT / "docs" / "use" / "export.md"
MACHINES = ROOT / "docs" / "use" / "machines.md"


def recipe(word: str, page: Path = ARCHIVE) -> str:
    """Returns the block of Python in which a word stands, the first one that has it."""
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if word in block)
