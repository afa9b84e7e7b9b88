"""The page on queries, keys and values prints what it says it prints."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "pipeline" / "attention" / "README.md"
BLOCKS = re.findall(r"^```(python|text)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def examples():
    """Each block of Python with the block of text that follows it, or with nothing."""
    following = [*BLOCKS[1:], ("python", "")]
    for (kind, code), (next_kind, text) in zip(BLOCKS, following, strict=True):
        if kind == "python":
            yield code, text if next_kind == "text" else ""


def test_every_block_prints_what_stands_below_it(capsys):
    names: dict = {}
    with np.printoptions():  # what the page sets is set back
        for code, expected in examples():
            exec(compile(code, str(PAGE), "exec"), names)
            assert capsys.readouterr().out == expected, code


def test_every_section_with_code_is_read():
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("```") == 2 * len(BLOCKS)
    assert len(list(examples())) > page.count("\n## ") - 1


@pytest.mark.parametrize("name", ["fixed_weights", "linformer", "lsh"])
def test_the_page_names_files_that_exist(name):
    assert f"`mechanisms/{name}.py`" in PAGE.read_text(encoding="utf-8")
    assert (PAGE.parent / "mechanisms" / f"{name}.py").is_file()
