"""Trains runs that differ by some settings and puts them side by side: what comparisons of whole trainings share."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]


def read_options(description: str, updates: int, names: Iterable[str]) -> argparse.Namespace:
    """The command line: how many `updates`, which `seeds`, and `only` some of the names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--updates", type=int, default=updates, help=f"of a run (default: {updates})")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="a run of each for each of them (default: 1)")
    parser.add_argument("--only", nargs="+", choices=names, default=list(names), metavar="NAME", help="some of them")
    return parser.parse_args()


def two_layers(updates: int, seed: int) -> dict[str, object]:
    """What makes a short training of `configs/multi30k_en_de_small.yaml`: 2 + 2 layers, without R-Drop."""
    return {
        "run.seed": seed,
        "model.encoder_layers": 2,
        "model.decoder_layers": 2,
        "training.r_drop": 0.0,  # an update takes twice as long
        "training.max_updates": updates,
        "training.warmup_updates": updates // 6,
        "training.validate_every_updates": max(1, updates // 4),
        "training.average_checkpoints": 1,
    }


def train(run: Path, config: str, settings: dict[str, object]) -> Path:
    """Trains a run (its folder is relative to the project's) or goes on with it; the command says what went wrong.

    Every setting that is compared by stands in `settings`, so a run that is there with others is refused, not reused.
    """
    settings = {"run.name": run.name, "run.directory": run.parent, **settings}
    _command("train.py", "--config", config, *(part for key, value in settings.items() for part in (f"--{key}", value)))
    return run


def trained(run: Path) -> dict[str, object]:
    """What a finished run cost, and how it did on its validation set."""
    manifest = json.loads((ROOT / run / "manifest.json").read_text(encoding="utf-8"))
    history = pd.read_csv(ROOT / run / "history.csv")
    return {
        "validation BLEU": manifest["validation"]["bleu"],  # of the weights that were kept, also of a mean
        "validation loss": history["val_loss"].min(),
        "parameters": manifest["parameters"],
        "updates": int(history["update"].iloc[-1]),
        "minutes": history["minutes"].iloc[-1],
    }


def tested(run: Path) -> dict[str, object]:
    """How a finished run does on its test set, which is evaluated unless it has been."""
    if not (ROOT / run / "evaluations/test/metrics.json").is_file():
        _command("evaluate.py", run)
    metrics = json.loads((ROOT / run / "evaluations/test/metrics.json").read_text(encoding="utf-8"))
    return {"test BLEU": metrics["bleu"], "test loss": metrics["loss"], "translation s": metrics["translation_seconds"]}


def write_table(rows: list[dict[str, object]], folder: Path) -> None:
    """Writes `table.csv` and `table.md` to the folder (relative to the project's), and prints the latter."""
    table = pd.DataFrame(rows)
    (ROOT / folder / "table.csv").write_text(table.to_csv(index=False), encoding="utf-8")
    lines = ["| " + " | ".join(table.columns) + " |", "|" + " --- |" * len(table.columns)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in table.itertuples(index=False)]
    text = "\n".join(lines) + "\n"
    (ROOT / folder / "table.md").write_text(text, encoding="utf-8")
    print(text, end="")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}" if value >= 10 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _command(*arguments: object) -> None:
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
