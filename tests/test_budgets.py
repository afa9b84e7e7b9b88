"""The number of modules may only fall; a module tells one story, however long it is."""

from pathlib import Path

PIPELINE = Path(__file__).parents[1] / "pipeline"
MOST_MODULES, MOST_AT_THE_FRONT_DOOR = 429, 32


def test_there_are_no_more_modules_than_before():
    assert len(list(PIPELINE.rglob("*.py"))) <= MOST_MODULES


def test_no_more_modules_lie_beside_the_packages():
    assert len(list(PIPELINE.glob("*.py"))) <= MOST_AT_THE_FRONT_DOOR
