"""Kills a training, an evaluation and an export at every write, gives the same command again, and compares the ends.

    python -m tests.benchmarks.kill_every_write [--what training|evaluation|export] [--every 1] [--kills 8]

Writes are what Python does to files (open, rename, remove, make and remove folders; writing to a file that is in place,
of which half is done too) and what TensorFlow does to event files. A kill leaves what is on the disk at that moment:
this is copied at every write of one run. Copies that `delete_leftovers`, the first act of the next process, makes equal
are continued once. Some writes, evenly spread, are also killed with SIGKILL. Every process is a fork of one that has
only imported TensorFlow.

All must end with the same bytes but for times and the names of event files, and with nothing left over. Exit status 1
if not.
"""

import argparse
import builtins
import contextlib
import hashlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from qkv.runtime.import_tensorflow import importing_tensorflow

os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
with importing_tensorflow():
    import matplotlib.pyplot as plt  # noqa: F401 (here, so that no fork has to)
    import tensorflow as tf

tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # graphs run once or twice


from qkv.commands import evaluate, export, train
from qkv.config.yaml import dump_yaml
from qkv.files.atomic import delete_temporary_files_below
from qkv.files.run_directory import RunDirectory
from qkv.training.callbacks.tensorboard import TensorBoard
from tests.support.failing_files import _File as AskingFile
from tests.support.run_contents import contents, differing
from tests.support.tiny_runs import small_settings, write_small_corpus

CHANGES = {
    "training.max_updates": 2,
    "training.validate_every_updates": 1,
    "training.warmup_updates": 1,
    "training.average_checkpoints": 2,
    "decoding.max_target_extra": 1,
    "decoding.max_target_ratio": 0.0,
    "data.train.alignments": None,
    "data.validation": {"share": 0.02},
    "inspection.probes": [{"source": "Jane visits Africa .", "reference": "Jane visite l'Afrique ."}],
}
COMMANDS = ("training", "evaluation", "export")
OPERATIONS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Writes:
    """Counts the writes of this process under a folder, and does something just before each.

    Args:
        folder: where writes are counted.
        before: what is done; is given the number of the write, from 1.
    """

    def __init__(self, folder: Path, before: Callable[[int], None]) -> None:
        self.folder = str(folder)
        self.before = before
        self.count = 0
        self.active = True
        sys.addaudithook(self._hear)
        opened = io.open

        def open_(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            stream = opened(file, mode, *arguments, **named)
            if not (set(mode) & set("wa") and self._is_final(file)):
                return stream  # what is in a temporary file makes no difference; half of any other one does

            def ask(write_half: Callable[[], Any]) -> None:
                stream.flush()
                size = os.fstat(stream.fileno()).st_size
                self.note(write_half)
                os.ftruncate(stream.fileno(), size)
                stream.seek(size)

            return AskingFile(stream, ask)

        io.open = builtins.open = open_  # type: ignore[assignment]
        for name in ("on_train_begin", "on_train_batch_end", "on_test_end", "on_train_end"):
            self._follow_events(name)

    def note(self, write_half: Callable[[], Any] | None = None) -> None:
        """Counts a write that is about to be done, and once more when half of it is."""
        for halve in (lambda: None, write_half):
            if self.active and halve is not None:
                self.active = False  # what is done in between is not counted
                halve()
                self.count += 1
                self.before(self.count)
                self.active = True

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING and self._is_here(path, None):
                self.note()
        elif event in OPERATIONS:
            folders = [argument for argument in arguments[1:] if isinstance(argument, int)]
            if self._is_here(arguments[0], folders[-1] if event in ("os.remove", "os.rmdir") and folders else None):
                self.note()

    def _is_final(self, path: Any) -> bool:
        return self._is_here(path, None) and not Path(path).name.startswith(".")

    def _is_here(self, path: Any, folder: int | None) -> bool:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str | os.PathLike):
            return False
        if folder is not None and folder >= 0:
            path = Path(f"/proc/self/fd/{folder}").readlink() / path
        return str(path).startswith(self.folder)

    def _follow_events(self, name: str) -> None:
        usual = getattr(TensorBoard, name)

        def followed(callback: TensorBoard, *arguments: Any, **named: Any) -> None:
            self.note()
            usual(callback, *arguments, **named)
            self.note()

        setattr(TensorBoard, name, followed)


