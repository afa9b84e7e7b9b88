"""The list of sentences: sorted, searched, filtered, moved through."""

import numpy as np
import pytest

from qkv.inspection.measures import measure_site, sentence_row
from qkv.inspection.viewer.data import ViewerRun, shown_measures
from qkv.inspection.viewer.page import viewer_page
from qkv.plugins import register_measure
from tests.support.plugins import registrations_undone
from tests.support.viewer import (
    GOLD,
    RECORDS,
    SCORES,
    embedded,
    make_record,
    open_viewer,
    press,
    read_state,
    wait_until,
)


@pytest.fixture(scope="module")
def html():
    return viewer_page("title", [ViewerRun("one", GOLD, SCORES).add_all(RECORDS)], opens_at={"layer": 1, "head": 2})


def listed(page):
    return page.locator("#list .row").evaluate_all("rows => rows.map((row) => Number(row.dataset.id))")


def opened(page):
    return read_state(page, "id")[0]


def test_the_list_is_sorted_searched_and_filtered_and_its_first_sentence_opens(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        assert (listed(page), opened(page)) == ([0, 1, 2, 3, 4], 0)
        page.select_option("#sort", "score")
        assert (listed(page), opened(page)) == ([2, 4, 1, 3, 0], 2)
        page.select_option("#sort", "length")
        assert (listed(page)[0], listed(page)[-1], opened(page)) == (3, 2, 3)
        page.select_option("#sort", "file")
        page.fill("#search", "CAT")
        assert (listed(page), opened(page)) == ([0], 0)
        assert page.inner_text("#count") == "1 of 5 sentences"
        page.fill("#search", "jus")
        assert (listed(page), opened(page)) == ([4], 4)
        page.fill("#search", "")
        assert (len(listed(page)), opened(page)) == (5, 4)  # what was found stays
        page.fill("#search", "nowhere")
        assert (listed(page), opened(page)) == ([], 4)
        page.fill("#search", "")
        page.select_option("#only", "truncated")
        assert listed(page) == [4]


def test_sentences_are_sorted_by_confidence_if_they_have_one(browser, html, tmp_path):
    run = ViewerRun("one", confidences=[0.9, 0.25, 0.5, 1.0, 0.0]).add_all(RECORDS)
    with open_viewer(browser, tmp_path, viewer_page("title", [run])) as page:
        page.select_option("#sort", "confidence")
        assert listed(page) == [4, 1, 2, 0, 3]
        note = page.locator("#list .row .note").nth(1).inner_text()
        assert " · confidence 0.25 · " in note[:25]  # the rest is cut off
    with open_viewer(browser, tmp_path, html) as page:
        assert page.locator("#sort option[value=confidence]").count() == 0
        assert "confidence" not in page.inner_text("#list")


def test_hits_are_marked_in_the_list_and_in_the_texts(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        page.fill("#search", "LONG")
        assert page.locator("#list mark").all_text_contents() == ["long"]
        assert page.locator("#texts mark").all_text_contents() == ["long"] * 3  # source, reference, translation
        page.fill("#search", "plus")  # in the translation alone, which the list shows instead
        assert "plus longue" in page.inner_text("#list .row .text")
        page.fill("#search", "b>(.*")
        assert page.locator("mark").count() == 0
        page.fill("#search", "<b>")
        assert page.locator("#texts mark").first.text_content() == "<b>"


def test_search_shows_the_top_of_a_long_list(browser, tmp_path):
    records = [make_record(i, f"the cat {i}", "le chat") for i in range(60)]
    with open_viewer(browser, tmp_path, viewer_page("long", [ViewerRun("one").add_all(records)]), "#55") as page:
        assert page.evaluate("document.getElementById('list').scrollTop") > 1000
        assert len(listed(page)) < 40  # only what is in sight is laid out
        page.fill("#search", "cat")
        wait_until(page, "document.getElementById('list').scrollTop === 0")
        assert (listed(page)[0], opened(page)) == (0, 0)


def test_keys_and_clicks_move_through_sentences_and_heads(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        press(page, "j")
        assert opened(page) == 1
        press(page, "kk")
        assert opened(page) == 0
        press(page, ["ArrowDown", "ArrowDown", "ArrowUp"])
        assert opened(page) == 1
        page.click("#list .row[data-id='4']")
        text = page.inner_text("#texts")
        assert opened(page) == 4 and "cut short" in text and "le jus" in text
        press(page, "h")
        assert read_state(page, "layer", "head") == [1, 1]
        press(page, "ll")
        assert read_state(page, "layer", "head") == [1, 2]
        press(page, "/")
        page.keyboard.type("jkv")  # typed, not obeyed
        assert page.input_value("#search") == "jkv" and read_state(page, "view") == ["matrix"]


def test_a_measure_of_a_plugin_has_labels_of_its_own(browser, tmp_path):
    with registrations_undone():

        @register_measure("first_key", note="first", lowest_first="least on the first word")
        def first_key(site):
            return site.weights[..., 0].mean(-1)

        html = viewer_page("title", [ViewerRun("one").add_all(RECORDS[:1])])
        value = sentence_row(RECORDS[0], measure_site(RECORDS[0]))["first_key"]
    with open_viewer(browser, tmp_path, html, "?lang=de") as page:
        assert "least on the first word" in page.locator("#sort option").all_text_contents()
        assert f"first {value:.2f}".replace(".", ",") in page.locator("#list .row .note").first.text_content()


def test_sentences_are_ordered_and_noted_by_the_measures_that_have_labels(browser, html, tmp_path):
    data, _ = embedded(html)
    rows = [sentence_row(record, measure_site(record)) for record in RECORDS]
    labels = shown_measures()
    with open_viewer(browser, tmp_path, html) as page:
        options = page.locator("#sort option").evaluate_all("all => all.map(({ value, text }) => [value, text])")
        orders = [f"{order['measure']}.{order['first']}" for order in data["orders"]]
        assert [value for value, _ in options[-len(orders) :]] == orders
        assert ["entropy.lowest", "sharpest attention first"] in options
        for name, order in zip(orders, data["orders"], strict=True):
            measure, sign = order["measure"], 1 if order["first"] == "lowest" else -1
            assert labels[measure].lowest_first if sign == 1 else labels[measure].highest_first
            key = {row["id"]: sign * (0 if np.isnan(row[measure]) else round(row[measure], 4)) for row in rows}
            page.select_option("#sort", name)
            assert listed(page) == sorted(key, key=lambda id_, key=key: (key[id_], id_))
        page.select_option("#sort", "file")
        assert f"entropy {rows[0]['entropy']:.2f}" in page.locator("#list .row .note").first.text_content()
