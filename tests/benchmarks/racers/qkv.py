"""qkv with its preset of Multi30k and a learning rate that ends with the time, by the commands of the README."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas as pd

from tests.benchmarks.racers.clock import Clock
from tests.benchmarks.racers.run import ROOT, read_lines

PACKAGES = ("qkv", "tensorflow", "keras")
BEAM = 5
CONFIG = "configs/multi30k_en_de_small.yaml"
AROUND_MINUTES = 0.25  # imports, the vocabulary, and the mean of checkpoints at the end, which qkv's clock leaves out
SPEED = 0.94  # of the first updates' that is counted on, since `clock` fixes the number of updates by their speed
SETTINGS = {
    "training.schedule": "clock",
    "training.max_updates": "null",
    "training.validate_every_updates": "null",  # ten validations, which are part of the minutes
    "training.keep_checkpoints": 10,
    "training.r_drop": 0.0,  # an update would take twice as long
}
FILES = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
FINAL = "final"


def command(clock: Clock, text: Path) -> list[str]:
    """The command that trains."""
    around = min(AROUND_MINUTES, clock.minutes / 4)
    settings = {
        "run.name": "run",
        "run.directory": clock.folder.resolve(),
        **SETTINGS,
        "training.max_minutes": round(SPEED * (clock.minutes - clock.gone() - around), 3),
    }
    for name, file in FILES.items():
        settings |= {f"data.{name}.source": text / f"{file}.en", f"data.{name}.target": text / f"{file}.de"}
    return [
        "train.py",
        "--config",
        CONFIG,
        *(str(part) for key, value in settings.items() for part in (f"--{key}", value)),
    ]


def train(clock: Clock, text: Path) -> int:
    """Trains by `train.py`; the checkpoints are those of its validations, and the final model."""
    subprocess.run([sys.executable, *command(clock, text)], cwd=ROOT, check=True)
    run, gone = clock.folder / "run", clock.gone()
    tokenizer = _load(run).tokenizer
    epoch_tokens = sum(len(ids) + 1 for ids in tokenizer.encode(read_lines(text / "train.de")))
    history = pd.read_csv(run / "history.csv")
    tokens_per_update = epoch_tokens / _updates_per_epoch(run)
    for update in map(int, history["update"]):
        path = _checkpoint(run, str(update))
        minutes = (path.stat().st_mtime - clock.started) / 60
        clock.record(str(update), minutes, update, update * tokens_per_update)
    clock.updates = int(history["update"].iloc[-1])
    clock.target_tokens = clock.updates * tokens_per_update
    clock.record(FINAL, gone, clock.updates, clock.target_tokens)
    return _load(run).model.count_params()


def translate(checkpoint: Path, sentences: list[str], beam: int) -> list[str]:
    """Translates with the length penalty of the preset, in float32."""
    from qkv.training.checkpoints import load_checkpoint

    run = _load(checkpoint.parents[1] / "run")
    if checkpoint.name != FINAL:
        load_checkpoint(_checkpoint(run.directory.root, checkpoint.name), run.model)
    decoding = run.config.decoding.model_copy(update={"beam_size": beam})
    run = run.with_config(run.config.model_copy(update={"decoding": decoding}))
    return [translation.text for translation in run.translator.translate(sentences)]


def _load(root: Path):
    from qkv.runtime.import_tensorflow import importing_tensorflow

    with importing_tensorflow():  # not at the top: training has a process of its own
        from qkv.run.trained_run import load_run
    return load_run(root)


@cache
def _updates_per_epoch(run: Path) -> float:
    from qkv.files.arrays import ArrayFile
    from qkv.training.progress import Progress

    newest = sorted((run / "checkpoints").glob("update-*.npz"))[-1]
    with ArrayFile(newest) as archive:
        progress = Progress.parse(str(archive.read("progress", "U", ())))
    return (progress.update - progress.batch) / progress.epoch if progress.epoch else float("nan")


def _checkpoint(run: Path, name: str) -> Path:
    return run / f"checkpoints/update-{int(name):08d}.npz"
