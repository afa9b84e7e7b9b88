"""The folder of a run while it is trained."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import LostWorkerError
from ..files.run_directory import RunDirectory
from .checkpoint_folder import Checkpoints

ROUNDS, ROUND_SECONDS = 10, 0.5


@contextmanager
def open_run_folder(
    root: Path, resume: Path | None, writes: bool, wait: Callable[[], None] = lambda: None
) -> Iterator[RunDirectory]:
    """Opens the folder of a run for the time of its training.

    Args:
        root: where a new run goes. If it fails before its first checkpoint, its folder is deleted, unless it failed
            for the loss of another worker: then the same command goes on with the text that is prepared.
        resume: the run to continue, or None for a new one.
        writes: whether this worker writes the run. Other workers read it, and where they do not see it, they get a
            temporary folder.
        wait: waits until the text is prepared, for a worker that writes nothing.

    Raises:
        InputError: the run exists already, or does not exist, or another process trains it, or parts of it are links.
    """
    if not writes:
        wait()
        run = RunDirectory(resume or root)
        if _appears(run.corpus_report):
            yield run
            return
        with tempfile.TemporaryDirectory() as folder:
            yield RunDirectory(Path(folder))
    elif resume:
        run = RunDirectory.open(resume)
        with run.locked():
            run.check_writable()
            run.delete_leftovers()
            yield run
    else:
        run = RunDirectory.create(root)
        with run.locked():
            run.check_unused()  # another process may have trained it in between
            run.delete_leftovers()
            try:
                yield run
            except BaseException as error:
                if not (isinstance(error, LostWorkerError) or Checkpoints(run.checkpoints).all()):
                    run.delete()  # or the corrected command would be refused, since the run exists
                raise


def _appears(path: Path) -> bool:
    """Returns whether a file is there, or comes within seconds: what another machine has written on a shared folder
    may be seen late."""
    for _ in range(ROUNDS):
        if path.is_file():
            return True
        time.sleep(ROUND_SECONDS)
    return path.is_file()


def delete_records(run: RunDirectory) -> None:
    """Deletes the files that callbacks wrote in a training that was killed before its first checkpoint."""
    run.history.unlink(missing_ok=True)
    for folder in (run.tensorboard, run.probes):
        shutil.rmtree(folder, ignore_errors=True)
