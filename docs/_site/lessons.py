"""A Sphinx extension: a lesson on the site has its gaps, a solution of each folded away, and the output of all cells.

`conf.py` names `read_notebook` as the reader of notebooks. What readers download is the notebook as it is in the
repository, with gaps and without solutions.
"""

import hashlib
import logging
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ROOT / "docs" / "lessons"
CACHES = ROOT / "build" / "notebooks"
DEMO = ROOT / "runs" / "demo" / "model.keras"
SETTINGS = ROOT / "build" / "ipython"
"""An empty folder in the place of the user's settings of IPython."""
MOST_SECONDS = 1200
"""The time that a cell may take."""
SOLUTION = re.compile(r"^# %% (\S+)\n(.*?)(?=^# %% |\Z)", re.MULTILINE | re.DOTALL)
log = logging.getLogger(__name__)
log.setLevel(logging.WARNING)
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

# What the site shows


def read_notebook(text: str) -> NotebookNode:
    """Returns a notebook as the site shows it.

    Args:
        text: the content of the file. A title such as "Lesson 1" makes it a lesson. Any other notebook is shown
            without being run.
    """
    notebook = nbformat.reads(text, as_version=4)
    title = TITLE.match(notebook.cells[0].source)
    if title is None:
        notebook.metadata["mystnb"] = {"execution_mode": "off"}
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(NOT_RUN, id="text-site"))
        return notebook
    (lesson,) = LESSONS.glob(f"{title[1]}_*.ipynb")
    notebook.metadata["mystnb"] = {"execution_mode": "cache", "merge_streams": True}
    notebook.cells = with_solutions(notebook.cells, solutions_of(lesson))
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(ON_THE_SITE.format(name=lesson.name), id="text-site"))
    return notebook


def solutions_of(lesson: Path) -> dict[str, str]:
    """Returns the code that fills each gap of a lesson, by the id of the gap's cell."""
    return dict(SOLUTION.findall((LESSONS / "solutions" / f"{lesson.stem}.py").read_text(encoding="utf-8")))


def with_solutions(cells: list[NotebookNode], solutions: dict[str, str]) -> list[NotebookNode]:
    """Returns the cells of a lesson, with a cell below each gap that fills it.

    The code of solutions, checks and the set-up is folded away.

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
            solution = nbformat.v4.new_code_cell(solutions[cell.id].strip(), id=f"solution-{name}")
            shown.append(fold(solution, "a solution"))
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


# Outputs


def cache_folder() -> Path:
    """Returns the folder for outputs of lessons, in the format of jupyter-cache. Its name is a digest of the package.

    So outputs are not shown any more once the package has changed.
    """
    digest = hashlib.sha256()
    for path in sorted((ROOT / "pipeline" / "qkv").rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return CACHES / digest.hexdigest()[:16]


def run_lessons() -> dict[Path, NotebookNode]:
    """Runs the lessons whose outputs are not in the cache, and returns all with their outputs, by file.

    Raises:
        CellExecutionError: a cell fails.
    """
    folder = cache_folder()
    notebooks = {lesson: read_notebook(lesson.read_text("utf-8")) for lesson in sorted(LESSONS.glob("*.ipynb"))}
    with alone(folder):
        cache = get_cache(folder)
        known = {record.hashkey for record in cache.list_cache_records()}
        missing = {
            lesson: notebook
            for lesson, notebook in notebooks.items()
            if cache.create_hashed_notebook(notebook)[1] not in known
        }
        if missing:
            run_cells(cell for notebook in missing.values() for cell in code_to_run(notebook))
        for lesson, notebook in missing.items():
            cache.cache_notebook_bundle(CacheBundleIn(notebook, uri=str(lesson)), check_validity=False, overwrite=True)
        return {lesson: cache.merge_match_into_notebook(notebook)[1] for lesson, notebook in notebooks.items()}


def code_to_run(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Yields a cell that forgets all names, and the cells of a notebook that have code."""
    yield nbformat.v4.new_code_cell("%reset -f")
    yield from (cell for cell in notebook.cells if cell.cell_type == "code")


def run_cells(cells: Iterable[NotebookNode], allows_errors: bool = False) -> None:
    """Runs cells, and writes their outputs into them.

    All are run in one kernel, because it takes seconds to import TensorFlow. If the repository has a trained demo, they
    are run in the folder of lessons and look at it. Otherwise they are run outside the repository, because results of
    the demo in the package would stand where `make demo` trains.

    Args:
        cells: the cells.
        allows_errors: if True, an error is an output like others.

    Raises:
        CellExecutionError: a cell fails, and `allows_errors` is False.
    """
    cells = list(cells)
    copies = [nbformat.from_dict({**cell, "id": f"{number}-{cell.id}"}) for number, cell in enumerate(cells)]
    notebook = nbformat.v4.new_notebook(cells=copies)
    SETTINGS.mkdir(parents=True, exist_ok=True)
    arguments = ["--log-level=ERROR", f"--ipython-dir={SETTINGS}"]
    settings = {"timeout": MOST_SECONDS, "allow_errors": allows_errors, "extra_arguments": arguments}
    with TemporaryDirectory() as elsewhere:
        resources = {"metadata": {"path": str(LESSONS) if DEMO.is_file() else elsewhere}}
        NotebookClient(notebook, log=log, resources=resources, **settings).execute()
    for cell, copy in zip(cells, copies, strict=True):
        cell.outputs, cell.execution_count = copy.outputs, copy.execution_count


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Makes a folder of outputs, deletes others, and waits until no other process is in this block."""
    folder.mkdir(parents=True, exist_ok=True)
    for other in CACHES.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    with (folder / "lock").open("w") as file:
        try:
            import fcntl
        except ImportError:  # on Windows, two processes may run the same lessons
            pass
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def setup(app):
    app.connect("builder-inited", lambda app: run_lessons() and None)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
