"""Describes the machine: memory, processor cores, NVIDIA GPUs and processes. It does not import TensorFlow."""

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
    """Returns the memory of the machine in bytes; None on Windows."""
    if not hasattr(os, "sysconf"):  # Windows
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_memory() -> int | None:
    """Returns the peak memory use of this process so far in bytes; None on Windows."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# glibc's <malloc.h>
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Makes glibc reuse freed memory instead of returning it to the system. Does nothing on systems without glibc.

    A training step allocates and frees gigabytes in arrays of megabytes. By default each array is mapped again, and
    each of its pages causes a page fault. On a virtual machine up to 250,000 faults a second were measured, which took
    half of the processor's time. In return, the memory of the process never shrinks.
    """
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # a C library other than glibc
            mallopt = ctypes.CDLL(None).mallopt
            for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**28)):
                mallopt(option, value)


CORE_GROUPS = 2  # the number of groups of cores, each of which computes a slice of an update


def usable_cores() -> int:
    """Returns the number of processor cores that this process may use, at least 1.

    It is limited by the CPU affinity of the process and, rounded up, by `cpu_quota`.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


CONTROL_GROUPS = Path("/sys/fs/cgroup")
GROUPS_OF_PROCESS = Path("/proc/self/cgroup")


def cpu_quota(control_groups: Path = CONTROL_GROUPS, groups_of_process: Path = GROUPS_OF_PROCESS) -> float | None:
    """Returns the CPU quota of this process by Linux control groups, in cores; None if there is no limit.

    `docker run --cpus 2` and a CPU limit of Kubernetes set such a quota. Linux stops a process with more threads than
    its quota for a part of each tenth of a second. If groups are nested, the lowest quota counts.

    Args:
        control_groups: the folder where the control groups are mounted, of version 1 or 2.
        groups_of_process: the file with the names of the control groups of this process.
    """
    with suppress(OSError):
        lines = groups_of_process.read_text(encoding="utf-8", errors="replace").splitlines()
        quotas = [_quota(folder) for line in lines for folder in _group_folders(line, control_groups)]
        return min(filter(None, quotas), default=None)
    return None  # not on Linux


def _group_folders(line: str, control_groups: Path) -> Iterator[Path]:
    """Yields the folder of a control group of this process, then the folders of the groups that contain it.

    Args:
        line: a line `NUMBER:CONTROLLERS:NAME` of the file with the groups of this process.
        control_groups: the folder where the control groups are mounted.
    """
    _, controllers, name = (line.split(":", 2) + ["", ""])[:3]
    if controllers and "cpu" not in controllers.split(","):
        return
    root = control_groups / controllers if (control_groups / controllers).is_dir() else control_groups / "cpu"
    group = root / name.lstrip("/")  # within a container, it may be a name that only the host has
    yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(root))


def _quota(folder: Path) -> float | None:
    """Returns the CPU quota of a control group in cores, from the files in its folder; None if there is no limit."""
    with suppress(OSError, ValueError, ZeroDivisionError):  # without a limit: "max", -1, or no such file
        if (folder / "cpu.max").is_file():  # version 2
            quota, period = map(int, (folder / "cpu.max").read_text().split())
        else:
            quota = int((folder / "cpu.cfs_quota_us").read_text())
            period = int((folder / "cpu.cfs_period_us").read_text())
        return quota / period if quota > 0 else None
    return None


DEVICES = "/dev"
DRIVER = "/proc/driver/nvidia/gpus"
WINDOWS_GPU, WINDOWS_LIBRARY = "/dev/dxg", "/usr/lib/wsl/lib/libcuda.so.1"  # in WSL2, the Linux within Windows
LIBRARIES = "nvidia", "nvidia.cudnn"  # Python packages of the extra [gpu]; the parent package comes first
EXPLAIN_COMMAND = 'TF_CPP_MIN_LOG_LEVEL=0 python -c "import tensorflow as tf; tf.config.list_physical_devices()"'
INSTALL = 'python -m pip install ".[gpu]"'


def has_nvidia_device() -> bool:
    """Returns whether this process could use an NVIDIA GPU.

    It could if there is a device and the variable CUDA_VISIBLE_DEVICES does not hide it. Programs such as nvidia-smi
    are not considered, because images of containers may have them without a GPU.
    """
    return _has_device() and not _is_hidden()


def why_unseen() -> str | None:
    """Returns a clause that says why TensorFlow does not see an NVIDIA GPU of the machine, and how to fix it.

    Call it if TensorFlow does not see a GPU. Returns None if there is no such GPU, or if the variable
    CUDA_VISIBLE_DEVICES hides it on purpose.
    """
    if _is_hidden():
        return None
    if _has_device():
        if not all(map(importlib.util.find_spec, LIBRARIES)):
            return f"CUDA's libraries are missing: {INSTALL}"
        return f"CUDA's libraries or the driver do not fit; TensorFlow says why: {EXPLAIN_COMMAND}"
    if Path(DRIVER).is_dir() and any(Path(DRIVER).iterdir()):
        return "this container has no access to it: start it with --gpus all (Docker) or --nv (Apptainer)"
    if sys.platform == "win32" and shutil.which("nvidia-smi"):
        return "TensorFlow uses it within WSL2 only: https://learn.microsoft.com/windows/wsl/install"
    return None


def _has_device() -> bool:
    """Returns whether the system has the device file of an NVIDIA GPU, on Linux or in WSL2."""
    device_files = Path(DEVICES).glob("nvidia[0-9]*")
    return any(device_files) or (Path(WINDOWS_GPU).exists() and Path(WINDOWS_LIBRARY).exists())


def _is_hidden() -> bool:
    """Returns whether the variable CUDA_VISIBLE_DEVICES hides all GPUs."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "all").split(",")[0].strip() in ("", "-1", "NoDevFiles")


SYNCHRONIZE = 0x00100000  # the right to wait for a process, from <winnt.h>


def is_running(process_id: int) -> bool:
    """Returns whether a process with this id is running on this machine."""
    if sys.platform == "win32":  # there os.kill would end the process
        handle = ctypes.windll.kernel32.OpenProcess(SYNCHRONIZE, False, process_id)
        return bool(handle and ctypes.windll.kernel32.CloseHandle(handle))
    try:
        os.kill(process_id, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # it belongs to another user
    return True
