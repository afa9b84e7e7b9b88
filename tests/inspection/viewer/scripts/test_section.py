"""What is shown of a run: the matrix of the archive in every view, in every script and colour."""

from dataclasses import replace

import pytest

from qkv.alignment.word_matrix import row_words, word_matrix
from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.viewer import (
    CHINESE,
    GOLD,
    HEBREW,
    RECORDS,
    SCORES,
    make_record,
    open_viewer,
    press,
    read_cells,
    wait_until,
)

HEADING = ".run .bar h2"


@pytest.fixture(scope="module")
def html():
    return viewer_page(
        "a & <title>", [ViewerRun("one", GOLD, SCORES).add_all(RECORDS)], opens_at={"layer": 1, "head": 2}
    )


def shown_cells(matrix):
    return [
        [t, s, pytest.approx(float(weight), abs=2e-5)] for t, row in enumerate(matrix) for s, weight in enumerate(row)
    ]


def test_matrices_are_those_of_the_archive_in_every_view(browser, html, tmp_path):
    record = RECORDS[0]
    weights = record.attention["cross"][1, 2]
    words = word_matrix(weights, record.source_words, row_words(record.target_words, "output"), 4, 4)
    with open_viewer(browser, tmp_path, html) as page:
        assert page.inner_text(HEADING) == "cross-attention, layer 1, head 2, output side"
        found = read_cells(page)
        assert [cell for cell in found if cell[0] < 4 and cell[1] < 4] == shown_cells(words)
        assert len(found) == 25  # EOS is a word of its own
        press(page, "w")
        assert read_cells(page) == shown_cells(weights)
        press(page, "s")
        assert read_cells(page) == shown_cells(weights)
        assert page.locator(".matrix .rows text").all_text_contents() == record.target_input_tokens
        press(page, "swe")
        assert read_cells(page) == shown_cells(words / words.sum(-1, keepdims=True))
        assert "without EOS, rows renormalised" in page.inner_text(HEADING)
        page.select_option("[name=site]", "encoder")
        page.uncheck("[name=hideEos]")
        page.uncheck("[name=words]")
        assert page.inner_text(HEADING) == "encoder self-attention, layer 0, head 2"
        assert read_cells(page) == shown_cells(record.attention["encoder"][0, 2])
        page.select_option("[name=site]", "cross")
        page.locator(".heads button").first.click()
        assert read_cells(page) == shown_cells(record.attention["cross"][0].mean(axis=0))


def test_two_runs_stand_side_by_side_each_with_what_it_is(browser, tmp_path):
    other = [make_record(i, r.source, "un autre", heads=2, seed=9) for i, r in enumerate(RECORDS) if i != 1]
    runs = [
        ViewerRun("one", facts=["BLEU 1.0"]).add_all(RECORDS),
        ViewerRun("other", facts=["BLEU 2.0"]).add_all(other),
    ]
    with open_viewer(browser, tmp_path, viewer_page("two", runs)) as page:
        names = page.locator(".run").evaluate_all("runs => runs.map((run) => run.getAttribute('aria-label'))")
        assert names == ["one", "other"]
        assert page.locator(".run .facts").all_text_contents() == ["BLEU 1.0", "BLEU 2.0"]
        assert len(read_cells(page, run=1)) == 3 * 5
        press(page, "j")
        assert "does not have this sentence" in page.locator(".run").nth(1).inner_text()


def test_words_without_spaces_are_spelt_by_tokens_and_the_page_says_so(browser, tmp_path):
    gold = GoldAlignment(frozenset({(1, 2)}), frozenset({(1, 2)}))  # the first character of 苹果
    words = ".run table td:first-child"
    with open_viewer(browser, tmp_path, viewer_page("one", [ViewerRun("one", [gold]).add_all([CHINESE])])) as page:
        assert page.locator(words).all_text_contents() == ["猫", "吃", "苹果", "</s>"]
        assert page.inner_text(".units") == "Words of the target are its characters."
        assert page.locator(".body rect.gold").evaluate("({dataset}) => [dataset.row, dataset.column]") == ["2", "1"]
        press(page, "w")
        assert page.locator(words).all_text_contents() == CHINESE.target_output_tokens
        assert page.locator(".units").count() == 0


def test_a_sentence_whose_probabilities_are_unknown_has_no_column_of_them(browser, tmp_path):
    unknown = replace(make_record(1, "a dog", "un chien"), token_log_probabilities=[])
    records = [make_record(0, "the cat", "le chat"), unknown]
    with open_viewer(browser, tmp_path, viewer_page("one", [ViewerRun("one").add_all(records)])) as page:
        press(page, "w")
        assert page.locator(".run th").all_text_contents()[-1] == "probability"
        press(page, "j")
        assert page.locator(".run th").all_text_contents() == ["word", "most attended word", "weight"]
        assert page.locator(".run table tr").count() == len(unknown.target_output_tokens) + 1


LEFT = """([element, letter]) => {
  const range = document.createRange();
  range.setStart(element.firstChild, letter);
  range.setEnd(element.firstChild, letter + 1);
  return range.getBoundingClientRect().left;
}"""


