"""Headless Chromium, in which the pages are tested as a person would use them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from qkv.inspection.viewer import page as viewer_page
from qkv.inspection.viewer.page import read_scripts
from qkv.live.model_page import ENGINE

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Starts Chromium for the block; without it, the test is skipped."""
    if not EXECUTABLE:
        pytest.skip("needs Chromium, which .ci/run installs")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=OPTIONS)
        try:
            yield browser
        finally:
            _idle.clear()
            browser.close()


WINDOW = {
    "viewport": {"width": 1280, "height": 720},
    "color_scheme": "light",
    "forced_colors": "none",
    "offline": False,
}
"""What a window that pages share one after the other can be set to."""
MOST_ENTRIES = 30  # of a window's history, which keeps no more than 50
_idle: list[Page] = []


@contextmanager
def open_page(browser: Browser, address: str, **settings) -> Iterator[Page]:
    """Opens an address in a window, and sees to it that nothing is wrong when the block ends; a window that is left
    serves again as if it were new, which takes a third of the time.

    Args:
        browser: Chromium.
        address: `file://…` or `http://127.0.0.1:…`.
        settings: of the window, such as those of `WINDOW`; with others, see Playwright's `Browser.new_context`, it is
            one of its own.

    Raises:
        AssertionError: the page wrote an error to the console, or asked another host for something.
    """
    shared = settings.keys() <= WINDOW.keys()
    page = _idle.pop() if shared and _idle else browser.new_context(**settings).new_page()
    if shared:
        _set_up(page, **WINDOW | settings)
    errors, requests = [], []
    listeners = {
        "console": lambda message: errors.append(message.text) if message.type == "error" else None,
        "pageerror": lambda error: errors.append(str(error)),
        "request": lambda request: requests.append(request.url),
    }
    for event, listen in listeners.items():
        page.on(event, listen)
    own = address.split("/", 3)[:3]
    try:
        page.goto(address)
        page.wait_for_selector("html[data-ready=true]", state="attached")
        yield page
        assert errors == []
        outside = [url for url in requests if url.split("/", 3)[:3] != own]
        assert [url for url in outside if not url.startswith(("blob:", "data:"))] == []
        shared = shared and page.evaluate("history.length") < MOST_ENTRIES
    except BaseException:
        shared = False
        raise
    finally:
        for event, listen in listeners.items():
            page.remove_listener(event, listen)
        if shared:
            page.goto("about:blank")
            _idle.append(page)
        else:
            page.context.close()


def _set_up(page: Page, viewport, color_scheme, forced_colors, offline) -> None:
    page.set_viewport_size(viewport)
    page.emulate_media(color_scheme=color_scheme, forced_colors=forced_colors)
    page.context.set_offline(offline)
    page.mouse.move(0, 0)


@contextmanager
def engine_in(browser):
    """A window that has run the scripts that translate in the page; of a page they need the words alone."""
    context = browser.new_context()
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        page.set_content(viewer_page.words_element(["live"]))
        for text in (read_scripts(viewer_page.ASSETS / "scripts"), read_scripts(ENGINE)):
            page.add_script_tag(content=text)
        yield page
        assert errors == []
    finally:
        context.close()
