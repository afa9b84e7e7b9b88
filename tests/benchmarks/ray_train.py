"""Trains a small run by two workers of Ray Train, as docs/use/machines.md says, and compares it with one process.

    python tests/benchmarks/ray_train.py

Needs `pip install "ray[train]"`, which `tests/benchmarks/requirements.txt` does not list: it brings much along.
Exit status 1 if weights are further than 1e-5 apart.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.config.yaml import dump_yaml
from tests.benchmarks.workers import EQUAL, WorkerRuns, last_arrays
from tests.support import ROOT
from tests.support.documents import MACHINES, recipe
from tests.support.tiny_runs import small_settings

UPDATES = 40


def main() -> int:
    """Trains, twice in Ray, and compares."""
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import ray

    limits = dict.fromkeys(("training.max_updates", "training.validate_every_updates"), UPDATES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = last_arrays(WorkerRuns(folder, EQUAL | limits).finish("alone", 1))
        config = folder / "together.yaml"
        config.write_text(dump_yaml(small_settings(folder / "text", folder / "runs", EQUAL | limits)), encoding="utf-8")
        ray.init(num_cpus=3, include_dashboard=False, _node_ip_address="127.0.0.1")
        code = recipe("TensorflowTrainer", MACHINES)
        exec(code, {"__name__": "__main__", "CONFIG": str(config), "STORAGE": str(folder / "ray")})
        ray.shutdown()
        together = last_arrays(folder / "runs" / "together")
    apart = max(float(np.abs(together[key] - value).max()) for key, value in alone.items())
    print(f"two workers of Ray {ray.__version__}, {UPDATES} updates: at most {apart:.1e} apart from one process")
    return 0 if apart <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
