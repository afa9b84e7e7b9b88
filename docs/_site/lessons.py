"""Notebooks on the site: a lesson with its gaps, a solution of each folded away, and the output of all cells.

`conf.py` names `read_notebook` as the reader of notebooks. What readers download is the notebook as it is in the
repository, with gaps and without solutions.
"""

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

LESSONS = Path(__file__).resolve().parents[1] / "lessons"
CACHE = LESSONS.parents[1] / "build" / "notebooks"
"""The outputs of notebooks that were executed, by their code, in the format of jupyter-cache."""
SOLUTION = re.compile(r"^# %% (\S+)\n(.*?)(?=^# %% |\Z)", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"# Lesson (\d)")
ON_THE_SITE = """\
```{{admonition}} Do it yourself
:class: tip
Here the notebook has been run with every gap filled, and the solutions are folded away. To fill the gaps yourself,
download {{download}}`{name} <{name}>` and [open it in Jupyter](index.md#before-the-lesson).
```"""
NOT_RUN = """\
```{admonition} Without outputs
:class: note
This notebook trains for two minutes, so its outputs are not shown here. Download
{download}`first_hour.ipynb <first_hour.ipynb>` and run it.
```"""


def read_notebook(text: str) -> NotebookNode:
    """Returns a notebook as the site shows it.

    Args:
        text: the content of the file. A title such as "Lesson 1" makes it a lesson. Any other notebook is shown
            without being run.
    """
    notebook = nbformat.reads(text, as_version=4)
    title = notebook.cells[0]
    found = TITLE.match(title.source)
    if found is None:
        notebook.metadata["mystnb"] = {"execution_mode": "off"}
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(NOT_RUN, id="text-site"))
        return notebook
    (lesson,) = LESSONS.glob(f"{found[1]}_*.ipynb")
    notebook.metadata["mystnb"] = {"execution_mode": "cache", "merge_streams": True}
    notebook.cells = with_solutions(notebook.cells, solutions_of(lesson))
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(ON_THE_SITE.format(name=lesson.name), id="text-site"))
    return notebook


def solutions_of(lesson: Path) -> dict[str, str]:
    """Returns the code that fills each gap of a lesson, by the id of the gap's cell.

    Args:
        lesson: the notebook, in the folder of lessons.
    """
    return dict(SOLUTION.findall((LESSONS / "solutions" / f"{lesson.stem}.py").read_text(encoding="utf-8")))


def with_solutions(cells: list[NotebookNode], solutions: dict[str, str]) -> list[NotebookNode]:
    """Returns the cells of a lesson, with a cell below each gap that fills it.

    The solutions, the checks' code and the set-up are folded away.

    Args:
        cells: the cells of the lesson.
        solutions: the code that fills each gap, by the id of the gap's cell.
    """
    shown = []
    for cell in cells:
        kind, _, name = cell.id.partition("-")
        shown.append(cell)
        if cell.id == "code-start":
            fold(cell, "the set-up")
        elif kind == "check":
            fold(cell, "the check")
        elif kind == "gap":
            shown.append(
                fold(nbformat.v4.new_code_cell(solutions[cell.id].strip(), id=f"solution-{name}"), "a solution")
            )
    return shown


def fold(cell: NotebookNode, name: str) -> NotebookNode:
    """Makes the site show the code of a cell only after a click, and returns the cell.

    Args:
        cell: the cell.
        name: what the line says that is clicked.
    """
    cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    prompts = {"code_prompt_show": f"Show {name}", "code_prompt_hide": f"Hide {name}"}
    cell.metadata["mystnb"] = {**cell.metadata.get("mystnb", {}), **prompts}
    return cell
