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
            browser.close()


@contextmanager
def open_page(browser: Browser, address: str, **settings) -> Iterator[Page]:
    """Opens an address in a window of its own, and sees to it that nothing is wrong when the block ends.

    Args:
        browser: Chromium.
        address: `file://…` or `http://127.0.0.1:…`.
        settings: of the window, such as `viewport`, `color_scheme` ("dark"), `forced_colors` or `offline`; see
            Playwright's `Browser.new_context`.

    Raises:
        AssertionError: the page wrote an error to the console, or asked another host for something.
    """
    context = browser.new_context(**settings)
    page, errors, requests = context.new_page(), [], []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    own = address.split("/", 3)[:3]
    try:
        page.goto(address)
        page.wait_for_selector("html[data-ready=true]", state="attached")
        yield page
        assert errors == []
        outside = [url for url in requests if url.split("/", 3)[:3] != own]
        assert [url for url in outside if not url.startswith(("blob:", "data:"))] == []
    finally:
        context.close()


@contextmanager
def engine_in(browser):
    """A window that has run the scripts that translate in the page, which need no page."""
    context = browser.new_context()
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        for text in (read_scripts(viewer_page.ASSETS / "scripts"), read_scripts(ENGINE)):
            page.add_script_tag(content=text)
        yield page
        assert errors == []
    finally:
        context.close()
