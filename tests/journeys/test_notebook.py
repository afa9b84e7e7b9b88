"""A notebook that looks at a run: it shows pages and pictures, and its file stays small."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support import KEPT_RUNS
from tests.support.processes import PATIENCE_SECONDS

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

CELLS = [
    f"import qkv; run = qkv.load({str(KEPT_RUNS / 'transformer')!r})",
    'run.show("the cat eats the apple .")',
    'run.translate("the cat eats the apple .").attention.plot();',
    "run.weights()",
    'print(run.cache(["the cat ."]), run.show("the cat .", height=300))',
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of the cells, without what TensorFlow logs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in CELLS])
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(notebook, timeout=PATIENCE_SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    assert [*folder.iterdir()] == []
    return [[output for output in cell.outputs if output.get("name") != "stderr"] for cell in notebook.cells]


def test_a_page_is_shown_in_a_frame_of_a_hundred_and_fifty_kilobytes(outputs):
    (page,) = outputs[1]
    assert page.data["text/html"].startswith('<iframe srcdoc="')
    assert re.fullmatch(r"<InlinePage: \d+ kB of HTML, 900 pixels high>", page.data["text/plain"])
    assert 50_000 < len(str(page)) < 160_000


def test_a_plot_is_a_picture_and_a_table_a_table(outputs):
    (picture,) = outputs[2]
    assert picture.data["image/png"] and len(str(picture)) < 100_000
    (table,) = outputs[3]
    assert "norm_qk" in table.data["text/html"]


def test_what_is_printed_is_one_line_each(outputs):
    (printed,) = outputs[4]
    assert re.fullmatch(r"\[<Inside: [^\n]*>\] <InlinePage: \d+ kB of HTML, 300 pixels high>\n", printed.text)
