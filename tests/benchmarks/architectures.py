"""Trains and evaluates architectures and score functions on the same batches of Multi30k, and puts them side by side.

    python data/multi30k/prepare.py
    python tests/benchmarks/architectures.py [--updates 1000] [--seeds 1 2] [--only NAME ...]

All share data, tokenizer, batches, optimiser, schedule (up over a fifth of the updates, then down to zero) and search;
sizes, dropout and learning rate are those of each config. The minutes say what a model costs. Runs go to
`runs/architectures/`; one that is there is not trained again, one that was stopped goes on. The table goes to
`runs/architectures/table.md` and `.csv`.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
RUNS = Path("runs/architectures")
RECURRENT = "configs/multi30k_en_de_recurrent.yaml"
DECODER_ONLY = "configs/multi30k_en_de_decoder_only.yaml"
TRANSFORMER = "configs/multi30k_en_de.yaml"
# As the others train, so that what differs is the architecture.
AS_OTHERS = {
    "training.optimizer": "adam",
    "training.average_checkpoints": 1,
    "training.warmup_updates": 1000,
    "batches.batch_tokens": 3072,
    "model.dropout": 0.2,
    "decoding.length_penalty": 1.0,
}
VARIANTS = {
    "recurrent, one context vector": (RECURRENT, {"model.cross_attention": "none"}),
    "recurrent, additive": (RECURRENT, {}),
    "decoder-only": (DECODER_ONLY, {}),
    "Transformer, scaled dot": (TRANSFORMER, AS_OTHERS),
    "Transformer, dot": (TRANSFORMER, {**AS_OTHERS, "model.attention.cross.score": "dot"}),
    "Transformer, additive": (TRANSFORMER, {**AS_OTHERS, "model.attention.cross.score": "additive"}),
    "Transformer, cosine": (TRANSFORMER, {**AS_OTHERS, "model.attention.cross.score": "cosine"}),
}


def command(*arguments: object) -> None:
    """Runs one of the project's commands, which says itself what went wrong."""
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def train(name: str, config: str, settings: dict[str, object]) -> Path:
    """Trains a run, or goes on with it, unless it is finished."""
    run = RUNS / name
    if (ROOT / run / "model.keras").is_file():
        print(f"{run} is trained already")
    elif list((ROOT / run).glob("checkpoints/update-*.npz")):
        command("train.py", "--resume", run)
    else:
        settings = {"run.name": name, "run.directory": RUNS, **settings}
        command(
            "train.py", "--config", config, *(part for key, value in settings.items() for part in (f"--{key}", value))
        )
    return run


def measure(run: Path) -> dict[str, object]:
    """Evaluates a run on its test set and reads what is compared."""
    if not (ROOT / run / "evaluations/test/metrics.json").is_file():
        command("evaluate.py", run)
    metrics = json.loads((ROOT / run / "evaluations/test/metrics.json").read_text(encoding="utf-8"))
    manifest = json.loads((ROOT / run / "manifest.json").read_text(encoding="utf-8"))
    history = pd.read_csv(ROOT / run / "history.csv")
    return {
        "test BLEU": metrics["bleu"],
        "test loss": metrics["loss"],
        "validation BLEU": history["val_bleu"].max(),
        "parameters": manifest["parameters"],
        "updates": int(history["update"].iloc[-1]),
        "minutes": history["minutes"].iloc[-1],
        "translation s": metrics["translation_seconds"],
    }


def main() -> None:
    """Trains what is missing, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=1000, help="of each run (default: 1000)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="a run of each variant for each (default: 1)")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME", help="variants")
    options = parser.parse_args()
    rows = []
    for seed in options.seeds:
        for name in options.only:
            config, changes = VARIANTS[name]
            settings: dict[str, object] = {
                "run.seed": seed,
                "batches.batch_tokens": 3072,
                "training.schedule": "linear",
                "training.warmup_updates": options.updates // 5,
                "training.max_updates": options.updates,
                "training.max_minutes": "null",
                "training.validate_every_updates": max(1, options.updates // 4),
                **changes,
            }
            folder = f"{name.replace(', ', '-').replace(' ', '_').lower()}-{options.updates}-seed{seed}"
            rows.append({"model": name, "seed": seed, **measure(train(folder, config, settings))})
    table = pd.DataFrame(rows)
    (ROOT / RUNS / "table.csv").write_text(table.to_csv(index=False), encoding="utf-8")
    lines = ["| " + " | ".join(table.columns) + " |", "|" + " --- |" * len(table.columns)]
    for row in table.itertuples(index=False):
        cells = [
            f"{cell:.2f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell for cell in row
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    text = "\n".join(lines) + "\n"
    (ROOT / RUNS / "table.md").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
