"""The page's scripts in a window of the browser, without the page."""

from contextlib import contextmanager

from qkv.live.model_page import ENGINE
from qkv.live.page import read_scripts


@contextmanager
def scripts_in(browser, *names):
    """A window that has run these scripts, by default those that need no page."""
    context = browser.new_context()
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        for text in read_scripts(*(names or ENGINE)):
            page.add_script_tag(content=text)
        yield page
        assert errors == []
    finally:
        context.close()
