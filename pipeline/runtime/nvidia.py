"""Whether this machine has a GPU of NVIDIA, as the system says it: before TensorFlow is loaded, or if it sees none."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

DEVICES = "/dev"
DRIVER = "/proc/driver/nvidia/gpus"
WINDOWS_GPU, WINDOWS_LIBRARY = "/dev/dxg", "/usr/lib/wsl/lib/libcuda.so.1"  # within the Linux of Windows
LIBRARIES = "nvidia.cudnn"  # of the extra [gpu], as a Python package
REASONS = 'TF_CPP_MIN_LOG_LEVEL=0 python -c "import tensorflow as tf; tf.config.list_physical_devices()"'
INSTALL = 'python -m pip install ".[gpu]"'


def has_nvidia_device() -> bool:
    """Returns whether this process could use a GPU of NVIDIA: there is a device, and CUDA_VISIBLE_DEVICES does not hide
    it. A program such as nvidia-smi proves nothing: images of containers have it without a device."""
    return _has_device() and not _is_hidden()


def why_unseen() -> str | None:
    """Returns what to do where TensorFlow sees no GPU, though one of NVIDIA is there; None where none is, or where it
    is hidden on purpose."""
    if _is_hidden():
        return None
    if _has_device():
        if not _has_libraries():
            return f"CUDA's libraries are missing: {INSTALL}"
        return f"CUDA's libraries or the driver do not fit; TensorFlow says why: {REASONS}"
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


def _has_libraries() -> bool:
    try:
        return importlib.util.find_spec(LIBRARIES) is not None
    except ModuleNotFoundError:  # the package that it is part of
        return False
