"""The runs by which a text is aligned."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..run.trained_run import TrainedRun, load_run
from .aligned_text import AlignedText
from .aligner import Direction


def load_directions(
    text: AlignedText,
    root: Path,
    reverse: Path | None,
    more: Sequence[Path],
    places: tuple[str | None, str | None],
    normalizes: bool = False,
) -> list[Direction]:
    """Loads runs, each with the text in the direction in which it translates.

    Args:
        text: the text.
        root: the folder of the run from source to target.
        reverse: that of the run from target to source, if there is one.
        more: those of further runs, whose languages say which they are.
        places: where links are read in the runs of either direction, see `Direction.of`.
        normalizes: whether the text is a person's, see `Direction.of`.

    Raises:
        InputError: there is no run, it has no such layer or head, or a further run is of other languages.
    """
    first = load_run(root)
    runs = [(first, False)]
    if reverse is not None:
        runs.append((load_run(reverse), True))
    runs += [(run, _is_reverse(run, first)) for run in map(load_run, more)]
    if places[1] and not any(turned for _, turned in runs):
        raise InputError(
            "--reverse_at needs a run from target to source, whose layer and head it names; give REVERSE_RUN, or leave "
            "--reverse_at out"
        )
    return [Direction.of(run, text, places[turned], turned, normalizes) for run, turned in runs]


def _is_reverse(run: TrainedRun, first: TrainedRun) -> bool:
    """Returns whether a run translates back what the first run translates."""
    known, found = ((data.source_language, data.target_language) for data in (first.config.data, run.config.data))
    if found not in (known, known[::-1]):
        raise InputError(
            f"{run.directory.root}: expected a run from {known[0]} to {known[1]} or back, as "
            f"{first.directory.root} is, found one from {found[0]} to {found[1]}"
        )
    return found != known
