"""Trains the Multi30k preset without the matrices of values, or of queries and keys, and puts the runs side by side.

    python data/multi30k/prepare.py
    python -m tests.benchmarks.values [--updates 1600] [--seeds 1 2] [--only NAME ...]

Each setting is changed at all three sites. All else is the preset's, its schedule shortened to these updates. Runs go
to `runs/values/`; the same command goes on with what was stopped. The table goes to `runs/values/table.md` and `.csv`.
"""

from pathlib import Path

from tests.benchmarks.training_runs import read_options, tested, train, trained, write_table

RUNS = Path("runs/values")
PRESET = "configs/multi30k_en_de_small.yaml"
SITES = ("encoder_self", "decoder_self", "cross")
VARIANTS = {
    "preset": (),
    "without value_projection": ("value_projection",),
    "without projection": ("projection",),
    "without both": ("projection", "value_projection"),
}


def main() -> None:
    """Trains what is missing, then prints the table."""
    options = read_options(__doc__.splitlines()[0], 1600, VARIANTS)
    rows = []
    for seed in options.seeds:
        for name in options.only:
            settings: dict[str, object] = {
                "run.seed": seed,
                "training.warmup_updates": options.updates // 10,
                "training.max_updates": options.updates,
                "training.validate_every_updates": max(1, options.updates // 4),
            }
            settings |= {f"model.attention.{site}.{key}": "false" for site in SITES for key in VARIANTS[name]}
            run = train(RUNS / f"{name.replace(' ', '_')}-{options.updates}-seed{seed}", PRESET, settings)
            rows.append({"model": name, "seed": seed, **tested(run), **trained(run)})
    write_table(rows, RUNS)


if __name__ == "__main__":
    main()
