"""The address holds the state: a link shares a view, Back returns, and a frame without an address works too."""

import html as escaping

import pytest

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page
from tests.support.pages import open_page
from tests.support.viewer import RECORDS, make_record, open_viewer, press, read_cells, read_state, wait_until

KEYS = ("id", "site", "layer", "head", "side", "view", "words", "hideEos", "pin", "query", "sort", "only")


@pytest.fixture(scope="module")
def html():
    return viewer_page("title", [ViewerRun("one").add_all(RECORDS)], opens_at={"layer": 1, "head": 2})


@pytest.mark.minutes
def test_a_link_shares_what_is_shown(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        page.select_option("#sort", "length")
        page.fill("#search", "the")
        page.click("#list .row[data-id='0']")
        page.locator(".heads button").nth(1).click()
        page.uncheck("[name=words]")
        page.check("[name=hideEos]")
        page.select_option("[name=side]", "input")
        page.check("[value=lines]")
        page.click(".lines .word[data-axis='column'] >> nth=1")
        link, state = page.url, read_state(page, *KEYS)
        assert state == [0, "cross", 0, 0, "input", "lines", False, True, "c1", "the", "length", "all"]
    with open_page(browser, link) as page:
        assert read_state(page, *KEYS) == state
        assert page.input_value("#search") == "the" and page.input_value("#sort") == "length"
        assert not page.is_checked("[name=words]") and page.is_checked("[value=lines]")
        assert page.locator("#list .row").count() == 2 and page.locator(".lines line.dim").count() > 0


def test_back_and_forward_return_to_what_was_shown(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        page.click("#list .row[data-id='3']")
        page.check("[value=lines]")
        page.go_back()
        wait_until(page, "viewer.store.state.view === 'matrix'")
        assert read_state(page, "id") == [3] and page.is_checked("[value=matrix]") and read_cells(page)
        page.go_back()
        wait_until(page, "viewer.store.state.id === 0")
        page.go_forward()
        wait_until(page, "viewer.store.state.id === 3")
        assert page.locator("#list [aria-selected=true]").get_attribute("data-id") == "3"


@pytest.mark.minutes
def test_many_sentences_passed_by_keys_are_one_entry_of_the_history(browser, tmp_path):
    records = [make_record(i, f"the cat {i}", "le chat") for i in range(60)]
    with open_viewer(browser, tmp_path, viewer_page("title", [ViewerRun("one").add_all(records)])) as page:
        page.click("#list .row[data-id='2']")
        before = page.evaluate("history.length")
        press(page, "j" * 50)
        assert read_state(page, "id") == [52]
        wait_until(page, "location.hash.includes('id=52&')")
        assert page.evaluate("history.length") == before + 1
        page.go_back()
        wait_until(page, "viewer.store.state.id === 2")


@pytest.mark.parametrize(
    ("fragment", "expected"),
    [
        ("#3", [3, 1, 2, "matrix"]),
        ("#id=99&layer=7&head=9&view=nothing&sort=nothing&only=x&pin=%3Cb%3E&side=up", [0, 1, "mean", "matrix"]),
        ("#id=x&layer=-1&words=maybe&site=__proto__&constructor=1", [0, 1, 2, "matrix"]),
        ("#head=mean&id=4&view=grid", [4, 1, "mean", "grid"]),
    ],
)
def test_an_address_is_read_as_far_as_it_makes_sense(browser, html, tmp_path, fragment, expected):
    with open_viewer(browser, tmp_path, html, fragment) as page:
        assert read_state(page, "id", "layer", "head", "view") == expected
        assert read_state(page, "pin", "sort", "only", "side", "site") == [None, "file", "all", "output", "cross"]
        assert page.locator("#texts > [dir]").count() > 1


@pytest.mark.parametrize("sandbox", ["allow-scripts", "allow-scripts allow-same-origin"])
def test_a_frame_without_an_address_shows_everything_but_keeps_no_history(browser, html, tmp_path, sandbox):
    """As notebooks embed pages."""
    frame = (
        f'<iframe sandbox="{sandbox}" style="width: 1000px; height: 700px" srcdoc="{escaping.escape(html)}"></iframe>'
    )
    (tmp_path / "notebook.html").write_text(f'<!doctype html><html data-ready="true">{frame}', encoding="utf-8")
    with open_page(browser, (tmp_path / "notebook.html").as_uri()) as page:
        inside = page.frame_locator("iframe")
        inside.locator("html[data-ready=true]").wait_for()
        inside.locator("#list .row[data-id='3']").click()
        inside.locator("[value=lines]").check()
        inside.locator(".lines .word").first.click()
        assert inside.locator("#list [aria-selected=true]").get_attribute("data-id") == "3"
        assert page.url.endswith("notebook.html")
        assert not inside.locator("#copy").is_visible()  # there is nothing to copy


def test_the_link_is_copied(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html, permissions=["clipboard-read", "clipboard-write"]) as page:
        press(page, "j")
        page.click("#copy")
        wait_until(page, "document.getElementById('copied').textContent === 'Copied'")
        assert page.evaluate("navigator.clipboard.readText()") == page.url
        assert "id=1" in page.url


def test_a_link_that_may_not_be_copied_is_shown(browser, html, tmp_path):
    with open_viewer(browser, tmp_path, html) as page:
        page.evaluate("() => { Clipboard.prototype.writeText = async () => { throw new Error('not allowed'); }; }")
        page.click("#copy")
        wait_until(page, "document.getElementById('copied').textContent !== ''")
        assert page.inner_text("#copied") == page.url
