"""An evaluation is there whole or not at all: it is written beside its place and then moved there."""

import glob
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.run_directory import EvaluationDirectory

log = logging.getLogger(__name__)


@contextmanager
def evaluation_folder(final: EvaluationDirectory, fingerprint: str) -> Iterator[EvaluationDirectory]:
    """A folder that takes the place of `final` when everything in it is written; until then the old one stays.

    What processes of this machine left behind that were killed goes first, with two exceptions. If one was killed
    between moving the old evaluation away and the new one there, the one that is complete takes the place. And one of
    the same fingerprint, which was killed or interrupted on its way, is gone on with.
    """
    final.root.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{final.root.name}.{socket.gethostname()}."
    own = f"{prefix}{os.getpid()}."
    working = final.root.parent / f"{own}{fingerprint}"
    for leftover in final.root.parent.glob(f"{glob.escape(prefix)}*"):
        if _is_running(leftover.name.removeprefix(prefix).split(".")[0]):
            continue
        if not final.root.exists() and EvaluationDirectory(leftover).metrics.is_file():  # which is written last
            leftover.replace(final.root)
        elif leftover.name.endswith(f".{fingerprint}") and (leftover == working or not working.exists()):
            leftover.replace(working)
        else:
            shutil.rmtree(leftover, ignore_errors=True)
    try:
        working.mkdir(exist_ok=True)
        working.chmod(0o755)
        yield EvaluationDirectory(working)
        if final.root.exists():
            old = Path(tempfile.mkdtemp(prefix=own, dir=final.root.parent))
            final.root.replace(old)
            working.replace(final.root)
            shutil.rmtree(old)
        else:
            working.replace(final.root)
    except Exception:
        shutil.rmtree(working, ignore_errors=True)
        raise
    except KeyboardInterrupt:
        log.info("\n%s: the same command goes on from here", final.root)
        raise


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass  # somebody else's
    return True
