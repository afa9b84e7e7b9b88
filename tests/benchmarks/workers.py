"""Trains by several workers of this machine, and compares with one process, or with workers that were left alone.

    python tests/benchmarks/workers.py equal [--workers 2] [--updates 100] [--kinds adam muon ...]
    python tests/benchmarks/workers.py kill [--kills 20] [--kills_per_run 4]
    python tests/benchmarks/workers.py signal [--times 20] [--signal TERM]

`equal`: the weights of a training by some workers, and those by one process, after as many updates, without dropout.
`kill`: one of two workers, drawn at random, is killed with SIGKILL at a random moment, every other time while a
checkpoint is being written; the other one must end by itself with status 75. Both get the same command again. What the
run holds at its end must be the same, bit for bit, as that of a run that was left alone. `signal`: one of two workers
gets the signal; both must end with status 130, at one update that has a checkpoint, and the same command must end as
above.
Exit status 1 if anything is otherwise.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.config.yaml import dump_yaml
from tests.benchmarks.kill import CHANGES, after, while_writing
from tests.support.processes import PATIENCE_SECONDS, clusters, finish, start
from tests.support.run_contents import contents_but_names, differing
from tests.support.tiny_runs import small_settings, write_small_corpus

TRY_AGAIN, INTERRUPTED = 75, 130
# Waits for a minute only for a worker that was killed before it had come; its graphs are not worth optimizing.
START = """
import sys
from qkv.runtime import cluster
from qkv.runtime.import_tensorflow import importing_tensorflow
with importing_tensorflow():
    import tensorflow
    from qkv.training import build
