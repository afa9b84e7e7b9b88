"""The rules for other people's files, which all commands keep, and the lists of the files that this program wrote.

- A file that the user names as output is replaced, as other programs do. It is refused if the command reads it
  (`refuse_input`), or if it is read-only (`paths.check_file_to_write`).
- A file that the command names itself is only replaced if this program wrote it. A list says so, or a mark in the file
  (`origin_of`).
- A folder is only cleaned of the files that its list names. The folder of a run and that of an evaluation have a list.

A list is the file `.written` of a folder: after a heading, the path of a file on each line, as a JSON string, relative
to the folder. A name is written into the list before its file is, so that a file that a killed process left can be
deleted.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from ..errors import InputError

LIST = ".written"
_HEADING = b"# The files that qkv wrote in this folder. It deletes no others.\n"
EVENT_FILES = "events.out.tfevents.*"
"""The names of TensorBoard's files."""
_OUR_EVENTS = re.compile(r"events\.out\.tfevents\.\*\.[0-9a-f]{16}\.v2")
_LARGEST = 1 << 26  # bytes; a list of a million files has fewer


class FileList:
    """The list of the files that this program wrote in a folder.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / LIST
        self._known: set[str] = set()

    def exists(self) -> bool:
        """Returns whether the folder has a list."""
        if not self.path.is_file() or self.path.is_symlink():
            return False
        with self.path.open("rb") as file:
            return file.read(len(_HEADING)) in (_HEADING, b"")  # empty after the machine has crashed

    def names(self) -> set[str]:
        """Returns the paths in the list, relative to the folder; lines that are damaged or lead out of it are left
        out."""
        if not self.exists() or self.path.stat().st_size > _LARGEST:
            return set()
        names = set()
        for line in self.path.read_bytes().split(b"\n"):
            with suppress(ValueError, RecursionError):
                name = json.loads(line)
                if isinstance(name, str) and name and ".." not in PurePosixPath(name).parts and name[0] != "/":
                    names.add(name)
        return names

    def holds(self, path: Path) -> bool:
        """Returns whether the list names a file of the folder."""
        return next(self._listed([path]), None) is not None

    def _listed(self, paths: Iterable[Path]) -> Iterator[Path]:
        names = self.names()
        patterns = [name for name in names if _OUR_EVENTS.fullmatch(PurePosixPath(name).name)]
        for path in paths:
            name = path.relative_to(self.folder).as_posix()
            if name in names or any(fnmatchcase(name, pattern) for pattern in patterns):
                yield path

    def add(self, *paths: Path) -> None:
        """Adds files of the folder, which need not exist yet.

        Raises:
            InputError: a link, a folder or another file is in the place of the list.
        """
        names = {path.relative_to(self.folder).as_posix() for path in paths} - self._known
        if not names:
            return
        if os.path.lexists(self.path) and not self.exists():
            raise InputError(
                f"{self.path}: expected the list of the files that were written here, found none; move it away"
            )
        names -= self.names()
        if names:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 1))
                is_cut = size and file.read() != b"\n"  # by a kill
                lines = "".join(f"{json.dumps(name)}\n" for name in sorted(names)).encode()
                file.write((b"\n" if is_cut else b"" if size else _HEADING) + lines)
                file.flush()
                os.fsync(file.fileno())
        self._known |= names

    def write(self, paths: Iterable[Path]) -> None:
        """Writes the list of files that are there already, in a folder that nobody else sees yet."""
        names = sorted(path.relative_to(self.folder).as_posix() for path in paths)
        self.path.write_bytes(_HEADING + "".join(f"{json.dumps(name)}\n" for name in names).encode())

    def add_events(self, folder: Path) -> str:
        """Adds the event file that TensorFlow is about to write in a folder, and returns the end of its name: the rest
        of the name is TensorFlow's own."""
        suffix = f".{secrets.token_hex(8)}.v2"
        self.add(folder / f"{EVENT_FILES}{suffix}")
        return suffix

    def delete(self, *below: Path) -> None:
        """Deletes the listed files of the folder, or those below some of its folders, and the folders that are empty
        then. Other files stay, and so does what a link leads to."""
        for folder in below or (self.folder,):
            if folder.is_symlink() or not folder.is_dir():
                continue
            folders = []
            for parent, _, names in os.walk(folder):
                folders.append(Path(parent))
                for path in list(self._listed(Path(parent, name) for name in names)):
                    path.unlink(missing_ok=True)
            for inner in reversed(folders):
                if inner != self.folder:
                    delete_if_empty(inner)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Adds every file that `atomic` writes below the folder within the block."""
        _recording.append(self)
        try:
            yield
        finally:
            _recording.remove(self)


def delete_if_empty(folder: Path) -> None:
    """Deletes a folder, unless there is something in it."""
    if not any(folder.iterdir()):
        folder.rmdir()


_recording: list[FileList] = []


def note_written(path: Path) -> None:
    """Adds a file that is about to be written to the lists that are recording."""
    for files in _recording:
        if path.absolute().is_relative_to(folder := files.folder.absolute()):
            files.add(files.folder / path.absolute().relative_to(folder))


def refuse_input(output: Path, inputs: Iterable[Path], option: str) -> None:
    """Refuses an output file that a command reads.

    Args:
        output: the file that the user names.
        inputs: the files that the command reads, and the folders whose files it reads.
        option: the option that names the output, for the message.

    Raises:
        InputError: the output is one of the inputs.
    """
    if not output.is_file():
        return
    resolved = output.resolve()
    for path in inputs:
        if (read := path.resolve()) == resolved or read in resolved.parents:
            raise InputError(f"{option} {output}: the command reads this file; choose another name")


_MARK = re.compile(rb'qkv-origin(?:" content="|\0)([0-9a-f]{16})\b')
ORIGIN = "qkv-origin"
"""The name of the mark of a page or a picture."""


def origin_of(folders: Sequence[Path]) -> str:
    """Returns a digest of the folders that a page or a picture shows, for its mark: it may be sent to others, so it
    does not name them."""
    names = json.dumps([str(folder.resolve()) for folder in folders])
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def refuse_other_file(path: Path, origin: str, shown: str) -> None:
    """Refuses to replace anything but a page or a picture of the same origin, by a name that the command chose.

    Args:
        path: the file to write.
        origin: of what is to be written, see `origin_of`.
        shown: what it shows, for the message: "a page of these evaluations".

    Raises:
        InputError: another file is there.
    """
    if not os.path.lexists(path):
        return
    mark = None
    if path.is_file() and not path.is_symlink():
        with path.open("rb") as file:
            mark = _MARK.search(file.read(4096))
    if mark is None or mark[1].decode() != origin:
        raise InputError(f"{path}: already there, and not {shown}; choose another name with --output, or move it away")
