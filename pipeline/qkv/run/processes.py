"""Spreads the work of a finished run over processes of this machine, each of which loads the run for itself.

A process is sent a part that a single one computes by itself too, so that results are the same, bit for bit.

Nothing here imports TensorFlow until a process works: it is imported quietly, with the settings of the first process.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from ..errors import LostWorkerError
from ..runtime.import_tensorflow import importing_tensorflow
from ..runtime.parallel import in_processes
from ..runtime.plugin_files import load_plugins, loaded_plugins

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class RunParts:
    """The parts from which a process loads a run, or several as an ensemble; and the processes that share its work.

    Args:
        roots: the folders of the runs.
        checkpoint: see `load_run`.
        config: the settings of the first run, with those that options have replaced.
        workers: the number of processes.
        ban: the file of phrases that no translation contains, or None.
        requires: whether phrases are required.
        plugins: the files that are loaded first.
    """

    roots: tuple[Path, ...]
    checkpoint: str
    config: Any
    workers: int = 1
    ban: Path | None = None
    requires: bool = False
    plugins: tuple[Path, ...] = field(default_factory=loaded_plugins)

    @cached_property
    def run(self) -> Any:
        """The run, loaded when it is first asked for."""
        load_plugins(list(self.plugins))
        with importing_tensorflow():
            from ..text.phrases.banned import read_banned
            from .ensemble import load_runs

        run = load_runs(self.roots, self.checkpoint).with_config(self.config)
        banned = read_banned(self.ban, run.target_tokens, leads_out=self.requires) if self.ban else None
        return replace(run, banned=banned)

    def translate(self, items: Iterable[tuple[Any, ...]]) -> Iterator[list[list[Any]]]:
        """Yields what `Translator.translate_ids` returns for each of the arguments."""
        return map_in_processes(self._translate, items, self.workers)

    def _translate(self, item: tuple[Any, ...]) -> list[list[Any]]:
        return self.run.translator.translate_ids(*item)

    def record(self, windows: Iterable[Sequence[Any]], recorder: Any, sites: Sequence[str]) -> Iterator[Any]:
        """Yields the records of pairs, a window at a time, as a recorder of the run makes them."""
        function = partial(self._record, recorder.sites, recorder.units, tuple(sites))
        return chain.from_iterable(map_in_processes(function, windows, self.workers))

    def _record(self, recorded: tuple[str, ...], units: Any, sites: tuple[str, ...], pairs: Sequence[Any]) -> list[Any]:
        return list(self.run.recorder(recorded, units).record(pairs, sites))


def map_in_processes(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Computes `map(function, items)` in processes, in order, each result as soon as it and those before it are there.

    Raises:
        LostWorkerError: a process was killed.
    """
    try:
        yield from in_processes(function, items, workers)
    except BrokenProcessPool:
        raise LostWorkerError(
            f"one of the {workers} processes of --workers was killed, perhaps for want of memory; give fewer"
        ) from None
