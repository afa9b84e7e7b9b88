"""The live page: it translates sentences that the user types, shows the attention, and lets the user change it.

In a notebook: `from qkv.live import live`, then `live("runs/demo")`.

The modules, in reading order:

- `question`: the requests of the page, read from JSON
- `live_run`: a run that answers questions
- `page`: the HTML of the page, from the viewer and the panel
- `access`: the check that a request may be answered
- `application`: the web application
- `batching`: calls of several threads that are computed together
- `direction`: a run as a translator of whole texts
- `service`: the interface of LibreTranslate, for other programs
- `server`: the server, and the page that it serves
- `model_page`: a page with the model inside, which needs no server
- `explained_numbers`: the numbers of the next page that take the test set
- `explain_page`: another page with the model inside, which explains queries, keys and values

Scripts in JavaScript are in `panel/` (the panel of the page), `engine/` (the model of both pages with one inside) and
`explained/` (the sections of `explain_page`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from .server import ServedPage

__all__ = ["live"]

MOST_RUNS = 4
"""The largest number of models on a page."""


def live(
    *runs: str | Path, checkpoint: str = "best", port: int = 0, allow_hosts: Sequence[str] = (), height: int = 900
) -> "ServedPage":
    """Serves the live page of runs from a notebook or a program.

    If the result is the last value of a notebook cell, the notebook shows the page.

    Args:
        runs: the folders of trained runs, which are shown side by side.
        checkpoint: the weights of the runs: `best`, `last`, or `both` side by side.
        port: the port; 0 for any free port.
        allow_hosts: further host names of the page, such as that of a proxy.
        height: the height of the page in a notebook, in pixels.

    Returns:
        The page, served until its `close()` is called or the process ends. Open its `address` in a browser.

    Raises:
        InputError: a run cannot be loaded, there is no model, there are more than `MOST_RUNS` models, or the port is
            taken.
    """
    from .server import load_live_runs, serve  # not at the top: it imports TensorFlow

    models = choose_models(list(map(Path, runs)), checkpoint)
    return serve(load_live_runs(models), port=port, allow_hosts=allow_hosts, height=height)


def choose_models(roots: Sequence[Path], checkpoint: str) -> list[tuple[Path, str]]:
    """Returns the models of a page, as pairs of a run's folder and a checkpoint, `best` or `last`.

    Args:
        roots: the folders of the runs.
        checkpoint: the checkpoint of every run; `both` stands for `best` and `last`.

    Raises:
        InputError: there is no model, or there are more than `MOST_RUNS` models.
    """
    checkpoints = ("best", "last") if checkpoint == "both" else (checkpoint,)
    models = [(root, name) for root in roots for name in checkpoints]
    if not 1 <= len(models) <= MOST_RUNS:
        raise InputError(f"runs: expected 1 to {MOST_RUNS} models side by side, found {len(models)}")
    return models
