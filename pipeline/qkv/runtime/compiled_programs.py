"""The programs that XLA has compiled, kept in the user's cache folder: the next run starts without compiling them.

TensorFlow reads and writes the files (its persistent compilation cache). It takes the folder from an environment
variable when it looks for devices first, and loads every file of the right name: a damaged file ends the training, and
a program for another processor or GPU may end the process. So this module gives every version of TensorFlow and every
machine a folder, and deletes the files that do not have the digest that was recorded when they were written. While a
program is loaded or made, the folder has the file `unfinished`. If the process ends meanwhile, the file stays, and
later processes keep no programs until it is deleted.

A program is code. It is loaded from the user's cache folder only, never from the folder of a run.
"""

import hashlib
import logging
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import tensorflow as tf
from tensorflow.python.framework import ops  # TensorFlow has no public function that counts names

from ..errors import InputError
from ..files.atomic import write_atomically
from ..files.paths import sha256
from .machine import has_nvidia_device

log = logging.getLogger(__name__)

VARIABLE = "QKV_COMPILED_PROGRAMS"
"""The environment variable that names another folder for the programs, or is `off`: then none are kept."""
LEAST_FREE = 2 << 30  # bytes of the disk: a write that fails would end the training
MOST_BYTES = 2 << 30  # of all programs; the oldest are deleted
NAMES_STEP = 1_000_000  # more names than a training has before it compiles
UNFINISHED = "unfinished"
_folder: Path | None = None  # the folder that TensorFlow uses in this process


def programs_root() -> Path | None:
    """Returns the folder in which the programs of all machines are kept; None if none are to be kept.

    It is the folder in `QKV_COMPILED_PROGRAMS`; otherwise `qkv/programs` in the user's cache folder, which is
    `XDG_CACHE_HOME` or `~/.cache`.
    """
    if chosen := os.environ.get(VARIABLE):
        return None if chosen == "off" else Path(chosen).absolute()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv" / "programs"
    except RuntimeError:  # a user without a home
        return None


def keep_programs(xla: bool | Literal["auto"]) -> None:
    """Has TensorFlow keep the programs that XLA compiles in this process, and load those of earlier processes.

    Call it before TensorFlow looks for devices; afterwards it does nothing. It does nothing either if XLA compiles
    nothing: if `xla`, the setting `training.xla`, is False, or `auto` on a machine without a GPU; if the folder cannot
    be written or has the file `unfinished`, if its disk is nearly full, or if the user has set the folder by
    `TF_XLA_FLAGS`.
    """
    global _folder
    if xla is False or (xla == "auto" and not has_nvidia_device()):
        return
    root = programs_root()
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if root is None or _folder is not None or "tf_xla_persistent_cache" in flags or " " in str(root):
        return  # TensorFlow divides its flags at spaces
    folder = root / _machine()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
            return
        _delete_unusable(folder)
        if not os.access(folder, os.W_OK) or shutil.disk_usage(folder).free < LEAST_FREE:
            return
        if (folder / UNFINISHED).exists():
            log.info(
                "compiled programs are not kept, since another run is loading or making one, or has failed to: delete "
                "%s to try again",
                folder / UNFINISHED,
            )
            return
    except OSError:
        return
    keep = f"--tf_xla_persistent_cache_directory={folder} --tf_xla_persistent_cache_prefix=qkv"
    with _flags(f"{flags} {keep}".strip()):
        tf.config.list_physical_devices()  # TensorFlow reads its flags; processes that this one starts do not get them
    _folder = folder


@contextmanager
def _flags(value: str) -> Iterator[None]:
    """Sets the environment variable `TF_XLA_FLAGS` within the block."""
    before = os.environ.get("TF_XLA_FLAGS")
    os.environ["TF_XLA_FLAGS"] = value
    try:
        yield
    finally:
        os.environ.pop("TF_XLA_FLAGS")
        if before is not None:
            os.environ["TF_XLA_FLAGS"] = before


@contextmanager
def keeping_programs() -> Iterator[None]:
    """Makes the names of functions traced in the block repeatable, and records the programs compiled in the block.

    TensorFlow finds a program by the names of its functions, which have running numbers. A run that continues traces
    other functions before than a run that starts.

    Raises:
        InputError: XLA cannot compile a function, or TensorFlow cannot load or write its program.
    """
    if _folder:
        _align_names()
        _mark_unfinished()
    began = time.monotonic()
    is_usable = True
    try:
        yield
    except tf.errors.ResourceExhaustedError:
        raise
    except tf.errors.OpError as error:
        is_usable = False
        message = " ".join(str(error.message).split())[:300]
        if _folder:
            raise InputError(
                f"XLA cannot compile, keep or load the program of the update ({message}); start the same command "
                f"again: it then compiles and keeps nothing, as with {VARIABLE}=off"
            ) from error
        raise InputError(
            f"XLA cannot compile the update ({message}); expected free memory; train a new run with training.xla false"
        ) from error
    finally:
        if _folder and is_usable:
            with suppress(OSError):
                (_folder / UNFINISHED).unlink(missing_ok=True)
    log.info("XLA has prepared the update in %.0f s", time.monotonic() - began)
    _record()


def _mark_unfinished() -> None:
    """Writes the file `unfinished`, unless the folder can no longer be written."""
    assert _folder
    with suppress(OSError):
        write_atomically(_folder / UNFINISHED, str(os.getpid()).encode())


def _align_names() -> None:
    """Sets TensorFlow's running number of names to a multiple of `NAMES_STEP`, which takes 0.1 s."""
    tf.function(lambda: tf.zeros(()), autograph=False)()  # the first function of a process draws a number more
    while (ops.uid() + 1) % NAMES_STEP:
        pass


def _record() -> None:
    """Records the digest of each program that has none."""
    for program in _programs(_folder) if _folder else []:
        digest = _digest_file(program)
        if not digest.exists():
            with suppress(OSError):
                write_atomically(digest, sha256(program).encode())


def _delete_unusable(folder: Path) -> None:
    """Deletes damaged programs, then the oldest ones if the programs of all machines take more than `MOST_BYTES`."""
    for program in _programs(folder):
        digest = _digest_file(program)
        if not digest.is_file() or digest.read_text(encoding="utf-8", errors="replace") != sha256(program):
            _delete(program)
    total = 0
    for program in sorted(folder.parent.glob("*/qkv__*.pb"), key=lambda path: path.stat().st_mtime, reverse=True):
        total += program.stat().st_size
        if total > MOST_BYTES:
            _delete(program)


def _delete(program: Path) -> None:
    for path in (program, _digest_file(program)):
        path.unlink(missing_ok=True)


def _programs(folder: Path) -> list[Path]:
    return sorted(folder.glob("qkv__*.pb"))


def _digest_file(program: Path) -> Path:
    return program.with_name(f"{program.name}.sha256")


def _machine() -> str:
    """Returns a name for the version of TensorFlow and the machine's processor, GPUs and driver.

    TensorFlow does not compare them when it loads a program.
    """
    variables = [os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "XLA_FLAGS")]
    facts = [tf.__version__, platform.machine(), *variables]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
        facts += [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    driver = Path("/proc/driver/nvidia")
    for file in (driver / "version", *sorted(driver.glob("gpus/*/information"))):
        with suppress(OSError):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            facts += [line for line in lines if line.startswith(("NVRM", "Model"))]
    return f"tensorflow-{tf.__version__}-{hashlib.sha256(chr(10).join(facts).encode()).hexdigest()[:12]}"
