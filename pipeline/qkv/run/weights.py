"""Checks a file of weights, because it may come from an untrusted source, and loads it."""

import io
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from zipfile import ZipFile

import h5py
import keras
import numpy as np

from ..errors import DAMAGE, InputError, first_line
from ..files.arrays import check_header, open_zip

WEIGHTS = "model.weights.h5"
"""The HDF5 file with the weights in a `.keras` file."""
EXPECTED = {WEIGHTS, "config.json", "metadata.json"}
"""The members of a `.keras` file."""
DEEPEST = 50
"""The maximum depth of nested HDF5 groups; a Keras model has some ten."""
MOST_ITEMS = 20_000
"""The maximum number of groups and arrays in an HDF5 file. It also bounds groups that contain each other."""
FEW = 4
"""The maximum size of an array of integers, which is the state of a random generator."""


def check_weights_file(path: Path, least_parameters: int) -> None:
    """Checks that a `.keras` file or a checkpoint can be loaded: that it fits into memory and refers to no other file.

    Args:
        path: the file, `.keras` or `.npz`.
        least_parameters: the minimum number of parameters of a model of the run's config.

    Raises:
        InputError: the file is not an archive of this kind, has members that Keras does not write, expands to far more
            than its size, or has fewer numbers than the config's model; or it has HDF5 links or data in other files,
            arrays larger than their data, groups nested deeper than in a model, or data other than numbers.
    """
    try:
        with open_zip(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if 4 * least_parameters > size:
                needed = f"the config's model has at least {least_parameters:,} numbers"
                raise ValueError(f"{needed}, and {size // 4:,} at most are in the file")
            if path.suffix == ".npz":
                for member in members:  # NumPy allocates what a header declares before it reads the data
                    with archive.open(member) as file:
                        check_header(file, member.filename, member.file_size)
                return
            if not {WEIGHTS} <= {member.filename for member in members} <= EXPECTED or len(members) > len(EXPECTED):
                raise ValueError(f"expected {', '.join(sorted(EXPECTED))} in it and nothing else")
            with h5py.File(io.BytesIO(archive.read(WEIGHTS))) as weights:
                check_groups(weights)
    except DAMAGE as error:
        raise _refused(path, first_line(error)) from None


def check_groups(root: h5py.Group) -> None:
    """Checks the groups and arrays of an HDF5 file, from its root group.

    It visits all groups itself, since `visititems` of h5py takes minutes for thousands of nested groups.

    Raises:
        ValueError: the file has too many groups, too deeply nested groups, a link, or an array that cannot be a weight.
    """
    groups = [(root, "", 0)]  # still to visit: (group, prefix of its members' paths, depth)
    items = 0
    while groups:
        group, prefix, depth = groups.pop()
        for name in group:
            path = f"{prefix}{name}"
            items += 1
            mistake = None
            if depth == DEEPEST or items > MOST_ITEMS:
                mistake = f"{path[:40]} is one of more groups than a model has"
            elif not isinstance(group.get(name, getlink=True), h5py.HardLink):
                mistake = f"{path} is a link to other data"
            elif isinstance(item := group[name], h5py.Group):
                groups.append((item, f"{path}/", depth + 1))
            elif problem := _check_dataset(item):
                mistake = f"the numbers of {path} {problem}"
            if mistake:
                raise ValueError(f"it is not the file of a model: {mistake}")


def _check_dataset(item: h5py.Dataset | h5py.Datatype) -> str | None:
    """Returns the end of a sentence about why an HDF5 array cannot be a weight; None if it can be one."""
    if not isinstance(item, h5py.Dataset):
        return "are a data type without numbers"
    if item.external or item.is_virtual:
        return "are in another file"
    if item.dtype.kind != "f" and not (item.dtype.kind in "iu" and item.size <= FEW):
        return f"are of type {item.dtype}"
    if item.id.get_storage_size() < item.size * item.dtype.itemsize:
        return f"have {item.id.get_storage_size():,} bytes, too few for the shape {item.shape}"
    return None


def load_weights(model: keras.Model, path: Path) -> None:
    """Loads the weights of a `.keras` file into a model.

    Args:
        model: the model, whose variables exist.
        path: the file, which `check_weights_file` has checked.

    Raises:
        InputError: the weights do not fit the model, or some are not finite.
    """
    try:
        with extracted_weights(path) as weights:
            model.load_weights(weights)
    except DAMAGE as error:
        raise _refused(path, first_line(error)) from None
    for variable in model.variables:
        if not np.isfinite(keras.ops.convert_to_numpy(variable)).all():
            raise InputError(
                f"{path}: {variable.path} has numbers that are not finite; restore the file, or train again"
            )


@contextmanager
def extracted_weights(path: Path) -> Iterator[Path]:
    """Extracts the HDF5 file of a `.keras` file into a temporary folder for the time of the block.

    Keras reads the extracted file faster: HDF5 reads it in any order, and a step back in an archive reads it from the
    start.

    Yields:
        The extracted file; the `.keras` file if there is no space for the extracted one.

    Raises:
        BadZipFile: the file is damaged.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            with ZipFile(path) as archive:
                weights = Path(archive.extract(WEIGHTS, folder))
        except OSError:
            weights = path
        yield weights


def _refused(path: Path, reason: str) -> InputError:
    """Returns the error of a file of weights that cannot be loaded; `reason` is part of the message."""
    return InputError(
        f"{path}: the weights do not fit the run's config, or the file is damaged: {reason}; restore the file, "
        "or train again"
    )
