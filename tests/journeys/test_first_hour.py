"""The first hour in a notebook: a session that is cut during training, and the next one, which runs all cells again."""

import json
import sys
from types import ModuleType, SimpleNamespace

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

from tests.support import ROOT
from tests.support.processes import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

NOTEBOOK = ROOT / "docs" / "use" / "first_hour.ipynb"
FASTER = {
    "code-table": {"range(3000)": "range(300)"},
    "code-train": {
        '"training.max_minutes": 2': '"training.max_updates": 30, "training.validate_every_updates": 10, '
        '"training.warmup_updates": 5, "model.d_model": 16, "model.encoder_layers": 1, "inspection.probes": []'
    },
}
"""Texts of cells, and their replacements for a model that trains in seconds."""
QUICK = """
import os, signal
from qkv.runtime.import_tensorflow import importing_tensorflow
with importing_tensorflow():
    import keras, tensorflow
tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # graphs run once or twice
"""
CUT = """
class Cut(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 14:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def cells():
    return {cell.id: cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"}


def session(folder, cells):
    """Executes cells in a new kernel, and returns the outputs of each by its name."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(QUICK), *cells])
    client = NotebookClient(notebook, timeout=PATIENCE_SECONDS, resources={"metadata": {"path": str(folder)}})
    try:
        client.execute()
    except DeadKernelError:
        cells[-1].metadata["died"] = True
    return {cell.id: cell.outputs for cell in notebook.cells}


def shown(outputs):
    """The text that the outputs of a cell show, without HTML."""
    return "\n".join(output.get("text") or output["data"]["text/plain"] for output in outputs)


def test_a_notebook_is_kept_as_it_was_before_it_was_run():
    text = NOTEBOOK.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert text == json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
    nbformat.validate(nbformat.from_dict(notebook))
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells().values())
    lines = "".join("".join(cell["source"]) + "\n" for cell in notebook["cells"]).splitlines()
    assert max(map(len, lines)) <= 120


@pytest.mark.minutes
def test_a_session_that_is_cut_goes_on_in_the_next_one(tmp_path):
    """All cells are run twice but for the installation. The first time, the process is killed in the 15th update."""
    install, *of_both = cells().values()
    assert install.id == "code-install" and install.source.splitlines()[-1].startswith("%pip install --quiet ")
    for cell in of_both:
        for text, faster in FASTER.get(cell.id, {}).items():
            assert cell.source.count(text) == 1, cell.id
            cell.source = cell.source.replace(text, faster)
    folder, table, train, *rest = of_both
    cut = train.copy()
    cut.source = CUT + train.source.replace("pairs=table)", "pairs=table, callbacks=[Cut()])")
    session(tmp_path, [folder, table, cut])
    run = tmp_path / "runs" / "first_hour"
    assert cut.metadata["died"] and not (run / "model.keras").exists()
    again = nbformat.from_dict(train | {"id": "again"})
    outputs = session(tmp_path, [folder, table, train, again, *rest])
    told = shown(outputs["code-train"])
    assert (
        "continuing after 10 updates\n" in told and "update     10" not in told and "trained for 30 updates" in told
    ), told
    assert "first_hour is trained already, with 30 updates" in shown(outputs["again"])
    assert list(pd.read_csv(run / "history.csv")["update"]) == [10, 20, 30]
    for name, kind in (("translate", "<table"), ("show", "<iframe"), ("evaluate", "BLEU"), ("download", "href='runs/")):
        assert kind in outputs[f"code-{name}"][-1].data["text/html"], name
    assert (tmp_path / "runs" / "first_hour.zip").stat().st_size > 10_000
    assert not [output for cell in outputs.values() for output in cell if output.get("name") == "stderr"]
    assert len(str(outputs)) < 500_000  # a notebook file that can be sent by mail


def test_on_colab_the_run_goes_to_google_drive(monkeypatch):
    mounted = []
    colab = ModuleType("google.colab")
    colab.drive = SimpleNamespace(mount=mounted.append)
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    names = {}
    exec(cells()["code-folder"].source, names)
    assert mounted == ["/content/drive"] and names["runs"].is_relative_to("/content/drive/MyDrive")


def test_the_table_is_the_same_in_each_session_and_is_spanish():
    names, again = {}, {}
    for variables in (names, again):
        exec(cells()["code-table"].source.removesuffix("table.head()"), variables)
    table = names["table"]
    assert table.equals(again["table"]) and list(table) == ["en", "es"] and len(table) > 2000
    by_english = dict(zip(table["en"], table["es"], strict=True))
    assert by_english["The black horse looks for the quiet boy."] == "El caballo negro busca al niño tranquilo."
    assert by_english["The girl waits for the black cow."] == "La niña espera a la vaca negra."
