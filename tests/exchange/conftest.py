"""The golden Marian model as a run."""

import pytest

from tests.support.marian import MARIAN


@pytest.fixture(scope="package")
def imported(tmp_path_factory):
    """The folder of the run."""
    from qkv.commands.import_marian import main

    folder = tmp_path_factory.mktemp("imported") / "opus"
    assert main([str(MARIAN), str(folder)]) == 0
    return folder


@pytest.fixture(scope="package")
def run(imported):
    from qkv.run.trained_run import load_run

    return load_run(imported)
