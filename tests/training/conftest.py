"""One small run for all tests that only look at what it left."""

import pytest

from qkv.run import train
from tests.support.tiny_runs import LIVELY, small_config, write_small_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A corpus with an empty line on one side, a pair that comes three times, and validation text in the training."""
    folder = write_small_corpus(tmp_path_factory.mktemp("corpus"))
    for suffix in ("en", "fr"):
        path = folder / f"train.{suffix}"
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[4] = "" if suffix == "fr" else lines[4]
        lines[20] = lines[30] = lines[10]
        lines[40] = (folder / f"validation.{suffix}").read_text(encoding="utf-8").splitlines()[2]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def make_config(corpus, tmp_path):
    """Makes settings like those of `unbroken` for a run below the test's own folder; changes are dotted keys."""

    def make(name, **changes):
        dotted = {key.replace("__", "."): value for key, value in changes.items()}
        return small_config(corpus, tmp_path / "runs", name, LIVELY | dotted)

    return make


@pytest.fixture(scope="session")
def unbroken(corpus, tmp_path_factory):
    """The folder of a run of eight updates, which cross the end of an epoch."""
    runs = tmp_path_factory.mktemp("runs")
    assert train(small_config(corpus, runs, "unbroken", LIVELY)) == 0
    return runs / "unbroken"
