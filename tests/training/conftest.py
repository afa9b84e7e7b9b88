"""Settings like those of the run that tests share."""

import pytest

from tests.support.tiny_runs import LIVELY, small_config


@pytest.fixture(scope="session")
def corpus(unbroken):
    """The text of `unbroken`."""
    return unbroken.parents[1] / "corpus"


@pytest.fixture
def make_config(corpus, tmp_path):
    """Makes settings like those of `unbroken` for a run below the test's own folder; changes are dotted keys."""

    def make(name, **changes):
        dotted = {key.replace("__", "."): value for key, value in changes.items()}
        return small_config(corpus, tmp_path / "runs", name, LIVELY | dotted)

    return make
