"""Keeps commands from overwriting or deleting files that qkv did not write. The rules of all commands:

- An output file that the user names is replaced if it exists. The command refuses it if it also reads the file
  (`refuse_input`), or if the file is read-only (`files.paths.check_file_to_write`).
- An output file whose name the command chooses is replaced only if qkv wrote it. This is known from a list of files, or
  from a mark in the file (`digest_of_folders`).
- When a folder is cleaned, only the files in its list are deleted. Folders of runs and of evaluations have a list.

A list is the file `.written` in a folder. After a heading line, each line has the path of a file, as a JSON string,
relative to the folder. A path is added before its file is written, so that the file can be deleted even if the process
is killed while it writes.
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
"""The name of the file with the list."""
_HEADING = b"# The files that qkv wrote in this folder. It deletes no others.\n"
EVENT_FILES = "events.out.tfevents.*"
"""The pattern of the names of TensorBoard's event files."""
_LISTED_EVENTS = re.compile(r"events\.out\.tfevents\.\*\.[0-9a-f]{16}\.v2")  # as `add_events` lists an event file
_LARGEST_LIST_BYTES = 1 << 26  # a list of a million files has fewer


class FileList:
    """The list of the files that qkv wrote in a folder.

    Args:
        folder: the folder.

    Attributes:
        folder: the folder.
        path: the file with the list.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / LIST
        self._known: set[str] = set()  # paths that this process has added, so that it does not read the list again

    def exists(self) -> bool:
        """Returns whether the folder has a list."""
        if not self.path.is_file() or self.path.is_symlink():
            return False
        with self.path.open("rb") as file:
            return file.read(len(_HEADING)) in (_HEADING, b"")  # empty after the machine has crashed

    def names(self) -> set[str]:
        """Returns the paths in the list, relative to the folder.

        Damaged lines, and paths that lead out of the folder, are skipped.
        """
        if not self.exists() or self.path.stat().st_size > _LARGEST_LIST_BYTES:
            return set()
        names = set()
        for line in self.path.read_bytes().split(b"\n"):
            with suppress(ValueError, RecursionError):
                name = json.loads(line)
                if isinstance(name, str) and name and ".." not in PurePosixPath(name).parts and name[0] != "/":
                    names.add(name)
        return names

    def holds(self, path: Path) -> bool:
        """Returns whether a file of the folder is in the list."""
        return next(self._listed([path]), None) is not None

    def _listed(self, paths: Iterable[Path]) -> Iterator[Path]:
        """Yields each of `paths`, which are in the folder, that is in the list or matches a pattern of `add_events`."""
        names = self.names()
        patterns = [name for name in names if _LISTED_EVENTS.fullmatch(PurePosixPath(name).name)]
        for path in paths:
            name = path.relative_to(self.folder).as_posix()
            if name in names or any(fnmatchcase(name, pattern) for pattern in patterns):
                yield path

    def add(self, *paths: Path) -> None:
        """Adds files of the folder to the list. The files need not exist yet.

        Raises:
            InputError: the path of the list is a link, a folder, or a file that is not a list.
        """
        names = {path.relative_to(self.folder).as_posix() for path in paths} - self._known
        if not names:
            return
        if os.path.lexists(self.path) and not self.exists():
            raise InputError(
                f"{self.path}: expected the list of the files that qkv wrote here, found something else; move it away"
            )
        names -= self.names()
        if names:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 1))
                is_cut = size and file.read() != b"\n"  # a killed process has written a part of its last line
                lines = "".join(f"{json.dumps(name)}\n" for name in sorted(names)).encode()
                file.write((b"\n" if is_cut else b"" if size else _HEADING) + lines)
                file.flush()
                os.fsync(file.fileno())
        self._known |= names

    def write(self, paths: Iterable[Path]) -> None:
        """Writes a new list with these files of the folder, in place of an existing list.

        Call it only in a folder that no other process uses yet.
        """
        names = sorted(path.relative_to(self.folder).as_posix() for path in paths)
        self.path.write_bytes(_HEADING + "".join(f"{json.dumps(name)}\n" for name in names).encode())

    def add_events(self, folder: Path) -> str:
        """Adds the event file that TensorFlow is about to write.

        TensorFlow chooses the beginning of the file's name. Therefore the list gets a pattern that ends in a random
        suffix.

        Args:
            folder: the folder of the event file: the folder of the list, or a subfolder.

        Returns:
            The suffix. Pass it to TensorFlow as the end of the file's name.
        """
        suffix = f".{secrets.token_hex(8)}.v2"
        self.add(folder / f"{EVENT_FILES}{suffix}")
        return suffix

    def delete(self, *folders: Path) -> None:
        """Deletes the files that are in the list, then the folders and subfolders that are empty. Other files stay.

        Symbolic links are not followed. The list itself and its folder stay.

        Args:
            folders: the folders in which files are deleted, subfolders included; by default the folder of the list.
        """
        for folder in folders or (self.folder,):
            if folder.is_symlink() or not folder.is_dir():
                continue
            walked = []
            for parent, _, names in os.walk(folder):
                walked.append(Path(parent))
                for path in list(self._listed(Path(parent, name) for name in names)):
                    path.unlink(missing_ok=True)
            for inner in reversed(walked):
                if inner != self.folder:
                    delete_if_empty(inner)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Adds to the list every file that the block writes by `files.atomic` in the folder or its subfolders."""
        _recording.append(self)
        try:
            yield
        finally:
            _recording.remove(self)


