"""A plot of the faithfulness of all scorers: a dot and its interval for each scorer, the most comprehensive on top."""

from typing import Any

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...config.choices.inspection import SOURCE_SCORERS
from ..heatmap import WEIGHTS
from .faithfulness import FAITHFULNESS_MEASURES, Scorer

FONT_POINTS = 8.0  # points

# Inches.
PLOT_WIDTH = 7.6
LABELS = 1.75  # the width of the scorers' names
PANEL_WIDTH = 2.75  # the width of a panel
GAP = 0.2  # between the panels
ROW = 0.19  # the height of a scorer
ABOVE = 0.75
BELOW = 0.55

LEGENDS = {
    "comprehensiveness": "comprehensiveness\nprobability lost without the first tokens (more is better)",
    "sufficiency": "sufficiency\nprobability lost with them alone (less is better)",
}


def faithfulness_figure(table: pd.DataFrame, title: str) -> Figure:
    """Draws the scorers of a `faithfulness_table` of one evaluation, for the removal `mean`.

    There is a panel for comprehensiveness and one for sufficiency. A dashed line marks the value of random scores.
    """
    rows = table[table["removal"] == "mean"].reset_index(drop=True)
    height = ABOVE + BELOW + ROW * max(len(rows), 3)
    figure = Figure(figsize=(PLOT_WIDTH, height))
    FigureCanvasAgg(figure)
    figure.text(0.5, 1 - 0.08 / height, title, ha="center", va="top", fontsize=FONT_POINTS + 2, parse_math=False)
    scorers = [str(Scorer(*row)) for row in rows[list(Scorer._fields)].itertuples(index=False)]
    for number, measure in enumerate(FAITHFULNESS_MEASURES):
        left = (LABELS + number * (PANEL_WIDTH + GAP)) / PLOT_WIDTH
        panel = figure.add_axes((left, BELOW / height, PANEL_WIDTH / PLOT_WIDTH, (height - ABOVE - BELOW) / height))
        _draw(panel, rows, measure)
        labels = scorers if number == 0 else [""] * len(rows)
        panel.set_yticks(range(len(rows)), labels, fontsize=FONT_POINTS)
    return figure


def _draw(panel: Any, rows: pd.DataFrame, measure: str) -> None:
    """Draws a measure of all rows into a panel; the first row is on top."""
    names = list(SOURCE_SCORERS)
    random_values = rows.loc[rows["scorer"] == "random", measure]
    for value in random_values:
        panel.add_line(Line2D([value, value], [-1, len(rows)], color="0.6", linewidth=0.8, linestyle="--"))
    for height, row in rows.iterrows():
        colour = WEIGHTS(1 - 0.7 * names.index(row["scorer"]) / len(names))
        panel.hlines(height, row[f"{measure}_low"], row[f"{measure}_high"], color=colour, linewidth=1.4)
        panel.plot(row[measure], height, "o", color=colour, markersize=4)
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.set_title(LEGENDS[measure], fontsize=FONT_POINTS)
    panel.tick_params(labelsize=FONT_POINTS)
    panel.set_xlabel("mean over the shares, 95 % interval over sentences", fontsize=FONT_POINTS)
    panel.grid(axis="y", color="0.92", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
