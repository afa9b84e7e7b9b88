"""The words of the pages: one table in three languages, in which no key is missing, unused or unfinished."""

import re

import pytest

from qkv.config.choices.inspection import HEAD_TYPES, LABEL_SIDES, RECORD_MODES, SITES
from qkv.config.choices.text import WORD_UNITS
from qkv.inspection.viewer.data import ViewerRun, measure_places
from qkv.inspection.viewer.page import viewer_page
from tests.support import ROOT
from tests.support.viewer import RECORDS, STATES, embedded, open_viewer, read_words, show_state

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


def test_every_choice_and_measure_that_a_page_names_has_its_words(table):
    keys = {f"viewer.site.{site}" for site in SITES} | {f"viewer.fact.search.{mode}" for mode in RECORD_MODES}
    keys |= {f"viewer.type.{name}{part}" for name in HEAD_TYPES for part in ("", ".short", ".meaning")}
    keys |= {f"viewer.units.{unit}.{side}" for unit in {*WORD_UNITS} - {"spaces"} for side in ("source", "target")}
    keys |= {f"viewer.{part}.{side}" for part in ("side", "heading") for side in LABEL_SIDES}
    places = measure_places()
    keys |= {f"viewer.note.{note['measure']}" for note in places["notes"]}
    keys |= {f"viewer.sort.{order['measure']}.{order['first']}" for order in places["orders"]}
    assert keys - table.keys() == set()
    prefixes = ("viewer.fact.search.", "viewer.units.", "viewer.side.")
    assert {key for key in table if key.startswith(prefixes)} - keys == set()
    assert {name: table[f"viewer.site.{name}"]["en"] for name in SITES} == {name: s.title for name, s in SITES.items()}


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


TOLD = """() => {
  const told = [document.title], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement.closest("script, style")) told.push(walker.currentNode.textContent);
  }
  for (const name of ["title", "aria-label", "aria-valuetext", "placeholder", "alt"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) told.push(element.getAttribute(name));
  }
  return told;
}"""
WORD = r"[^\W\d_]+"
ALWAYS = {"BLEU", "chrF", "EOS", "BOS", "SVG", "PNG", "Transformer", "M", "Esc", "q", *"jkhlvwegs"}
"""Names, keys of the keyboard, and the letters of a formula, the same in every language."""
SAME = {
    "fr": {"angle", "attention", "possible", "question", "questions", "score", "scores", "source", "token", "tokens"},
    "de": {"training"},
}
"""Words that are English and of the language, too."""


def test_a_row_is_translated(table):
    for key, words in table.items():
        for language in ("fr", "de"):
            told = {word.lower() for word in re.findall(WORD, re.sub(SLOT, "", words["en"]))}
            told -= {word.lower() for word in ALWAYS | SAME[language]}
            assert words[language] != words["en"] or not told, (key, language)


def told_in(browser, folder, make_page, language):
    """The words that a page says in all its states, and the text of its sentences and names, which no page
    translates."""
    html = make_page()
    runs = embedded(html)[0]["runs"]
    texts = [text for run in runs for sentence in run["sentences"] for text in sentence_texts(sentence)]
    names = [run["name"] for run in runs if isinstance(run["name"], str)]
    with open_viewer(browser, folder, html, f"?lang={language}") as page:
        told = set()
        for state in STATES[make_page]:
            show_state(page, state)
            told.update(word for text in page.evaluate(TOLD) for word in re.findall(WORD, text))
    return told, "\n".join([*texts, *names, "demo, test, en, fr"])


def sentence_texts(sentence):
    texts = [sentence[key] for key in ("sourceText", "reference", "hypothesis", "plain", "underAttended")]
    return [text for text in [*texts, *sentence["source"], *sentence["target"]] if text]


@pytest.mark.minutes
@pytest.mark.parametrize("make_page", STATES)
def test_no_state_of_a_page_says_anything_in_english_to_a_reader_of_another_language(
    browser, tmp_path, table, make_page
):
    english, sentences = told_in(browser, tmp_path, make_page, "en")
    assert len(english) > 50
    for language in ("fr", "de"):
        told, _ = told_in(browser, tmp_path, make_page, language)
        own = {word for words in table.values() for word in re.findall(WORD, words[language])}
        assert {word for word in (told & english) - own - ALWAYS if word not in sentences} == set(), language
