"""A saved model says the same when another process loads it."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from qkv.run.trained_run import load_run
from tests.support import ROOT
from tests.support.tiny_models import SOURCE, TARGET, shared_transformer

VARIANTS = {
    "plain": {},
    "post": {
        "norm": "post",
        "positions": "learned",
        "tie_embeddings": "none",
        "encoder_self": {"score": "general"},
        "decoder_self": {"score": "cosine"},
        "cross": {"score": "additive"},
    },
    "target": {"tie_embeddings": "target", "dtype": "mixed_bfloat16"},
}
READER = """
import pathlib, sys, warnings
import keras, numpy as np
warnings.simplefilter("error")
import qkv.model.transformer
folder = pathlib.Path(sys.argv[1])
ids = np.load(folder / "ids.npz")
logits = {
    path.stem: np.array(keras.saving.load_model(path)(ids["source"], ids["target"])) for path in folder.glob("*.keras")
}
np.savez(folder / "logits.npz", **logits)
"""


@pytest.mark.minutes
def test_a_model_reloaded_in_a_new_process_gives_the_same_logits(unbroken, tmp_path):
    models = {name: shared_transformer(**settings) for name, settings in VARIANTS.items()}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    models["of a run"] = load_run(unbroken).model
    shutil.copy(unbroken / "model.keras", tmp_path / "of a run.keras")
    np.savez(tmp_path / "ids.npz", source=SOURCE, target=TARGET)
    done = subprocess.run([sys.executable, "-c", READER, tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "logits.npz") as found:
        assert set(found) == set(models)
        for name, model in models.items():
            np.testing.assert_array_equal(found[name], model(SOURCE, TARGET))
