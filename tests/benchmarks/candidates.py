"""Trains the small preset of Multi30k with one change at a time: what might raise its score, R-Drop included.

    python data/multi30k/prepare.py
    python -m tests.benchmarks.candidates [--updates 3000] [--seeds 1 2] [--only NAME ...]

"Translations both ways" also trains on what `data/diversify.py` makes: by the preset of either direction, without
R-Drop, of `TEACHER_UPDATES`. BLEU is that of greedy search on the validation set. Runs and text go to
`runs/candidates/`; the same command goes on with what was stopped. The table goes to `runs/candidates/table.md` and
`.csv`. Two runs at once, a core each: `taskset -c 0` before the command with some of the names, `taskset -c 1` with
others, then once with all.
"""

import subprocess
import sys
from pathlib import Path

from qkv.config.yaml import dump_yaml, read_yaml
from tests.benchmarks.training_runs import ROOT, read_options, train, trained, write_table

RUNS = Path("runs/candidates")
CONFIG = "configs/multi30k_en_de_small.yaml"
SINUSOIDAL = {"model.positions": "sinusoidal"}
CANDIDATES: dict[str, dict[str, object]] = {
    "sinusoidal positions": SINUSOIDAL,
    "rotary positions": {"model.positions": "rotary"},
    "sinusoidal, translations both ways": SINUSOIDAL,
    "rotary, translations both ways": {"model.positions": "rotary"},
}
TEACHER_UPDATES = 7400


def config_of(name: str) -> str:
    """Returns the config of a candidate; its text is made first where that is needed."""
    if "translations" not in name:
        return CONFIG
    values, _ = read_yaml(ROOT / CONFIG)
    text = values["data"]["train"]
    translated = {side: str(RUNS / "text" / Path(text[side]).name) for side in ("source", "target")}
    values["data"]["train"] = [
        text,
        {"source": text["source"], "target": translated["target"]},
        {"source": translated["source"], "target": text["target"]},
    ]
    values["run"] = {"directory": str(RUNS)}
    config = RUNS / "translations.yaml"
    (ROOT / config).parent.mkdir(parents=True, exist_ok=True)
    (ROOT / config).write_text(dump_yaml(values), encoding="utf-8")
    options = {"training.max_updates": TEACHER_UPDATES, "training.r_drop": 0, **SINUSOIDAL}
    command = ["data/diversify.py", config, "--teacher", CONFIG]
    command += [part for key, value in options.items() for part in (f"--{key}", value)]
    if status := subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, check=False).returncode:
        raise SystemExit(status)
    return str(config)


def main() -> None:
    """Trains what is missing, then prints the table."""
    options = read_options(__doc__.splitlines()[0], 3000, CANDIDATES)
    updates, rows = options.updates, []
    for seed in options.seeds:
        for name in options.only:
            settings = {
                "run.seed": seed,
                "training.max_updates": updates,
                "training.warmup_updates": updates // 6,
                "training.validate_every_updates": max(1, updates // 4),
                "training.average_checkpoints": 1,
                **CANDIDATES[name],
            }
            run = RUNS / f"{name.replace(',', '').replace(' ', '_').lower()}-{updates}-seed{seed}"
            rows.append({"candidate": name, "seed": seed, **trained(train(run, config_of(name), settings))})
    write_table(rows, RUNS)


if __name__ == "__main__":
    main()