def delete_if_empty(folder: Path) -> None:
    """Deletes a folder if it is empty."""
    if not any(folder.iterdir()):
        folder.rmdir()


_recording: list[FileList] = []  # the lists whose `recording` block is active


def note_written(path: Path) -> None:
    """Adds a file that is about to be written to every list whose `FileList.recording` block is active."""
    for file_list in _recording:
        folder = file_list.folder.absolute()
        if path.absolute().is_relative_to(folder):
            file_list.add(file_list.folder / path.absolute().relative_to(folder))


def refuse_input(output: Path, inputs: Iterable[Path], option: str) -> None:
    """Raises an `InputError` if the output file of a command is also an input of it.

    Args:
        output: the output file that the user names.
        inputs: the files that the command reads, and folders from which it reads files.
        option: the option that names the output file, for the message.

    Raises:
        InputError: the output file exists, and is an input or lies in an input folder.
    """
    if not output.is_file():
        return
    resolved_output = output.resolve()
    for path in inputs:
        resolved_input = path.resolve()
        if resolved_input == resolved_output or resolved_input in resolved_output.parents:
            raise InputError(f"{option} {output}: the command reads this file; choose another name")


_ORIGIN_MARK = re.compile(rb'qkv-origin(?:" content="|\0)([0-9a-f]{16})')  # in a PNG, any bytes may follow
ORIGIN = "qkv-origin"
"""The name of the metadata field of a page or a picture that holds a `digest_of_folders`."""


def digest_of_folders(folders: Sequence[Path]) -> str:
    """Returns a digest of the paths of the folders whose data a page or a picture shows: 16 hexadecimal digits.

    The digest is written into the page or picture, so that the same command may replace the file later. It does not
    reveal the names of the folders to other readers of the file.
    """
    names = json.dumps([str(folder.resolve()) for folder in folders])
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def refuse_other_file(path: Path, origin: str, expected: str) -> None:
    """Raises an `InputError` if an output file whose name the command chose exists and was not written by this command.

    Args:
        path: the output file.
        origin: the digest that is to be written into the file, see `digest_of_folders`. An existing file with the same
            digest may be replaced.
        expected: a noun phrase for the output, for the message, such as "a page of these evaluations".

    Raises:
        InputError: the file exists and does not have this digest.
    """
    if not os.path.lexists(path):
        return
    mark = None
    if path.is_file() and not path.is_symlink():
        with path.open("rb") as file:
            mark = _ORIGIN_MARK.search(file.read(4096))
    if mark is None or mark[1].decode() != origin:
        raise InputError(
            f"{path}: already there, and not {expected}; choose another name with --output, or move it away"
        )
