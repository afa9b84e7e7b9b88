"""Time and memory of an update against width, length, batch and vocabulary, ours and plain Keras', as a picture.

    python -m tests.benchmarks.scaling [--turns 3] [--output tests/benchmarks/scaling.png]

Each size is varied alone, from the sizes of `training_step.py`; both are float32 and take turns in processes of their
own. Memory is the process's peak, of which TensorFlow alone takes half a gigabyte.
"""

import argparse
import os
from pathlib import Path

import matplotlib as mpl

from tests.benchmarks.contest import hold, machine, table

BASE = {"width": 128, "heads": 4, "hidden": 256, "layers": 4, "vocabulary": 8000, "sentences": 200, "length": 20}
VARIED = {
    "width": (64, 128, 256, 512),
    "length": (10, 20, 40, 80),
    "sentences": (50, 100, 200, 400),
    "vocabulary": (2000, 8000, 32000),
}
CONTESTANTS = {"qkv": "training_qkv", "plain Keras": "training_keras"}


def measure(turns: int, threads: int) -> list[dict[str, float | str]]:
    """A row for each contestant and size."""
    rows: list[dict[str, float | str]] = []
    for varied, values in VARIED.items():
        for value in values:
            settings = {**BASE, "dropout": 0.1, "precision": "float32", "threads": threads, varied: value}
            settings["hidden"] = 2 * settings["width"]
            contestants = hold([(name, module, settings) for name, module in CONTESTANTS.items()], turns, threads)
            rows += [
                {
                    "varied": varied,
                    "value": value,
                    "name": one.name,
                    "seconds": one.median("seconds"),
                    "megabytes": one.median("peak_megabytes"),
                }
                for one in contestants
            ]
    return rows


def draw(rows: list[dict[str, float | str]], path: Path) -> None:
    """Time above, memory below, a column for each size."""
    mpl.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    figure, axes = pyplot.subplots(2, len(VARIED), figsize=(12, 5.5), sharey="row", layout="constrained")
    for column, varied in enumerate(VARIED):
        for line, key in enumerate(("seconds", "megabytes")):
            axis = axes[line, column]
            for name, style in zip(CONTESTANTS, ("o-", "s--"), strict=True):
                chosen = [row for row in rows if row["varied"] == varied and row["name"] == name]
                axis.loglog([row["value"] for row in chosen], [row[key] for row in chosen], style, label=name)
            axis.grid(alpha=0.3, which="both")
            axis.set_xticks(VARIED[varied], [str(value) for value in VARIED[varied]])
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            axis.minorticks_off()
        axes[1, column].set_xlabel({"sentences": "sentences of a batch"}.get(varied, varied))
    axes[0, 0].set_ylabel("seconds an update")
    axes[1, 0].set_ylabel("peak memory, MB")
    axes[0, 0].legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measures, prints, draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3, help="timed updates of each (default: 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="(default: all cores)")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).with_suffix(".png"), help="(default: beside this)"
    )
    options = parser.parse_args()
    rows = measure(options.turns, options.threads)
    cells = [
        [f"{row['varied']} {row['value']}", str(row["name"]), f"{row['seconds']:.3f}", f"{row['megabytes']:,.0f}"]
        for row in rows
    ]
    print(table(["", "", "seconds", "peak memory, MB"], cells))
    print(f"\n{machine()}; medians of {options.turns}")
    draw(rows, options.output)


if __name__ == "__main__":
    main()
