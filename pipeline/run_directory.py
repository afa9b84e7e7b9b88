"""Every path of a run, named once, and the way files are written: whole or not at all."""

import fcntl
import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from pipeline.errors import InputError


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Gives a temporary path beside `path`, with the same suffix, that takes its place when the block ends well.

    A crash at any moment leaves either the old file or the new one, never a part.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    with replaced_when_done(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON, whole or not at all."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class RunDirectory:
    """The folder of one run and where everything in it is.

    Args:
        root: the folder, `runs/NAME`.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.config = self.root / "config.yaml"
        self.manifest = self.root / "manifest.json"
        self.tokenizer = self.root / "tokenizer" / "sentencepiece.model"
        self.preparation = self.root / ".preparation.json"  # while the text is being prepared
        self.corpus_report = self.root / "corpus_report.json"
        self.encoded = self.root / "encoded"
        self.checkpoints = self.root / "checkpoints"
        self.model = self.root / "model.keras"
        self.history = self.root / "history.csv"
        self.tensorboard = self.root / "tensorboard"
        self.probes = self.root / "probes"
        self._lock = self.root / ".lock"

    def evaluation(self, name: str) -> "EvaluationDirectory":
        """The folder of the evaluation on the set of that name."""
        return EvaluationDirectory(self.root / "evaluations" / name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training the run. The system gives the lock back when the process ends, however.

        Raises:
            InputError: another process has it.
        """
        file = self._lock_file()
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            yield
        finally:
            self._lock.unlink(missing_ok=True)
            file.close()

    def _lock_file(self) -> TextIO:
        while True:
            file = self._lock.open("a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read() or "another process"
                file.close()
                raise InputError(
                    f"{self.root}: {holder} trains this run at the moment; wait for it, or stop it"
                ) from None
            try:
                if os.fstat(file.fileno()).st_ino == self._lock.stat().st_ino:
                    return file
            except FileNotFoundError:
                pass
            file.close()  # its holder removed it between the two steps

    @classmethod
    def create(cls, root: Path) -> "RunDirectory":
        """Makes the folder of a new run.

        Raises:
            InputError: something is there already.
        """
        run = cls(root)
        try:
            run.root.mkdir(parents=True)
        except FileExistsError:
            raise InputError(
                f"{run.root}: the run exists already. Go on with it: python train.py --resume {run.root}; "
                "start another one: --run.name NAME; or delete the folder"
            ) from None
        except OSError as error:
            raise InputError(f"{run.root}: the run's folder cannot be made: {error.strerror}") from None
        return run

    @classmethod
    def open(cls, root: Path) -> "RunDirectory":
        """Finds the folder of a run that was started before.

        Raises:
            InputError: it is not there, or is not a run.
        """
        run = cls(root)
        if not run.root.is_dir():
            raise InputError(f"{run.root}: no such run; expected the folder that train.py made, such as runs/demo")
        if not run.config.is_file():
            raise InputError(f"{run.root}: not a run, it has no config.yaml; expected a folder that train.py made")
        return run


class EvaluationDirectory:
    """The folder of one evaluation and where everything in it is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.metrics = root / "metrics.json"
        self.translations = root / "translations.tsv"
        self.heads = root / "heads.csv"
        self.sentences = root / "sentences.csv"
        self.spectra = root / "spectra.csv"
        self.perturbation = root / "perturbation.csv"
        self.head_alignment = root / "head_alignment.csv"
        self.alignments = root / "alignments.pharaoh"
        self.heatmaps = root / "heatmaps"
        self.viewer = root / "viewer.html"
        self.attention = root / "attention"
        self.parts = root / "parts"  # while it is being evaluated
