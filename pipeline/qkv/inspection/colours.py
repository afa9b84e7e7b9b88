"""Every colour of page, pictures, TensorBoard and lessons."""

from typing import Any

from matplotlib import colormaps

from ..config.names.inspection import SOURCE_SCORERS

COLOURS = "magma_r"  # perceptually uniform; light to dark for every kind of colour vision, and in print


def _colour(scorer: str) -> Any:
    names = list(SOURCE_SCORERS)
    return colormaps[COLOURS](0.25 + 0.7 * (1 - names.index(scorer) / len(names)))
