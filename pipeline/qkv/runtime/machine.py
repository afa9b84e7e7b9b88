"""The machine, as the system describes it: memory, cores, GPUs of NVIDIA, processes. It loads no TensorFlow."""

import ctypes
import importlib.util
import math
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def total_memory() -> int | None:
    """Returns the memory of the machine, in bytes, where the system tells it."""
    if not hasattr(os, "sysconf"):  # Windows
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_memory() -> int | None:
    """Returns the peak memory use of this process so far, in bytes, where the system tells it."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# glibc's <malloc.h>
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Makes glibc keep freed memory for the next step instead of returning it to the system. Elsewhere nothing is done.

    A step allocates and frees some gigabytes in arrays of megabytes. By default each array is mapped anew, and every
    page of it faults once: up to 250,000 faults a second were measured on a virtual machine, which took half of the
    processor's time. The price is that the process never shrinks.
    """
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another library of C
            mallopt = ctypes.CDLL(None).mallopt
            for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**28)):
                mallopt(option, value)


CORE_GROUPS = 2  # groups of cores that compute a slice of an update each


def usable_cores() -> int:
    """Returns the number of processor cores that this process may use, by its affinity and its container's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cpu_quota(groups: Path = GROUPS, own_groups: Path = OWN_GROUPS) -> float | None:
    """Returns how many cores' time Linux' control groups allow this process, or None for no limit.

    `docker run --cpus 2` and a limit of Kubernetes set such a quota. A process with more threads than that is stopped
    for a part of each tenth of a second, in the middle of things. Of nested groups the lowest quota holds.

    Args:
        groups: where the control groups are mounted, of version 1 or 2.
        own_groups: names this process's groups.
    """
    with suppress(OSError):
        lines = own_groups.read_text(encoding="utf-8", errors="replace").splitlines()
        return min(filter(None, (_quota(folder) for line in lines for folder in _folders(line, groups))), default=None)
    return None  # not on Linux


def _folders(line: str, groups: Path) -> Iterator[Path]:
    """Yields the folders of a group of this process and of those around it."""
    _, controllers, name = (line.split(":", 2) + ["", ""])[:3]
    if controllers and "cpu" not in controllers.split(","):
        return
    root = groups / controllers if (groups / controllers).is_dir() else groups / "cpu"
    own = root / name.lstrip("/")  # within a container it may be a name that only the host has
    yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(root))


def _quota(folder: Path) -> float | None:
    """Returns the quota of a group in cores."""
    with suppress(OSError, ValueError, ZeroDivisionError):  # without a limit: "max", -1, or no such file
        if (folder / "cpu.max").is_file():
            quota, period = map(int, (folder / "cpu.max").read_text().split())
        else:
            quota, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return quota / period if quota > 0 else None
    return None


DEVICES = "/dev"
DRIVER = "/proc/driver/nvidia/gpus"
WINDOWS_GPU, WINDOWS_LIBRARY = "/dev/dxg", "/usr/lib/wsl/lib/libcuda.so.1"  # within the Linux of Windows
LIBRARIES = "nvidia", "nvidia.cudnn"  # of the extra [gpu], as Python packages, the outer one first
EXPLAIN_COMMAND = 'TF_CPP_MIN_LOG_LEVEL=0 python -c "import tensorflow as tf; tf.config.list_physical_devices()"'
INSTALL = 'python -m pip install ".[gpu]"'


def has_nvidia_device() -> bool:
    """Returns whether this process could use a GPU of NVIDIA: there is a device, and CUDA_VISIBLE_DEVICES does not hide
    it. A program such as nvidia-smi proves nothing: images of containers have it without a device."""
    return _has_device() and not _is_hidden()


def why_unseen() -> str | None:
    """Returns what to do where TensorFlow does not see an NVIDIA GPU; None where there is none, or it is hidden."""
    if _is_hidden():
        return None
    if _has_device():
        if not all(map(importlib.util.find_spec, LIBRARIES)):
            return f"CUDA's libraries are missing: {INSTALL}"
        return f"CUDA's libraries or the driver do not fit; TensorFlow says why: {EXPLAIN_COMMAND}"
    if Path(DRIVER).is_dir() and any(Path(DRIVER).iterdir()):
        return "this container was not given it: start it with --gpus all (Docker) or --nv (Apptainer)"
    if sys.platform == "win32" and shutil.which("nvidia-smi"):
        return "TensorFlow uses it within WSL2 only: https://learn.microsoft.com/windows/wsl/install"
    return None


def _has_device() -> bool:
    numbered = Path(DEVICES).glob("nvidia[0-9]*")
    return any(numbered) or (Path(WINDOWS_GPU).exists() and Path(WINDOWS_LIBRARY).exists())


def _is_hidden() -> bool:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "all").split(",")[0].strip() in ("", "-1", "NoDevFiles")


SYNCHRONIZE = 0x00100000  # the right to wait for a process, of <winnt.h>


def is_running(process: int) -> bool:
    """Returns whether there is a process of that number on this machine."""
    if sys.platform == "win32":  # where os.kill would end it
        handle = ctypes.windll.kernel32.OpenProcess(SYNCHRONIZE, False, process)
        return bool(handle and ctypes.windll.kernel32.CloseHandle(handle))
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # somebody else's
    return True
