"""Distributes the work of a finished run over processes of this machine. Each process loads the run.

The work is a sequence of items, and each item is computed by one process. So the results are equal, bit for bit, for
any number of processes.

Importing this module does not import TensorFlow. A process imports it when it loads the run.
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
    """The parts from which a process loads a run, or several runs as an ensemble, and the number of processes.

    Args:
        roots: the folders of the runs.
        checkpoint: `best` or `last`, see `run.trained_run.load_run`.
        config: the settings of the first run, changed by the options of the command.
        processes: the number of processes that share the work.
        ban: the file of banned phrases; None if no phrases are banned.
        requires: True if translations also have required phrases. It matters only for banned phrases.
        plugins: the files of the plugins, which are loaded before the run; by default the plugins of this process.
    """

    roots: tuple[Path, ...]
    checkpoint: str
    config: Any
    processes: int = 1
    ban: Path | None = None
    requires: bool = False
    plugins: tuple[Path, ...] = field(default_factory=loaded_plugins)

    @cached_property
    def run(self) -> Any:
        """The `TrainedRun`, loaded at its first use in a process.

        Raises:
            InputError: the runs, the settings or the banned phrases cannot be loaded.
        """
        load_plugins(list(self.plugins))
        with importing_tensorflow():
            from ..text.phrases.banned import read_banned
            from .ensemble import load_runs

        run = load_runs(self.roots, self.checkpoint).with_config(self.config)
        banned = read_banned(self.ban, run.target_tokens, leads_out=self.requires) if self.ban else None
        return replace(run, banned=banned)

    def map(self, function: Callable[[Any, Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Computes `function(run, item)` for each item in the processes, and yields the results in order.

        Args:
            function: a function of the `TrainedRun` and an item. With several processes, it can be pickled, and so can
                the items and the results.
            items: the items. They are read before their results are needed, so that all processes are busy.

        Raises:
            InputError: see `run`.
            LostWorkerError: a process was killed.
        """
        return map_in_processes(partial(self._apply, function), items, self.processes)

    def _apply(self, function: Callable[[Any, Item], Result], item: Item) -> Result:
        """Returns `function(run, item)`; called in each process."""
        return function(self.run, item)

    def translate(self, items: Iterable[tuple[Any, ...]]) -> Iterator[list[list[Any]]]:
        """Translates items in the processes, and yields their results in order. The errors are those of `map`.

        Args:
            items: tuples of arguments of `decoding.translator.Translator.translate_ids`.

        Yields:
            The result of `translate_ids` for each tuple: the n-best lists of its sentences.
        """
        return self.map(_translate, items)

    def record(self, windows: Iterable[Sequence[Any]], recorder: Any, sites: Sequence[str]) -> Iterator[Any]:
        """Records pairs in the processes, a window at a time, and yields a `Record` of each pair in order.

        Args:
            windows: sequences of `ForcedPair`.
            recorder: an `AttentionRecorder` of the run. Each process makes one with the same sites and units.
            sites: the sites to record, some or all of the recorder's sites.

        Raises:
            LostWorkerError: a process was killed.
        """
        function = partial(_record, recorder_sites=recorder.sites, units=recorder.units, sites=tuple(sites))
        return chain.from_iterable(self.map(function, windows))


def _translate(run: Any, arguments: tuple[Any, ...]) -> list[list[Any]]:
    """Returns the result of `Translator.translate_ids` of a `TrainedRun` for a tuple of its arguments."""
    return run.translator.translate_ids(*arguments)


def _record(
    run: Any, pairs: Sequence[Any], *, recorder_sites: tuple[str, ...], units: Any, sites: tuple[str, ...]
) -> list[Any]:
    """Returns the records of pairs; see `RunParts.record`."""
    return list(run.recorder(recorder_sites, units).record(pairs, sites))


def map_in_processes(function: Callable[[Item], Result], items: Iterable[Item], processes: int) -> Iterator[Result]:
    """Computes `map(function, items)` in processes, and yields the results in order, each as soon as possible.

    Args:
        function: a function of an item.
        items: the items. They are read before their results are needed.
        processes: the number of processes. With 1, no process is started. With more, the function, the items and the
            results can be pickled.

    Raises:
        LostWorkerError: a process was killed.
    """
    try:
        yield from in_processes(function, items, processes)
    except BrokenProcessPool:
        raise LostWorkerError(
            f"one of the {processes} processes of --workers was killed, perhaps because memory ran out; start again "
            "and give fewer"
        ) from None
