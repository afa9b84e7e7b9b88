"""The lessons: with their solutions all of a notebook runs, without them its checks fail and nothing else does."""

import importlib.util
import json
import re
from copy import deepcopy
from itertools import pairwise

import nbformat
import pytest
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbclient import NotebookClient

from tests.support import ROOT
from tests.support.processes import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

spec = importlib.util.spec_from_file_location("lessons", ROOT / "docs" / "_site" / "lessons.py")
assert spec and spec.loader
site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site)

FOLDER = ROOT / "docs" / "lessons"
LESSONS = sorted(FOLDER.glob("*.ipynb"))
solutions_of = site.solutions_of


def cells_of(lesson):
    return nbformat.read(lesson, as_version=4).cells


def named(lesson, kind):
    return [cell.id.removeprefix(f"{kind}-") for cell in cells_of(lesson) if cell.id.startswith(f"{kind}-")]


def test_there_are_four_lessons_that_the_page_names():
    page = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [lesson.name for lesson in LESSONS] == list(dict.fromkeys(re.findall(r"\((\d_\w+\.ipynb)\)", page)))


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


def on_the_site(lesson):
    return site.read_notebook(lesson.read_text(encoding="utf-8"))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_the_site_shows_each_gap_as_students_get_it_and_folds_its_solution(lesson):
    cells = on_the_site(lesson).cells
    own = {cell.id: cell.source for cell in cells_of(lesson)}
    assert {cell.id: cell.source for cell in cells if cell.id in own} == own
    folded = [cell.id for cell in cells if "hide-input" in cell.metadata.get("tags", [])]
    for gap, below in pairwise(cells):
        if gap.id.startswith("gap-"):
            assert below.id == gap.id.replace("gap-", "solution-") and below.id in folded and gap.id not in folded
            assert below.source == solutions_of(lesson)[gap.id].strip()
    assert [cell.id for cell in cells if cell.id not in own] == ["text-site", *(n for n in folded if n[:3] == "sol")]


def test_the_site_shows_another_notebook_without_running_it():
    notebook = site.read_notebook((ROOT / "docs/use/first_hour.ipynb").read_text(encoding="utf-8"))
    assert notebook.metadata["mystnb"] == {"execution_mode": "off"}


def cells_to_run(lesson, filled):
    """The code without the solutions, then as on the site; each after all names were forgotten."""
    unfilled = [cell for cell in cells_of(lesson) if cell.cell_type == "code"]
    filled = deepcopy([cell for cell in filled.cells if cell.cell_type == "code"])
    for cell in filled:
        cell.id = f"filled-{cell.id}"
    forgets = [nbformat.v4.new_code_cell("%reset -f", id=f"forget-{number}") for number in range(2)]
    cells = [forgets[0], *unfilled, forgets[1], *filled]
    for cell in cells:
        cell.id = f"{lesson.stem[0]}-{cell.id}"
    return cells


@pytest.mark.minutes
def test_checks_fail_without_the_solutions_and_nothing_fails_with_them():
    """In one kernel for all, since it takes seconds to import TensorFlow. The site takes the outputs from here."""
    shown = {lesson: on_the_site(lesson) for lesson in LESSONS}
    notebook = nbformat.read(LESSONS[0], as_version=4)
    notebook.cells = [cell for lesson, filled in shown.items() for cell in cells_to_run(lesson, filled)]
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
    ran = {cell.id: cell for cell in notebook.cells}
    for lesson, filled in shown.items():
        keep_for_the_site(lesson, filled, ran)


def keep_for_the_site(lesson, filled, ran):
    """Writes the outputs of a lesson where the site's build looks for them."""
    for cell in filled.cells:
        if cell.cell_type == "code":
            own = ran[f"{lesson.stem[0]}-filled-{cell.id}"]
            cell.outputs, cell.execution_count = own.outputs, own.execution_count
    bundle = CacheBundleIn(filled, uri=str(lesson))
    get_cache(site.CACHE).cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
