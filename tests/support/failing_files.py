"""Files that fail on purpose: the n-th time that something is written under a folder, in one of several ways."""

import builtins
import errno
import io
import os
import shutil
from contextlib import contextmanager

KINDS = ("no space", "cut short", "killed")


class Killed(BaseException):
    """The process is gone: from here on it does nothing to any file, not even tidy up."""


class _File:
    """A file that asks before it writes."""

    def __init__(self, file, ask):
        self._file = file
        self._ask = ask

    def write(self, data):
        self._ask(lambda: self._file.write(data[: len(data) // 2]) and self._file.flush())
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        return self._file.__exit__(*error)

    def __iter__(self):
        return iter(self._file)


@contextmanager
def failing(folder, number, kind):
    """Within the block, the `number`-th write, flush to disk, renaming or removal under the folder, from 1, fails.

    Yields a list that is empty as long as nothing has failed.

    Kinds: `no space` writes nothing, `cut short` writes half and says that the disk is full, `killed` writes half and
    raises `Killed`, and whatever is done to files after that does not happen.
    """
    count, failed = 0, []
    usual = {"open": io.open, "fsync": os.fsync, "unlink": os.unlink, "remove": os.remove, "rmdir": os.rmdir}
    usual |= {"rename": os.rename, "replace": os.replace}

    def ask(write_half=lambda: None):
        nonlocal count
        if failed and kind == "killed":
            raise Killed
        count += 1
        if count != number:
            return
        failed.append(count)
        if kind != "no space":
            write_half()
        raise Killed if kind == "killed" else OSError(errno.ENOSPC, "No space left on device", str(folder))

    def is_here(path):
        return isinstance(path, str | os.PathLike) and str(path).startswith(str(folder))

    def open_(path, mode="r", *arguments, **named):
        if not is_here(path) or not set(mode) & set("wax+"):
            return usual["open"](path, mode, *arguments, **named)
        if failed and kind == "killed":
            raise Killed
        return _File(usual["open"](path, mode, *arguments, **named), ask)

    def asking(name):
        def function(path, *arguments, **named):
            if isinstance(path, int) or is_here(path):
                ask()
            return usual[name](path, *arguments, **named)

        return function

    patched = [(io, "open", open_), (builtins, "open", open_)]
    patched += [(os, name, asking(name)) for name in usual if name != "open"]
    for module, name, function in patched:
        setattr(module, name, function)
    try:
        yield failed
    finally:
        for module, name, _ in patched:
            setattr(module, name, usual[name])


def every_failure(folder, prepare, action):
    """Does something again and again, each time failing one step later, until it goes through; for every kind.

    Args:
        folder: a folder that does not exist; every try has it anew.
        prepare: makes what is there before, in the folder.
        action: what is done with it.

    Yields:
        The folder after each failure, for a look at what is left of it.
    """
    for kind in KINDS:
        number = 0
        while True:
            number += 1
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            prepare(folder)
            with failing(folder, number, kind) as failed:
                try:
                    action(folder)
                except (OSError, Killed):
                    assert failed, "failed by itself"
            if not failed:
                break
            yield folder
        assert number > 3, "nothing was written"
