"""The faithfulness of all scorers as a picture: a dot with its interval for each, the most comprehensive on top."""

from typing import Any

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...config.names.inspection import SOURCE_SCORERS
from ..heatmap import WEIGHTS
from .faithfulness import MEASURES, Scorer

FONT = 8.0  # points
ROW, WIDTH, LABELS, PANEL = 0.19, 7.6, 1.75, 2.75  # inches
ABOVE, BELOW = 0.75, 0.55  # inches

LEGENDS = {
    "comprehensiveness": "comprehensiveness\nprobability lost without the first tokens (more is better)",
    "sufficiency": "sufficiency\nprobability lost with them alone (less is better)",
}


def faithfulness_figure(table: pd.DataFrame, title: str) -> Figure:
    """Draws the rows of the `faithfulness_table` of one evaluation for the mean over the shares; a dashed line is the
    random order."""
    rows = table[table["removal"] == "mean"].reset_index(drop=True)
    height = ABOVE + BELOW + ROW * max(len(rows), 3)
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    figure.text(0.5, 1 - 0.08 / height, title, ha="center", va="top", fontsize=FONT + 2, parse_math=False)
    for place, measure in enumerate(MEASURES):
        left = (LABELS + place * (PANEL + 0.2)) / WIDTH
        panel = figure.add_axes((left, BELOW / height, PANEL / WIDTH, (height - ABOVE - BELOW) / height))
        _draw(panel, rows, measure)
        names = [str(Scorer(*row)) for row in rows[list(Scorer._fields)].itertuples(index=False)] if not place else []
        panel.set_yticks(range(len(rows)), names or [""] * len(rows), fontsize=FONT)
    return figure


def _draw(panel: Any, rows: pd.DataFrame, measure: str) -> None:
    names = list(SOURCE_SCORERS)
    at_random = rows.loc[rows["scorer"] == "random", measure]
    for value in at_random:
        panel.add_line(Line2D([value, value], [-1, len(rows)], color="0.6", linewidth=0.8, linestyle="--"))
    for place, row in rows.iterrows():
        colour = WEIGHTS(1 - 0.7 * names.index(row["scorer"]) / len(names))
        panel.hlines(place, row[f"{measure}_low"], row[f"{measure}_high"], color=colour, linewidth=1.4)
        panel.plot(row[measure], place, "o", color=colour, markersize=4)
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.set_title(LEGENDS[measure], fontsize=FONT)
    panel.tick_params(labelsize=FONT)
    panel.set_xlabel("mean over the shares, 95 % interval over sentences", fontsize=FONT)
    panel.grid(axis="y", color="0.92", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
