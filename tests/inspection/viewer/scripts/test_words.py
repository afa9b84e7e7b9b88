"""The words of the pages: one table in three languages, in which no key is missing, unused or unfinished."""

import re

import pytest

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page
from tests.support import ROOT
from tests.support.viewer import RECORDS, open_viewer, read_words

LANGUAGES = ("en", "fr", "de")
SOURCES = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "pipeline").rglob("*")
    if path.suffix in (".js", ".html", ".py") and path.name != "words.js"
]
KEY = r"[a-z][\w.]*"
SLOT = r"\{\w+(?::\d)?\}"  # {weight:2} has two decimals


@pytest.fixture(scope="module")
def table():
    return read_words()


def test_every_key_is_in_the_table_and_every_row_is_used(table):
    text = "\n".join(SOURCES)
    used = set(re.findall(rf'\bsay\(\s*"({KEY})"', text)) | set(re.findall(rf'data-say[\w-]*="({KEY})"', text))
    assert used - table.keys() == set()
    # A key that is put together names its beginning: say(`change.${{name}}`). A key may also stand in a list.
    beginnings = tuple(re.findall(rf"[`\"]({KEY}\.)\$?\{{", text))
    named = set(re.findall(rf'"({KEY})"', text))
    unused = {key for key in table if key not in used | named and not key.startswith(beginnings)}
    assert unused == set()


def test_every_row_says_the_same_in_each_language(table):
    for key, words in table.items():
        assert tuple(words) == LANGUAGES, key
        for language, text in words.items():
            assert text and text == text.strip(), (key, language)
            forms = text.split("|")
            assert len(forms) == (2 if "{count}" in words["en"] and "|" in words["en"] else 1), (key, language)
            for form in forms:
                assert set(re.findall(SLOT, form)) == set(re.findall(SLOT, words["en"])), (key, language)


@pytest.mark.parametrize(
    ("settings", "search", "expected"),
    [
        ({}, "", "5 sentences"),
        ({"locale": "de-AT"}, "", "5 Sätze"),
        ({"locale": "ja-JP"}, "?lang=fr", "5 phrases"),
        ({"locale": "de-AT"}, "?lang=xx", "5 Sätze"),
        ({"locale": "ja-JP"}, "", "5 sentences"),
    ],
)
def test_the_page_speaks_the_language_of_the_address_or_of_the_browser(browser, tmp_path, settings, search, expected):
    html = viewer_page("title", [ViewerRun("one").add_all(RECORDS)])
    with open_viewer(browser, tmp_path, html, search, **settings) as page:
        assert page.text_content("#count") == expected
