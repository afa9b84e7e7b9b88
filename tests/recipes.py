"""The recipes of ARCHIVE.md, as they are written."""

import re

from tests.tiny_runs import ROOT

PAGE = ROOT / "pipeline" / "inspection" / "ARCHIVE.md"


def recipe(word: str) -> str:
    """Returns the block of Python in which a word stands, the first one that has it."""
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if word in block)
