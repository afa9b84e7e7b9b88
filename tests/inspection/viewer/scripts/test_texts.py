"""The texts of a sentence: always text, with differing, dropped and repeated words marked."""

from dataclasses import replace

import numpy as np

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page
from tests.support.viewer import CHINESE, HOSTILE, RECORDS, make_record, open_viewer, press, read_cells


def marked(page, kind, text=None):
    """The words of a kind in one of the texts, source first, or in all of them."""
    texts = page.locator("#texts > [dir]")
    return (texts if text is None else texts.nth(text)).locator(f".{kind}").all_text_contents()


def viewer(*records):
    return viewer_page("a & <title>", [ViewerRun("one").add_all(records)])


def test_markup_in_sentences_is_shown_as_text(browser, tmp_path):
    with open_viewer(browser, tmp_path, viewer(*RECORDS), "#query=bold") as page:
        page.click("#list .row[data-id='1']")
        assert page.title() == page.inner_text("h1") == "a & <title>"
        assert page.locator("#texts > [dir]").first.text_content() == HOSTILE
        assert page.locator("#list .row[data-id='1'] .text").text_content().endswith(HOSTILE[-20:])
        assert page.locator("main b, nav b").count() == 0
        page.fill("#search", "")
        press(page, ["Escape", "j"])
        assert page.locator("#list .row[data-id='2'] .text").text_content() == "(empty)"
        assert len(read_cells(page)) == 1


def test_words_that_differ_between_reference_and_translation_are_marked(browser, tmp_path):
    record = make_record(0, "the black cat sleeps", "le chat noir dort bien", mode="beam")
    with open_viewer(browser, tmp_path, viewer(replace(record, reference="le gros chat dort bien"))) as page:
        assert marked(page, "differs", 1) == ["gros"] and marked(page, "differs", 2) == ["noir"]
        assert page.inner_text("#texts .key") == "differs from the other text"


def test_words_that_are_said_again_at_once_are_marked(browser, tmp_path):
    record = make_record(0, "a b", "le chat le chat dort dort . le chien", mode="beam")
    with open_viewer(browser, tmp_path, viewer(replace(record, reference=None))) as page:
        assert marked(page, "repeated") == ["le", "chat", "dort"]
        assert marked(page, "differs") == []


def test_source_words_hardly_attended_to_are_marked(browser, tmp_path):
    record = make_record(0, "one two one six", "un deux")
    weights = np.zeros_like(record.attention["cross"])
    weights[..., [0, 1, 4]] = 1 / 3  # all but the second "one" and "six"
    assert record.source_words == [0, 1, 2, 3, None]
    with open_viewer(browser, tmp_path, viewer(replace(record, attention={"cross": weights}))) as page:
        spans = page.locator("#texts .dropped[title]")
        assert spans.all_text_contents() == ["one", "six"]
        source = page.locator("#texts > [dir]").first.inner_html()
        assert source.startswith("one two <span") and "fair share" in spans.first.get_attribute("title")


def test_characters_are_compared_where_they_are_the_words(browser, tmp_path):
    record = replace(CHINESE, mode="beam", reference="猫吃香果")
    with open_viewer(browser, tmp_path, viewer(record)) as page:
        assert marked(page, "differs", 1) == ["香"] and marked(page, "differs", 2) == ["苹"]


def test_equal_texts_have_no_marks_and_no_key(browser, tmp_path):
    with open_viewer(browser, tmp_path, viewer(make_record(0, "the cat", "le chat"))) as page:
        assert page.locator("#texts .key").count() == 0 and marked(page, "differs") == []