def forked(work: Callable[[], int | None]) -> int:
    """Does work in a fork of this process, silently but for errors, and returns its status."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    status = 99
    try:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
        status = work() or 0
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(status)


class Trial:
    """A command that is killed: what it writes, and how it is started.

    Args:
        place: a folder of its own.
        target: the folder in it that the command writes, which is copied.
        command: runs it.
        tidy: what its next process deletes first.
    """

    def __init__(self, place: Path, target: Path, command: Callable[[], int], tidy: Callable[[Path], None]) -> None:
        self.place, self.target, self.command, self.tidy = place, target, command, tidy
        self.before = place / "before"
        if target.exists():
            shutil.copytree(target, self.before)

    def reset(self, state: Path) -> None:
        """Puts a state in place."""
        shutil.rmtree(self.target, ignore_errors=True)
        if state.exists():
            shutil.copytree(state, self.target)

    def run(self, before: Callable[[int], None] | None = None) -> int:
        """Runs the command in a fork, and does something before each write."""

        def work() -> int:
            if before is not None:
                Writes(self.target, before)
            return self.command()

        return forked(work)

    def copy_every_state(self) -> list[Path]:
        """Runs the command once, and copies the folder before each of its writes; the last copy is the end."""

        def copy(number: int) -> None:
            copied = self.place / "states" / f"{number:05d}"
            copied.parent.mkdir(exist_ok=True)
            if self.target.exists():
                shutil.copytree(self.target, copied)
            else:
                (self.place / "states" / f"{number:05d}.none").touch()

        self.reset(self.before)
        assert self.run(copy) == 0
        shutil.copytree(self.target, self.place / "end")
        states = sorted((self.place / "states").iterdir())
        return [path.with_suffix("") for path in states]

    def tidied(self, state: Path) -> str:
        """A digest of a state after the first act of the next process."""
        if not state.exists():
            return ""
        copied = self.place / "tidied"
        shutil.copytree(state, copied)
        self.tidy(copied)
        files = sorted(copied.rglob("*"))
        digest = hashlib.sha256()
        for path in files:
            digest.update(f"{path.relative_to(copied)}\0".encode() + (path.read_bytes() if path.is_file() else b"/"))
        shutil.rmtree(copied)
        return digest.hexdigest()


def check(trial: Trial, what: str, every: int, kills: int) -> int:
    """Copies, continues, compares, and returns how many end otherwise."""
    states = trial.copy_every_state()
    end, bad = contents(trial.place / "end"), 0
    groups: dict[str, list[int]] = {}
    for number, state in enumerate(states):
        groups.setdefault(trial.tidied(state), []).append(number)
    print(f"{what}: {len(states)} writes, {len(groups)} states after tidying up", flush=True)

    def go_on(name: str) -> bool:
        status = trial.run()
        found = contents(trial.target) if trial.target.exists() else {}
        others = differing(found, end)
        if status or others:
            print(f"{what}: {name}: status {status}, DIFFERS: {', '.join(others[:5])}", flush=True)
        return bool(status or others)

    chosen = list(groups.values())[every // 2 :: every]
    for numbers in chosen:
        fullest = max(numbers, key=lambda number: len([*states[number].rglob("*")]))
        trial.reset(states[fullest])
        bad += go_on(f"write {fullest + 1}")
    print(
        f"{what}: {len(chosen)} states continued, for {sum(map(len, chosen))} writes; {bad} end otherwise", flush=True
    )
    for number in sorted({1 + (2 * i + 1) * len(states) // (2 * kills) for i in range(kills)}):
        trial.reset(trial.before)

        def kill(now: int, number: int = number) -> None:
            if now == number:
                os.kill(os.getpid(), signal.SIGKILL)

        assert trial.run(kill) == -signal.SIGKILL
        bad += go_on(f"killed at write {number}")
    print(f"{what}: {kills} killed; {bad} of all end otherwise", flush=True)
    return bad


def tidy_training(root: Path) -> None:
    """What the next training does first."""
    (root / ".lock").unlink(missing_ok=True)
    RunDirectory(root).delete_leftovers()


def training_trial(place: Path) -> Trial:
    """A training of two updates."""
    config = place / "small.yaml"
    config.write_text(dump_yaml(small_settings(write_small_corpus(place / "text"), place / "runs", CHANGES)))
    run = place / "runs" / "small"
    run.parent.mkdir()
    sys.argv = ["train.py"]
    return Trial(place, run, lambda: train.main(["--config", str(config)]), tidy_training)


def evaluation_trial(place: Path, run: Path) -> Trial:
    """An evaluation of four sentences, over an older one."""
    source = place / "mine.en"
    source.write_text("Jane visits Africa .\nthe cat sleeps .\na dog\nJane sleeps .\n")
    command = [str(run), "--source", str(source), "--reference", str(source)]
    evaluations = run / "evaluations"
    assert forked(lambda: evaluate.main(command)) == 0

    def tidy(root: Path) -> None:
        for left in root.glob(".mine.*"):
            delete_temporary_files_below(left)
            left.rename(left.with_name(re.sub(r"\.[0-9]+\.", ".PROCESS.", left.name, count=1)[:60]))

    return Trial(place, evaluations, lambda: evaluate.main(command), tidy)


def export_trial(place: Path, run: Path) -> Trial:
    """An export that is written by Python, so that it can be killed at each of its writes."""
    exports = place / "exports"
    exports.mkdir()
    command = [str(run), str(exports / "ct2"), "--format", "ctranslate2", "--sentences", "2"]
    # Where the folder has appeared already, the command says so.
    return Trial(place, exports, lambda: int(export.main(command) not in (0, 2)), tidy_export)


def tidy_export(root: Path) -> None:
    """What the next export does first: it deletes what an unfinished one has left."""
    (root / ".ct2.qkv-lock").unlink(missing_ok=True)
    for left in root.glob(".ct2.*"):
        shutil.rmtree(left)


@contextlib.contextmanager
def places() -> Iterator[Path]:
    """A folder for all trials."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main(arguments: list[str] | None = None) -> int:
    """Copies, kills, continues, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", choices=COMMANDS, help="only this (default: all)")
    parser.add_argument("--every", type=int, default=1, help="continue every n-th state (default: 1, all)")
    parser.add_argument("--kills", type=int, default=8, help="writes that are also killed with SIGKILL (default: 8)")
    options = parser.parse_args(arguments)
    bad = 0
    with places() as folder:
        (folder / "training").mkdir()
        training = training_trial(folder / "training")
        if options.what in (None, "training"):
            bad += check(training, "training", options.every, options.kills)
        if options.what == "training":
            return 1 if bad else 0
        training.reset(training.before)
        assert training.run() == 0
        for name, make_trial in (("evaluation", evaluation_trial), ("export", export_trial)):
            if options.what in (None, name):
                (folder / name).mkdir()
                bad += check(make_trial(folder / name, training.target), name, options.every, options.kills)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
