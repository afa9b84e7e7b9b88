"""The picture of a race: BLEU against minutes, a line for each racer with its name at its end.

python -m tests.benchmarks.race_picture     # the pictures that the pages show, again from the curves beside them
"""

from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import pandas as pd

CURVES = {  # minutes of each race that the pages show: its `curve.csv`, kept beside its picture
    12: Path(__file__).with_name("race.csv"),
    30: Path(__file__).with_name("race_30_minutes.csv"),
}
STYLES = ("o-", "s-", "^-", "D-", "v--", "P--", "X:", "*:")
LEAST_DISTANCE = 1 / 22  # of names above each other, as a share of the height


def apart(heights: list[float], distance: float) -> list[float]:
    """Moves heights up until each is at least `distance` above the one below."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    moved = list(heights)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + distance)
    return moved


def draw(curve: pd.DataFrame, path: Path) -> None:
    """Draws the curves.

    Args:
        curve: a row for each checkpoint with `racer`, `minutes` and `validation BLEU`.
        path: of the picture; its suffix is its format.
    """
    mpl.use("Agg")
    from matplotlib import pyplot

    lines = dict(iter(curve.groupby("racer", sort=False)))
    ends = {name: points["validation BLEU"].iloc[-1] for name, points in lines.items()}
    figure, axis = pyplot.subplots(figsize=(9, 5), layout="constrained")
    top, last = max(curve["validation BLEU"].max() * 1.08, 1), curve["minutes"].max()
    heights = dict(zip(ends, apart(list(ends.values()), top * LEAST_DISTANCE), strict=True))
    for number, (name, points) in enumerate(lines.items()):
        style, color = STYLES[number % len(STYLES)], f"C{number}"
        width = 2.5 if name == "qkv" else 1.3
        axis.plot(points["minutes"], points["validation BLEU"], style, color=color, linewidth=width, markersize=5)
        axis.annotate(
            f"{name}, {ends[name]:.1f}",
            (points["minutes"].iloc[-1], ends[name]),
            (last * 1.03, heights[name]),
            color=color,
            va="center",
            weight="bold" if name == "qkv" else "normal",
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6},
        )
    axis.set_xlim(0, last * 1.5)
    axis.set_ylim(0, max(top, *heights.values()))
    axis.set_xlabel("minutes since the start, on two cores")
    axis.set_ylabel("BLEU on the validation set, greedy search")
    axis.set_title("Training a translator from English to German on 29,000 pairs, from nothing")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Draws the pictures of the pages without racing."""
    for curves in CURVES.values():
        draw(pd.read_csv(curves), curves.with_suffix(".png"))


if __name__ == "__main__":
    main()
