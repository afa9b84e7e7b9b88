"""The lessons: with their solutions all of a notebook runs, without them its checks fail and nothing else does."""

import importlib.util
import json
import re
from itertools import pairwise

import nbformat
import pytest

from tests.support import ROOT
from tests.support.documents import blocks_of
from tests.support.minutes import by_hand

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


def test_the_code_for_marking_counts_the_checks_that_pass_and_names_the_others(tmp_path, monkeypatch, capsys):
    notebook = json.loads(LESSONS[0].read_text(encoding="utf-8"))
    checks = [cell for cell in notebook["cells"] if cell["id"].startswith("check-")]
    for cell in checks[2:]:
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["Right\n"]}]
    checks[1]["outputs"] = [{"output_type": "error", "ename": "AssertionError", "evalue": "", "traceback": []}]
    (tmp_path / "handed_in").mkdir()
    (tmp_path / "handed_in" / "anna.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    (code,) = blocks_of(FOLDER / "teacher.md")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out == f"anna.ipynb: {len(checks) - 2} of {len(checks)} scores softmax\n"


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


@pytest.mark.minutes
@pytest.mark.parametrize("lessons", [LESSONS[:2], pytest.param(LESSONS[2:], marks=by_hand)], ids=["1 2", "3 4"])
def test_checks_fail_without_the_solutions_and_nothing_else_does(lessons):
    lessons = {lesson.stem[0]: nbformat.read(lesson, as_version=4) for lesson in lessons}
    cells = [(number, cell) for number, notebook in lessons.items() for cell in site.code_to_run(notebook)]
    for number, cell in cells:
        cell.id = f"{number}-{cell.id}"
    site.run_cells((cell for _, cell in cells), allows_errors=True)
    failed = {cell.id: output for _, cell in cells for output in cell.outputs if output.output_type == "error"}
    told = {name: (output.ename, output.evalue) for name, output in failed.items()}
    assert list(failed) == [cell.id for _, cell in cells if re.match(r"\d-check-", cell.id)], told
    for name, message in told.values():
        assert name == "AssertionError" and len(message) > 20, told
    assert all(output.traceback == [output.evalue] for output in failed.values())  # a sentence, and no more
    said = [output for _, cell in cells for output in cell.outputs if output.get("name") == "stderr"]
    assert not said, said  # nor TensorFlow's log


@pytest.mark.minutes
def test_nothing_fails_with_the_solutions():
    """The site shows these outputs."""
    for lesson, notebook in site.run_lessons().items():
        outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
        kinds = {output.output_type for shown in outputs.values() for output in shown}
        assert kinds == {"stream", "display_data"}, lesson
        assert not [output for shown in outputs.values() for output in shown if output.get("name") == "stderr"], lesson
        assert all(outputs[f"check-{name}"] for name in named(lesson, "check")), lesson
