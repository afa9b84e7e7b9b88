"""A saved model is loaded in a process that has imported no architecture, on any backend."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from qkv.errors import InputError
from qkv.losses import TokenCrossEntropy
from qkv.metrics import TokenAccuracy
from qkv.run.load_model import load_model
from tests.support import ROOT
from tests.support.tiny_models import SOURCE, TARGET, make_transformer

PROGRAM = """
import sys
import numpy as np
from qkv import Recurrent, load_model
import keras
folder = sys.argv[1]
given = np.load(f"{folder}/ids.npz")
ids = given["source"], given["target"]
for loaded in (load_model(folder), keras.saving.load_model(f"{folder}/model.keras")):
    assert loaded.compiled and isinstance(loaded.optimizer, keras.optimizers.Adam)
    np.testing.assert_allclose(loaded.predict(ids, verbose=0), given["logits"], atol=1e-5)
print(keras.backend.backend(), "tensorflow" in sys.modules)
"""


@pytest.mark.minutes
def test_a_model_compiled_by_our_parts_is_loaded_by_its_folder_and_by_its_file(tmp_path):
    """On another backend; `test_saved_model_file.py` loads one by TensorFlow."""
    model = make_transformer()
    model.compile(keras.optimizers.Adam(), TokenCrossEntropy(0.1), metrics=[TokenAccuracy()])
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "ids.npz", source=SOURCE, target=TARGET, logits=model(SOURCE, TARGET))
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "pipeline")}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["jax", "False"]


def test_a_path_without_a_model_is_refused_by_name(tmp_path):
    for path in (tmp_path, tmp_path / "model.keras"):
        with pytest.raises(InputError, match=r"model\.keras: no such file; expected a \.keras file"):
            load_model(path)


@pytest.mark.parametrize("path", [5, None, ["model.keras"]])
def test_a_model_is_loaded_by_a_path(path):
    with pytest.raises(InputError, match=r"^path: expected a \.keras file, or the folder of a run, found "):
        load_model(path)
