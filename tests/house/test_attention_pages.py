"""The pages on queries, keys and values, on what a value does and on spectra print what they say they print."""

import re

import numpy as np
import pytest

from tests.support import ROOT

PAGE, VALUES, SPECTRA = (ROOT / "docs" / "learn" / f"{name}.md" for name in ("attention", "values", "spectra"))
PAGES = [pytest.param(page, id=page.stem) for page in (PAGE, VALUES, SPECTRA)]
TRAINED = "\n## In a trained model\n"
"""From here on a page needs `runs/demo`."""


def blocks(text):
    return re.findall(r"^```(python|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def examples(text):
    """Each block of Python with the block of text that follows it, or with nothing."""
    found = blocks(text)
    for (kind, code), (next_kind, printed) in zip(found, [*found[1:], ("python", "")], strict=True):
        if kind == "python":
            yield code, printed if next_kind == "text" else ""


@pytest.mark.parametrize("page", PAGES)
def test_every_block_prints_what_stands_below_it(page, capsys):
    names: dict = {}
    with np.printoptions():  # what the page sets is set back
        for code, expected in examples(page.read_text(encoding="utf-8").split(TRAINED)[0]):
            exec(compile(code, str(page), "exec"), names)
            assert capsys.readouterr().out == expected, code


@pytest.mark.skipif(not (ROOT / "runs/demo/manifest.json").is_file(), reason="needs the trained demo")
def test_values_of_the_trained_demo_say_what_the_page_says(capsys, monkeypatch):
    """Another processor trains other weights, so a word may differ, and a share by some percent."""
    monkeypatch.chdir(ROOT)
    translations, shares = examples(VALUES.read_text(encoding="utf-8").split(TRAINED)[1])
    names: dict = {}
    exec(compile("import numpy as np\n" + translations[0], str(VALUES), "exec"), names)
    printed, shown = (text.splitlines() for text in (capsys.readouterr().out, translations[1]))
    assert len(printed) == len(shown)
    assert sum(line == other for line, other in zip(printed, shown, strict=True)) >= len(shown) - 4
    exec(compile(shares[0], str(VALUES), "exec"), names)
    before, context, both, after = (int(line.split()[-1][:-1]) for line in capsys.readouterr().out.splitlines())
    expected = [int(line.split()[-1][:-1]) for line in shares[1].splitlines()]
    np.testing.assert_allclose([before, context, both, after], expected, atol=15)
    assert before < min(context, both, after)


@pytest.mark.parametrize("page", PAGES)
def test_every_section_with_code_is_read(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("```") == 2 * (len(blocks(text)) + text.count("```sh\n"))
    assert len(list(examples(text))) >= 4


@pytest.mark.parametrize("name", ["fixed_weights", "linformer", "lsh"])
def test_the_page_names_files_that_exist(name):
    assert f"`mechanisms/{name}.py`" in PAGE.read_text(encoding="utf-8")
    assert (ROOT / "pipeline/qkv/attention/mechanisms" / f"{name}.py").is_file()
