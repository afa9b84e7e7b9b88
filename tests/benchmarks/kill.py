"""Kills training with SIGKILL at random moments, resumes it, and compares the end with a run that was left alone.

    python tests/benchmarks/kill.py [--kills 50] [--kills_per_run 5] [--kind transformer|recurrent|...]

Half of the moments are drawn over the whole time that a run takes, from its first second on; the other half fall while
a checkpoint is being written. The same command is given again. Weights, optimizer, history and TensorBoard's steps must
be the same, bit for bit.
Exit status 1 if any run ends otherwise.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.config.yaml import dump_yaml
from tests.support import ROOT
from tests.support.run_contents import contents_but_names, differing
from tests.support.tiny_runs import small_settings, write_small_corpus

CHANGES = {
    "model.dropout": 0.1,
    "training.max_updates": 160,
    "training.validate_every_updates": 4,
    "training.log_every_updates": 2,
    "training.average_checkpoints": 2,
    "training.keep_checkpoints": 3,
    "inspection.probes": [{"source": "the cat sleeps .", "reference": "le chat dort ."}],
}
SMALL_RECURRENT = {"architecture": "recurrent", "embedding_dim": 8, "hidden_dim": 8, "attention_dim": 8}
SMALL_DECODER = {"architecture": "decoder_only", "d_model": 8, "num_heads": 2, "d_ff": 8, "layers": 1}
KINDS = {
    "transformer": {},
    "muon": {"training.optimizer": "muon"},
    "accumulated": {"batches.accumulated": 3},
    "recurrent": {"model": SMALL_RECURRENT | {"max_positions": 64, "dropout": 0.1}},
    "decoder_only": {"model": SMALL_DECODER | {"max_positions": 64, "dropout": 0.1}},
}


class Killed:
    """Runs of one config in one folder.

    Args:
        folder: where text and runs go.
        changes: values of dotted keys.
    """

    def __init__(self, folder: Path, changes: dict[str, object]) -> None:
        self.runs = folder / "runs"
        self.config = folder / "kill.yaml"
        settings = small_settings(write_small_corpus(folder / "text"), self.runs, CHANGES | changes)
        self.config.write_text(dump_yaml(settings), encoding="utf-8")

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Starts the run, or goes on with it: by the same command."""
        command = [sys.executable, "train.py", "--config", str(self.config), "--run.name", name]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def finish(self, name: str) -> Path:
        """Trains to the end.

        Raises:
            AssertionError: training refused to go on.
        """
        with self.start(name) as process:
            _, message = process.communicate()
        assert process.returncode == 0, f"{name}: exit status {process.returncode}: {message.decode()[-2000:]}"
        return self.runs / name

    def kill(self, name: str, wait: Callable[[Path, Callable[[], bool]], None]) -> str | None:
        """Starts the run, waits for the moment, kills it, and says how far it was; None where it ended before."""
        with self.start(name) as process:
            wait(self.runs / name, lambda: process.poll() is None)
            process.send_signal(signal.SIGKILL)
        if process.returncode != -signal.SIGKILL:
            return None
        return max((path.stem for path in (self.runs / name).glob("checkpoints/update-*.npz")), default="nothing yet")


def after(seconds: float) -> Callable[[Path, Callable[[], bool]], None]:
    """The moment so many seconds after the start, or the end if that is earlier."""

    def wait(run: Path, running: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while running() and time.monotonic() < deadline:
            time.sleep(0.005)

    return wait


def while_writing(number: int) -> Callable[[Path, Callable[[], bool]], None]:
    """The moment in which so many checkpoints of this process are there and another one is being written."""

    def wait(run: Path, running: Callable[[], bool]) -> None:
        seen: set[str] = set()
        while running() and len(seen) < number:
            seen |= {path.name for path in (run / "checkpoints").glob(".*.npz")}  # temporary names

    return wait


def main() -> int:
    """Kills, resumes, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kills_per_run", type=int, default=5, help="the same run is killed so often before it ends")
    parser.add_argument("--kind", choices=KINDS, default="transformer", help="architecture or recipe")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    options = parser.parse_args()
    generator, bad, kills = random.Random(options.seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        runs = Killed(Path(folder), KINDS[options.kind])
        started = time.monotonic()
        unbroken = contents_but_names(runs.finish("unbroken"))
        seconds = time.monotonic() - started
        print(f"a run left alone takes {seconds:.0f} s")
        for number in count():
            name, before = f"killed-{number:03d}", kills
            while kills < min(options.kills, before + options.kills_per_run):
                if kills % 2:
                    moment, what = while_writing(nth := generator.randint(1, 4)), f"writing checkpoint {nth}"
                else:
                    moment, what = after(wait := generator.uniform(0, seconds)), f"after {wait:.1f} s"
                reached = runs.kill(name, moment)
                if reached is None:  # it ended before
                    break
                print(f"{name}: killed {what}, last checkpoint: {reached}", flush=True)
                kills += 1
            found = differing(contents_but_names(runs.finish(name)), unbroken) if kills > before else []
            bad += bool(found)
            if kills > before:
                print(f"{name}: {'DIFFERS: ' + ', '.join(found[:5]) if found else 'ends as the other'}", flush=True)
            if kills == options.kills:
                break
    print(f"{kills} kills; {bad} runs end otherwise")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
