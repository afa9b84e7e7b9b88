"""Checks a file of weights before it is loaded, because it may come from an untrusted source."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import h5py
import numpy as np

from ..errors import DAMAGE, InputError

WEIGHTS = "model.weights.h5"
EXPECTED = {WEIGHTS, "config.json", "metadata.json"}
LARGEST_GAIN = 20  # weights hardly shrink when compressed; a file that grows more than this is an attack


def check_weights_file(path: Path, least_parameters: int) -> None:
    """Refuses a `.keras` file or a checkpoint that would take too much memory, or that points at other files.

    Args:
        path: the file, `.keras` or `.npz`.
        least_parameters: the fewest parameters that a model of the run's config can have.

    Raises:
        InputError: the file is of another kind, has members that Keras does not write, unpacks to far more than its
            size, has fewer numbers than the config's model, has HDF5 links or data outside itself, or declares arrays
            larger than their data.
    """
    check = _check_arrays if path.suffix == ".npz" else _check_keras
    try:
        with ZipFile(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if size > LARGEST_GAIN * path.stat().st_size:
                raise _refused(path, f"it would unpack to {size:,} bytes")
            if 4 * least_parameters > size:
                raise _refused(
                    path,
                    f"the config's model has at least {least_parameters:,} numbers, and {size // 4:,} at most are here",
                )
            fault = check(archive, members)
        if fault:
            raise _refused(path, fault)
    except InputError:
        raise
    except DAMAGE as error:
        raise _refused(path, str(error).strip().split("\n")[0] or type(error).__name__) from None


def _check_keras(archive: ZipFile, members: Sequence[ZipInfo]) -> str | None:
    """Returns what is wrong with a file that Keras is to read, or None."""
    if not {WEIGHTS} <= {member.filename for member in members} <= EXPECTED or len(members) > len(EXPECTED):
        return f"expected {', '.join(sorted(EXPECTED))} in it and nothing else"
    with h5py.File(io.BytesIO(archive.read(WEIGHTS))) as weights:
        return weights.visititems_links(_link_elsewhere) or weights.visititems(_data_elsewhere)


def _check_arrays(archive: ZipFile, members: Sequence[ZipInfo]) -> str | None:
    """Returns what is wrong with an archive of arrays, or None. NumPy allocates what a header declares before it reads
    the data."""
    for member in members:
        with archive.open(member) as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(file)
        if math.prod(shape) * dtype.itemsize > member.file_size:
            return f"{member.filename} says that it is of shape {shape}, and has {member.file_size:,} bytes"
    return None


def _link_elsewhere(name: str, link: object) -> str | None:
    return None if isinstance(link, h5py.HardLink) else f"{name} is a link to elsewhere"


def _data_elsewhere(name: str, item: object) -> str | None:
    outside = isinstance(item, h5py.Dataset) and (item.external or item.is_virtual)
    return f"the numbers of {name} are in another file" if outside else None


def _refused(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path}: the weights do not fit the run's config, or the file is damaged: {reason}; "
        "restore the file, or train anew"
    )
