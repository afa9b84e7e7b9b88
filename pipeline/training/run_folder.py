"""The folder of a run while it is trained."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ..run_directory import RunDirectory
from .checkpoint_folder import Checkpoints


@contextmanager
def open_run_folder(root: Path, resume: Path | None, writes: bool) -> Iterator[RunDirectory]:
    """Opens the folder of a run for the time of its training.

    Args:
        root: where a new run goes. If it fails before its first checkpoint, its folder is deleted.
        resume: the run to continue, or None for a new one.
        writes: whether this worker writes the run. Other workers get a temporary folder if the run is new.

    Raises:
        InputError: the run exists already, or does not exist, or another process trains it.
    """
    if resume:
        run = RunDirectory.open(resume)
        with run.locked() if writes else nullcontext():
            if writes:
                run.delete_leftovers()
            yield run
    elif writes:
        run = RunDirectory.create(root)
        with run.locked():
            run.check_unused()  # another process may have trained it in between
            run.delete_leftovers()
            try:
                yield run
            except BaseException:
                if not Checkpoints(run.checkpoints).all():
                    run.delete()  # or the corrected command would be refused, since the run exists
                raise
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield RunDirectory(Path(folder))


def delete_records(run: RunDirectory) -> None:
    """Deletes the files that callbacks wrote in a training that was killed before its first checkpoint."""
    run.history.unlink(missing_ok=True)
    for folder in (run.tensorboard, run.probes):
        shutil.rmtree(folder, ignore_errors=True)
