"""The live page: a person types a sentence, sees where attention went, changes it, and sees what that does.

In a notebook: `from qkv.live import live`, then `live("runs/demo")`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from .server import ServedPage

MOST_RUNS = 4
"""The number of models that may answer side by side."""


def live(
    *runs: str | Path, checkpoint: str = "best", port: int = 0, allow_hosts: Sequence[str] = (), height: int = 900
) -> "ServedPage":
    """Serves the page of runs from a notebook or a program; as the last value of a cell it is shown there.

    Args:
        runs: folders of trained runs, which answer side by side.
        checkpoint: their weights: `best`, `last`, or `both` of them side by side.
        port: 0 for any that is free.
        allow_hosts: further names of the page, such as a proxy's that passes requests on.
        height: of the page in the cell, in pixels.

    Returns:
        The page, served until its `close()` or the end of the process; its `address` opens it in a browser.

    Raises:
        InputError: a run cannot be loaded, there are too many, or the port is taken.
    """
    from .server import load_live_runs, serve  # not at the top: it imports TensorFlow

    chosen = choose_models(list(map(Path, runs)), checkpoint)
    return serve(load_live_runs(chosen), port=port, allow_hosts=allow_hosts, height=height)


def choose_models(roots: Sequence[Path], checkpoint: str) -> list[tuple[Path, str]]:
    """Returns the folder and the checkpoint of each model that answers, `best`, `last` or `both` of every run.

    Raises:
        InputError: there is no model, or there are too many.
    """
    weights = ("best", "last") if checkpoint == "both" else (checkpoint,)
    chosen = [(root, one) for root in roots for one in weights]
    if not 1 <= len(chosen) <= MOST_RUNS:
        raise InputError(f"runs: expected 1 to {MOST_RUNS} side by side, found {len(chosen)}")
    return chosen
