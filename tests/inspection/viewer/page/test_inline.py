"""The page of one sentence in a notebook's cell: it works in a frame that can reach neither notebook nor network."""

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import inline_page
from tests.support.viewer import HOSTILE, make_record


def test_a_cell_shows_the_page_and_keeps_it_in_its_frame(browser, tmp_path):
    page = inline_page("run", ViewerRun("run").add_all([make_record(7, HOSTILE, "le chat")]), height=500)
    cell = tmp_path / "notebook.html"
    cell.write_text(f"<title>notebook</title>{page._repr_html_()}", encoding="utf-8")
    context = browser.new_context(offline=True)
    opened, errors = context.new_page(), []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.goto(cell.as_uri())
    frame = opened.frame_locator("iframe")
    frame.locator("html[data-ready=true]").wait_for(state="attached")
    assert frame.locator(".cell").count() > 0 and frame.locator("nav").is_hidden()
    assert HOSTILE in frame.locator("#texts").inner_text()
    frame.locator(".heads button").nth(2).click()
    frame.get_by_role("checkbox", name="words").click()
    assert opened.title() == "notebook" and errors == []
    assert opened.locator("iframe").evaluate("frame => frame.contentDocument") is None  # out of the notebook's reach
    context.close()