def test_text_from_right_to_left_stands_beside_its_label_with_its_full_stop_on_the_left(browser, tmp_path):
    with open_viewer(browser, tmp_path, viewer_page("one", [ViewerRun("one").add_all([HEBREW])])) as page:
        dirs = page.locator("#texts [dir], #list .text, .run td:not(.number)").evaluate_all(
            "all => all.map((one) => one.dir)"
        )
        text = page.locator("#texts [dir]").last
        assert set(dirs) == {"auto"} and text.evaluate("one => getComputedStyle(one).direction") == "rtl"
        left, right = text.bounding_box()["x"], page.locator("#texts .name").last.bounding_box()
        assert 0 <= left - right["x"] - right["width"] < 40
        handle = text.element_handle()
        assert page.evaluate(LEFT, [handle, len(HEBREW.hypothesis) - 1]) < page.evaluate(LEFT, [handle, 0])
        place = "(word, letter) => word.getStartPositionOfChar(word.textContent.indexOf(letter)).x"
        word = page.locator(".rows text").filter(has_text="אוכל")
        assert word.evaluate(place, ".") < word.evaluate(place, "א")


def test_the_matrix_grows_with_the_window_and_the_table_stands_beside_it_where_there_is_room(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html, "#3", viewport={"width": 1500, "height": 1000}) as page:
        press(page, "w")
        wide = page.locator(".body").bounding_box()
        assert page.locator(".aside").bounding_box()["x"] > wide["x"] + wide["width"] - 20
        page.set_viewport_size({"width": 500, "height": 1000})
        wait_until(page, "document.querySelector('.body').clientWidth < 600")
        narrow = page.locator(".body").bounding_box()
        assert narrow["width"] < 0.8 * wide["width"]
        assert page.locator(".aside").bounding_box()["y"] > narrow["y"] + narrow["height"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_scale_the_axes_and_the_heads_have_names(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        assert page.locator(".scale text").all_text_contents() == ["0", "weight", "1"]
        opacities = page.locator(".scale .cell").evaluate_all(
            "all => all.map((one) => Number(one.getAttribute('fill-opacity')))"
        )
        assert opacities == sorted(opacities) and opacities[0] < 0.05 and opacities[-1] > 0.95
        assert page.locator(".corner text").all_text_contents() == ["source →", "predicted ↓"]
        press(page, "s")
        assert page.locator(".corner text").last.text_content() == "just read ↓"
        assert page.locator(".heads .column").all_text_contents() == ["mean", "head 0", "head 1", "head 2"]
        assert page.locator(".heads .layer").all_text_contents() == ["layer 0", "layer 1"]
        press(page, "vvv")
        large = page.locator(".heads.large button")
        assert large.count() == 8 and page.locator(".picture").count() == 0
        assert large.nth(6).inner_text() == "L1 H1"
        assert large.first.bounding_box()["width"] > 100
        large.nth(6).click()
        assert "layer 1, head 1" in page.inner_text(HEADING) and read_cells(page)


@pytest.mark.parametrize("forced", ["none", "active"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_contrast_with_the_page_in_every_mode(browser, html, tmp_path, scheme, forced):
    """The full weight differs from the page's ground, in the matrix and in the heads' pictures; what is chosen is
    marked."""
    luminance = """(css) => {
      const context = document.createElement("canvas").getContext("2d");
      context.fillStyle = css;
      context.fillRect(0, 0, 1, 1);
      const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
      return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
    }"""
    with open_viewer(browser, tmp_path, html, color_scheme=scheme, forced_colors=forced) as page:
        style = "one => getComputedStyle(one)."
        paper = page.evaluate(luminance, page.locator("body").evaluate(style + "backgroundColor"))
        ink = page.evaluate(luminance, page.locator(".cell[data-row]").first.evaluate(style + "fill"))
        thumbnail = page.evaluate("inkColour().slice(0, 3).join()")
        assert abs(ink - paper) > 0.5
        assert abs(page.evaluate(luminance, f"rgb({thumbnail})") - ink) < 0.02
        pressed, other = page.locator(".heads [aria-pressed=true]"), page.locator(".heads [aria-pressed=false]").first
        assert pressed.evaluate(style + "borderColor") != other.evaluate(style + "borderColor")
        chosen, row = page.locator("#list [aria-selected=true]"), page.locator("#list [aria-selected=false]").first
        assert chosen.evaluate(style + "backgroundColor") != row.evaluate(style + "backgroundColor")


TYPES = {"cross/1/2": {"type": "aligner", "share": 0.875}, "cross/0/0": {"type": "previous", "share": 0.6}}


def test_heads_that_have_a_type_are_called_by_it(browser, tmp_path):
    run = ViewerRun("one", types=TYPES).add_all(RECORDS)
    title = (
        "layer 1, head 2, aligner: 88 % of its weight is on the source tokens that are linked to the word that the row "
        "predicts, over the whole set"
    )
    with open_viewer(browser, tmp_path, viewer_page("types", [run], opens_at={"layer": 1, "head": 2})) as page:
        assert page.inner_text(HEADING) == "cross-attention, layer 1, head 2 (aligner), output side"
        assert page.locator(".heads .type").all_inner_texts() == ["before", "aligner"]
        assert page.get_by_role("button", name=title).count() == 1
        press(page, "h")
        assert page.inner_text(HEADING) == "cross-attention, layer 1, head 1, output side"
        page.select_option("[name=site]", "encoder")
        assert page.locator(".heads .type").count() == 0


@pytest.mark.parametrize("width", [390, 1200])
def test_types_fit_below_the_pictures_in_every_view(browser, tmp_path, width):
    run = ViewerRun("one", types=TYPES).add_all(RECORDS)
    html = viewer_page("types", [run], opens_at={"layer": 0, "head": 0})
    with open_viewer(browser, tmp_path, html, viewport={"width": width, "height": 800}, color_scheme="dark") as page:
        for kind in (":not(.large)", ".large"):
            page.wait_for_selector(f".heads{kind} .type")
            over = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1 || !one.clientHeight).length"
            assert page.locator(".heads .type").evaluate_all(over) == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            press(page, "vvv")
