"""A window for the scripts that translate in the page, which keeps nothing from one call to the next."""

import pytest

from tests.support.pages import engine_in


@pytest.fixture(scope="module")
def engine(browser):
    with engine_in(browser) as page:
        yield page
