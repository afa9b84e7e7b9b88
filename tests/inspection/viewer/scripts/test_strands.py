"""Lines between words, of one head or of all heads of a layer, and the table."""

import pytest

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page
from tests.support.viewer import RECORDS, make_record, open_viewer, press, read_state


@pytest.fixture(scope="module")
def html():
    return viewer_page("title", [ViewerRun("one").add_all(RECORDS)], opens_at={"layer": 1, "head": 2})


def test_lines_have_the_weights_that_are_not_nearly_nothing(browser, html, tmp_path):
    weights = RECORDS[0].attention["cross"][1, 2]
    with open_viewer(browser, tmp_path, html, "#view=lines&words=0") as page:
        lines = page.locator(".lines .link").evaluate_all(
            """all => all.map((line) =>
                [Number(line.dataset.row), Number(line.dataset.column), line.getAttribute("stroke-width")])"""
        )
        expected = [(t, s) for t, row in enumerate(weights) for s, weight in enumerate(row) if weight >= 0.02]
        assert [(t, s) for t, s, _ in lines] == expected
        for t, s, width in lines:
            assert float(width) == pytest.approx(0.5 + 4 * weights[t, s], abs=0.006)
        assert page.locator(".run table tr").count() == len(weights) + 1
        assert page.locator(".cell[data-row]").count() == 0


def test_a_click_on_a_word_pins_its_lines(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html, "#view=lines") as page:
        word = page.locator(".lines .word[data-axis='row'][data-place='2']")
        word.hover()
        dim = page.locator(".lines line.dim")
        others = page.locator(".lines line:not([data-row='2'])").count()
        assert dim.count() == others > 0 and page.inner_text(".value").startswith("noir ← ")
        page.hover("h1")
        assert dim.count() == 0
        word.click()
        page.hover("h1")
        assert read_state(page, "pin") == ["r2"] and dim.count() == others
        press(page, ["Enter"])  # on the word, which has kept the focus
        page.locator("#list").focus()
        assert read_state(page, "pin") == [None] and dim.count() == 0


def test_all_heads_of_a_layer_are_lines_of_their_own_colours(browser, tmp_path):
    record = make_record(0, "the cat", "le chat", heads=10)
    html = viewer_page("title", [ViewerRun("one").add_all([record])], opens_at={"layer": 1, "head": 2})
    with open_viewer(browser, tmp_path, html, "#view=heads&words=0") as page:
        drawn = page.locator(".lines .link").evaluate_all("all => all.map((line) => Number(line.dataset.strand))")
        heads = record.attention["cross"][1]
        assert [drawn.count(head) for head in range(10)] == [int((weights >= 0.02).sum()) for weights in heads]
        looks = "({ stroke, strokeDasharray }) => stroke + strokeDasharray"
        styles = page.locator(".colours line").evaluate_all(
            f"all => all.map((line) => getComputedStyle(line)).map({looks})"
        )
        assert len(set(styles)) == 10
        assert page.locator(".colours button").all_text_contents() == [f"head {head}" for head in range(10)]
        page.hover(".colours button >> nth=3")
        faint = page.locator(".lines .faint").count()
        assert faint == len(drawn) - drawn.count(3)
        page.click(".colours button >> nth=3")
        assert read_state(page, "view", "head") == ["lines", 3]
        assert page.locator(".lines .link").count() == drawn.count(3)
