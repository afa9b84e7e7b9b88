"""The matrix: pointing, pinning, the keyboard, labels that stay in sight, gold links."""

from dataclasses import replace

import numpy as np
import pytest

from qkv.alignment.word_matrix import row_words, word_matrix
from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page
from tests.support.viewer import GOLD, RECORDS, make_record, open_viewer, press, read_cells, read_state, wait_until

RECORD = RECORDS[0]
CELL = ".cell[data-row='{}'][data-column='{}']"
FOCUS = "document.activeElement.dataset.focus"


@pytest.fixture(scope="module")
def html():
    return viewer_page("title", [ViewerRun("one", GOLD).add_all(RECORDS)], opens_at={"layer": 1, "head": 2})


@pytest.fixture(scope="module")
def words():
    rows = row_words(RECORD.target_words, "output")
    return word_matrix(RECORD.attention["cross"][1, 2], RECORD.source_words, rows, 4, 4)


def test_pointing_at_a_cell_tells_its_words_and_weight_and_marks_row_and_column(browser, html, words, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        page.hover(CELL.format(2, 1))
        assert page.inner_text(".value") == f"noir ← black: {words[2, 1]:.2f}"
        assert page.locator(".matrix .marked").all_text_contents() == ["black", "noir"]
        assert page.locator(".band.shown").count() == 2
        page.hover(".matrix .rows [data-row='2']")
        assert page.inner_text(".value").startswith("noir ← ")
        page.hover("h1")
        assert page.inner_text(".value") == "" and page.locator(".marked, .band.shown").count() == 0


def test_a_row_of_the_table_and_its_cell_are_marked_together(browser, html, words, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        marked, pointed = page.locator("table .marked td:first-child"), page.locator(".cell.pointed")
        page.hover(CELL.format(2, 1))
        assert marked.all_text_contents() == ["noir"] and pointed.count() == 1
        page.hover("h1")
        assert marked.count() == pointed.count() == 0
        best = int(np.argmax(words[3]))
        page.hover("table tr >> nth=4")
        assert pointed.evaluate("({dataset}) => [dataset.row, dataset.column]") == ["3", str(best)]
        assert page.inner_text(".value") == f"dort ← {RECORD.source.split()[best]}: {words[3, best]:.2f}"
        assert page.locator(".matrix .rows .marked").all_text_contents() == ["dort"]
        page.click("table tr >> nth=4")
        page.hover("h1")
        assert read_state(page, "pin") == ["r3"] and marked.all_text_contents() == ["dort"]
        press(page, "v")
        page.hover(".lines .word[data-axis='row'][data-place='1']")
        assert marked.all_text_contents() == ["chat"]
        page.hover("table tr >> nth=1")
        assert page.locator(".lines .word.marked").all_text_contents() == ["le"] == marked.all_text_contents()


def test_a_click_pins_the_links_of_a_word_in_every_head_until_it_is_unpinned(browser, html, words, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        page.click(CELL.format(2, 1))
        assert read_state(page, "pin") == ["r2"]
        assert page.locator(".cell.dim").count() == 20
        best = max(range(4), key=lambda s: words[2, s])
        page.hover("h1")
        assert page.inner_text(".value").startswith(f"noir ← {RECORD.source.split()[best]} {words[2, best]:.2f}")
        press(page, "h")
        assert read_state(page, "pin", "head") == ["r2", 1] and page.locator(".cell.dim").count() == 20
        page.click(".columns [data-column='3']")
        assert read_state(page, "pin") == ["c3"]
        press(page, ["Escape"])
        assert read_state(page, "pin") == [None] and page.locator(".cell.dim").count() == 0
        page.click(".rows [data-row='0']")
        press(page, "w")  # row 0 is another token's now
        assert read_state(page, "pin") == [None]


def test_cells_are_reached_and_pinned_by_keys_and_keep_the_focus(browser, html, words, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        assert page.locator(".matrix [tabindex='0']").count() == 1
        page.locator(".matrix [tabindex='0']").focus()
        press(page, ["ArrowDown", "ArrowDown", "ArrowRight"])
        assert page.evaluate(FOCUS) == "cell 0 2 1"
        assert page.inner_text(".value") == f"noir ← black: {words[2, 1]:.2f}"
        assert read_state(page, "id") == [0]  # the arrows have not turned to another sentence
        press(page, ["End", "ArrowRight", "Home", "ArrowLeft"])
        assert page.evaluate(FOCUS) == "cell 0 2 0"
        press(page, ["Enter"])
        assert read_state(page, "pin") == ["r2"] and page.evaluate(FOCUS) == "cell 0 2 0"
        press(page, [" "])
        assert read_state(page, "pin") == ["c0"]
        press(page, "l")
        assert page.evaluate(FOCUS) == "cell 0 2 0"
        label = page.locator(CELL.format(2, 0)).get_attribute("aria-label")
        assert label.startswith("noir ← the: 0.")


def test_pictures_of_heads_are_reached_by_keys_and_keep_the_focus(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        page.locator(".heads [tabindex='0']").focus()
        assert page.evaluate(FOCUS) == "heads 0 1 2"
        press(page, ["ArrowUp", "ArrowLeft"])
        assert page.evaluate(FOCUS) == "heads 0 0 1" and read_state(page, "layer", "head") == [1, 2]
        press(page, ["Enter"])
        assert page.evaluate(FOCUS) == "heads 0 0 1" and read_state(page, "layer", "head") == [0, 1]


def test_the_chosen_head_of_many_is_in_sight(browser, tmp_path):
    record = make_record(0, "the cat", "le chat")
    weights = np.repeat(np.repeat(record.attention["cross"], 12, axis=0), 6, axis=1)  # 24 layers of 18 heads
    html = viewer_page(
        "title", [ViewerRun("one").add_all([replace(record, attention={"cross": weights})])], opens_at={"head": 0}
    )
    with open_viewer(browser, tmp_path, html, "#layer=23&head=17", viewport={"width": 500, "height": 800}) as page:
        outer, inner = (page.locator(one).bounding_box() for one in (".heads", ".heads [aria-pressed=true]"))
        for axis, size in (("x", "width"), ("y", "height")):
            assert outer[axis] <= inner[axis] and inner[axis] + inner[size] <= outer[axis] + outer[size]
        press(page, "h")
        assert page.locator(".heads").evaluate("heads => heads.scrollTop > 100 && heads.scrollLeft > 100")


def test_labels_stay_in_sight_when_a_long_matrix_is_scrolled(browser, tmp_path):
    long = make_record(0, " ".join(["source"] * 60), " ".join(["cible"] * 60))
    html = viewer_page("long", [ViewerRun("one").add_all([long])])
    with open_viewer(browser, tmp_path, html, viewport={"width": 390, "height": 800}) as page:
        assert len(read_cells(page)) == 61 * 61
        page.locator(".picture").evaluate("picture => { picture.scrollTo(300, 200); }")
        wait_until(page, "document.querySelector('.picture').scrollLeft === 300")
        picture = page.locator(".picture").bounding_box()
        for part, axis in ((".rows", "x"), (".columns", "y"), (".corner", "x"), (".corner", "y")):
            assert page.locator(f".matrix {part}").bounding_box()[axis] == pytest.approx(picture[axis], abs=1)
        assert page.locator(".matrix .body").bounding_box()["x"] < picture["x"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        press(page, "l")
        assert page.locator(".picture").evaluate("picture => picture.scrollLeft") == 300


def test_gold_links_are_drawn_and_hidden(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        gold, possible = page.locator(".body .gold"), page.locator(".body .possible")
        assert (gold.count(), possible.count()) == (3, 1)
        assert " ".join(page.inner_text(".reading .key").split()) == "gold links sure possible"
        assert page.locator(".key .possible").count() == 1
        press(page, "g")
        assert gold.count() == 0 and page.locator(".reading .key").count() == 0
        press(page, "gv")
        assert (page.locator(".lines line.gold").count(), page.locator(".lines line.possible").count()) == (3, 1)