cluster.WAIT_MINUTES = 1.0
tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
build.slices_per_update = lambda: 1
from qkv.commands.train import main
sys.exit(main())
"""
# Epsilon: without it, Adam makes steps as large as any out of the rounding errors of a key's bias, whose gradient is 0.
EQUAL = {
    "model.dropout": 0.0,
    "batches.batch_tokens": 64,  # some batches are of one sentence, which leaves nothing for the second worker
    "training.epsilon": 1e-4,
}
GUIDED = {"layer": 0, "head": 0, "side": "input", "weight": 0.05}
KINDS: dict[str, dict[str, Any]] = {
    "adam": {},
    "decay": {"training.weight_decay": 0.5},
    "muon": {"training.optimizer": "muon"},
    "muon_decay": {"training.optimizer": "muon", "training.weight_decay": 0.5},
    "accumulation": {"batches.accumulated": 3},
    "r_drop": {"training.r_drop": 3.0},
    "guided": {"training.guided_attention": GUIDED},
    "clipped": {"training.clip_norm": 0.1},
    "all": {
        "training.optimizer": "muon",
        "batches.accumulated": 3,
        "training.r_drop": 3.0,
        "training.guided_attention": GUIDED,
    },
    "started": {},  # from another run
}
KILLED = CHANGES | {"training.max_updates": 40, "training.log_every_updates": 3, "inspection.probes": []}


class WorkerRuns:
    """Runs of one config in one folder, each by some workers.

    Args:
        folder: where text and runs go.
        changes: values of dotted keys.
    """

    def __init__(self, folder: Path, changes: dict[str, Any]) -> None:
        self.folder = folder
        self.config = folder / "workers.yaml"
        settings = small_settings(write_small_corpus(folder / "text"), folder / "runs", changes)
        self.config.write_text(dump_yaml(settings), encoding="utf-8")

    def start(self, name: str, workers: int, *options: str) -> list[subprocess.Popen]:
        """Starts a run, or goes on with it: by the same command on all."""
        tasks = clusters(workers) if workers > 1 else [None]
        command = ["-c", START, "--config", str(self.config), "--run.name", name, *options]
        return [start(command, folder, task) for folder, task in zip(self.outputs(name, workers), tasks, strict=True)]

    def outputs(self, name: str, workers: int) -> list[Path]:
        """The folders of what the workers of a run print."""
        return [self.folder / f"{name}-{index}" for index in range(workers)]

    def run(self, name: str) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / name

    def finish(self, name: str, workers: int, *options: str) -> Path:
        """Trains to the end.

        Raises:
            AssertionError: a worker ended with another status than 0.
        """
        finish(self.start(name, workers, *options), self.outputs(name, workers))
        return self.run(name)


def last_arrays(run: Path) -> dict[str, np.ndarray]:
    """The weights of the newest checkpoint."""
    with np.load(max(run.glob("checkpoints/update-*.npz"))) as archive:
        return {key: archive[key] for key in archive.files if key.startswith("model/")}


def compare_with_one_process(folder: Path, options: argparse.Namespace) -> int:
    """Prints the largest difference of any weight, for each kind and number of workers."""
    limits = dict.fromkeys(("training.max_updates", "training.validate_every_updates"), options.updates)
    bad = 0
    for kind in options.kinds:
        runs = WorkerRuns(folder / kind, EQUAL | limits | KINDS[kind])
        ancestor = ["--training.start_from", str(runs.finish("ancestor", 1))] if kind == "started" else []
        alone = last_arrays(runs.finish("alone", 1, *ancestor))
        for workers in options.workers:
            together = last_arrays(runs.finish(f"by {workers}", workers, *ancestor))
            apart = max(float(np.abs(together[key] - value).max()) for key, value in alone.items())
            bad += not apart <= 1e-5
            print(f"{kind}: {workers} workers, {options.updates} updates: at most {apart:.1e} apart", flush=True)
    return bad


def kill_workers(folder: Path, options: argparse.Namespace) -> int:
    """Kills, resumes, compares."""
    generator, bad, kills, number = random.Random(options.seed), 0, 0, 0
    runs = WorkerRuns(folder, KILLED)
    started = time.monotonic()
    unbroken = contents_but_names(runs.finish("unbroken", 2))
    seconds = time.monotonic() - started
    print(f"a run left alone takes {seconds:.0f} s", flush=True)
    while kills < options.kills:
        number += 1
        name, before = f"killed-{number:03d}", kills
        while kills < min(options.kills, before + options.kills_per_run):
            processes = runs.start(name, 2)
            victim = generator.randrange(2)
            if kills % 2:
                moment, what = while_writing(nth := generator.randint(1, 4)), f"writing checkpoint {nth}"
            else:
                moment, what = after(wait := generator.uniform(0, seconds)), f"after {wait:.1f} s"
            moment(runs.run(name), partial(are_running, processes))
            if any(process.poll() is not None for process in processes):
                finish(processes, runs.outputs(name, 2))  # it ended before
                break
            processes[victim].send_signal(signal.SIGKILL)
            killed = time.monotonic()
            status = processes[1 - victim].wait(PATIENCE_SECONDS)
            processes[victim].wait()
            lasted, reached = time.monotonic() - killed, furthest(runs.run(name))
            bad += status != TRY_AGAIN
            print(f"{name}: worker {victim} killed {what}, {reached}; the other ended {lasted:.0f} s later "
                  f"with status {status}", flush=True)  # fmt: skip
            kills += 1
        found = differing(contents_but_names(runs.finish(name, 2)), unbroken)
        bad += bool(found)
        print(f"{name}: {'DIFFERS: ' + ', '.join(found[:5]) if found else 'ends as the other'}", flush=True)
    return bad


def signal_workers(folder: Path, options: argparse.Namespace) -> int:
    """Sends a signal to one worker, resumes, compares."""
    generator, bad = random.Random(options.seed), 0
    runs = WorkerRuns(folder, KILLED | {"training.max_updates": 400, "training.validate_every_updates": 100})
    unbroken = contents_but_names(runs.finish("unbroken", 2))
    name, times = "signalled-001", 0
    while times < options.times:
        processes = runs.start(name, 2)
        output = runs.outputs(name, 2)[0] / "output"
        lines = output.read_text().count("update") if output.is_file() else 0
        while output.read_text().count("update") < lines + 3 and processes[0].poll() is None:
            time.sleep(0.05)
        time.sleep(generator.uniform(0, 1))
        target = generator.randrange(2)
        processes[target].send_signal(getattr(signal, f"SIG{options.signal}"))
        sent = time.monotonic()
        status = [process.wait(PATIENCE_SECONDS) for process in processes]
        if status == [0, 0]:  # it ended before
            bad += bool(differing(contents_but_names(runs.run(name)), unbroken))
            name = f"signalled-{times + 1:03d}"
            continue
        times += 1
        bad += status != [INTERRUPTED] * 2
        print(f"{name}: worker {target}, status {status} {time.monotonic() - sent:.1f} s later, "
              f"{furthest(runs.run(name))}", flush=True)  # fmt: skip
    found = differing(contents_but_names(runs.finish(name, 2)), unbroken)
    print(f"{name}: {'DIFFERS: ' + ', '.join(found[:5]) if found else 'ends as one left alone'}", flush=True)
    return bad + bool(found)


def are_running(processes: list[subprocess.Popen]) -> bool:
    """Whether none has ended."""
    return all(process.poll() is None for process in processes)


def furthest(run: Path) -> str:
    """The name of the newest checkpoint."""
    paths = run.glob("checkpoints/[up]*-*.npz")
    return max((path.stem for path in paths), key=lambda stem: stem.split("-")[::-1], default="no checkpoint")


TASKS = {"equal": compare_with_one_process, "kill": kill_workers, "signal": signal_workers}


def main() -> int:
    """Does one of the tasks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kills_per_run", type=int, default=4, help="the same run is killed so often before it ends")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--signal", choices=("TERM", "INT"), default="TERM")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = TASKS[options.task](Path(folder), options)
    print(f"{bad} otherwise than expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
