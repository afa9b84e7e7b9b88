"""Nobody is kept from a page by what axe-core can find: in every state, light and dark, on a screen and on a phone."""

import pytest

from tests.support.axe import find_violations
from tests.support.viewer import STATES, open_viewer, show_state, whole_page

SCREEN, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.mark.parametrize(("viewport", "scheme"), [(SCREEN, "light"), (PHONE, "dark")], ids=["screen", "phone"])
@pytest.mark.parametrize("make_page", STATES)
@pytest.mark.minutes
def test_axe_finds_nothing_in_any_state(browser, tmp_path, make_page, viewport, scheme):
    with open_viewer(browser, tmp_path, make_page(), viewport=viewport, color_scheme=scheme) as page:
        found = []
        for state in STATES[make_page]:
            show_state(page, state)
            found += [f"{state}: {violation}" for violation in find_violations(page)]
        assert found == []


@pytest.mark.parametrize(
    ("viewport", "scheme"), [(SCREEN, "dark"), pytest.param(PHONE, "light", marks=pytest.mark.minutes)]
)
def test_axe_finds_nothing_on_a_page_that_opens(browser, tmp_path, viewport, scheme):
    with open_viewer(browser, tmp_path, whole_page(), viewport=viewport, color_scheme=scheme) as page:
        assert find_violations(page) == []
        page.evaluate("document.documentElement.lang = ''")
        assert len(find_violations(page)) == 1  # it looks
