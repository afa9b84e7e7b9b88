"""The lessons: with their solutions all of a notebook runs, without them its checks fail and nothing else does."""

import json
import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support import ROOT
from tests.support.processes import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

FOLDER = ROOT / "docs" / "lessons"
LESSONS = sorted(FOLDER.glob("*.ipynb"))
SOLUTION = re.compile(r"^# %% (\S+)\n(.*?)(?=^# %% |\Z)", re.MULTILINE | re.DOTALL)
NEED_THE_DEMO = ("3_what_a_head_does", "4_how_far_to_believe")


def solutions_of(lesson):
    return dict(SOLUTION.findall((FOLDER / "solutions" / f"{lesson.stem}.py").read_text(encoding="utf-8")))


def cells_of(lesson):
    return nbformat.read(lesson, as_version=4).cells


def named(lesson, kind):
    return [cell.id.removeprefix(f"{kind}-") for cell in cells_of(lesson) if cell.id.startswith(f"{kind}-")]


def test_there_are_four_lessons_that_the_page_names():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [lesson.name for lesson in LESSONS] == re.findall(r"\((\d_\w+\.ipynb)\)", page)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_a_notebook_is_kept_as_it_was_before_it_was_run(lesson):
    text = lesson.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=1) + "\n"
    nbformat.validate(nbformat.from_dict(json.loads(text)))
    ids = [cell.id for cell in cells_of(lesson)]
    assert len(set(ids)) == len(ids)
    assert {name.split("-")[0] for name in ids} == {"text", "code", "gap", "check"}
    for cell in cells_of(lesson):
        assert cell.cell_type == "markdown" or (cell.outputs == [] and cell.execution_count is None)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_every_gap_has_a_check_and_a_solution(lesson):
    gaps = named(lesson, "gap")
    assert len(gaps) >= 5
    assert gaps == named(lesson, "check") == [name.removeprefix("gap-") for name in solutions_of(lesson)]
    for cell in cells_of(lesson):
        kind = cell.id.split("-")[0]
        assert kind not in ("gap", "check") or cell.source.startswith(f"# {kind}: ")
        assert kind != "gap" or "..." in cell.source


def cells_to_run(lesson):
    """The code without the solutions, then with them; each after all names were forgotten."""
    unfilled = [cell for cell in cells_of(lesson) if cell.cell_type == "code"]
    filled = [nbformat.from_dict(json.loads(json.dumps(cell)) | {"id": f"filled-{cell.id}"}) for cell in unfilled]
    for cell in filled:
        cell.source = solutions_of(lesson).get(cell.id.removeprefix("filled-"), cell.source)
    forgets = [nbformat.v4.new_code_cell("%reset -f", id=f"forget-{number}") for number in range(2)]
    cells = [forgets[0], *unfilled, forgets[1], *filled]
    for cell in cells:
        cell.id = f"{lesson.stem[0]}-{cell.id}"
    return cells


@pytest.mark.minutes
def test_checks_fail_without_the_solutions_and_nothing_fails_with_them():
    """In one kernel for all, since it takes seconds to import TensorFlow."""
    demo = (ROOT / "runs/demo/evaluations/test/metrics.json").is_file()  # make demo
    lessons = [lesson for lesson in LESSONS if demo or lesson.stem not in NEED_THE_DEMO]
    notebook = nbformat.read(lessons[0], as_version=4)
    notebook.cells = [cell for lesson in lessons for cell in cells_to_run(lesson)]
    NotebookClient(
        notebook, timeout=PATIENCE_SECONDS, allow_errors=True, resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    failed = {cell.id: output for cell in notebook.cells for output in cell.outputs if output.output_type == "error"}
    told = {name: (output.ename, output.evalue) for name, output in failed.items()}
    assert list(failed) == [cell.id for cell in notebook.cells if re.match(r"\d-check-", cell.id)], told
    for name, message in told.values():
        assert name == "AssertionError" and len(message) > 20, told
    assert all(output.traceback == [output.evalue] for output in failed.values())  # a sentence, and no more
    said = [output for cell in notebook.cells for output in cell.outputs if output.get("name") == "stderr"]
    assert not said, said  # nor TensorFlow's log
