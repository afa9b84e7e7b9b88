"""Checks a file of weights, because it may come from an untrusted source, and loads it."""

import io
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import h5py
import keras
import numpy as np

from ..errors import DAMAGE, InputError, first_line
from ..files.arrays import check_header, open_zip

WEIGHTS_FILE = "model.weights.h5"
"""The HDF5 file with the weights in a `.keras` file."""
EXPECTED = {WEIGHTS_FILE, "config.json", "metadata.json"}
"""The members of a `.keras` file."""
DEEPEST_GROUP = 50
"""The maximum depth of nested HDF5 groups; a Keras model has some ten."""
MOST_ITEMS = 20_000
"""The maximum number of groups and arrays in an HDF5 file. It also bounds groups that contain each other."""
FEW = 4
"""The maximum size of an array of integers, which is the state of a random generator."""


def check_weights_file(path: Path, least_parameters: int) -> None:
    """Checks that a file of weights can be loaded safely: it fits into memory and does not refer to other files.

    Args:
        path: a `.keras` file, or a `.npz` file for a checkpoint.
        least_parameters: the minimum number of parameters of a model with the run's config.

    Raises:
        InputError: the file is not an archive of this kind, has members that Keras does not write, expands to far more
            than its size, or has fewer numbers than `least_parameters`. Or its HDF5 file has links, data in other
            files, arrays larger than their data, more or deeper groups than a model has, or data other than numbers.
    """
    try:
        with open_zip(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            least_bytes = 4 if path.suffix == ".npz" else 2  # of a number: `halve_weights_file` writes float16
            if least_bytes * least_parameters > size:
                needed = f"the config's model has at least {least_parameters:,} numbers"
                raise ValueError(f"{needed}, and {size // least_bytes:,} at most are in the file")
            if path.suffix == ".npz":
                for member in members:  # NumPy allocates what a header declares before it reads the data
                    with archive.open(member) as file:
                        check_header(file, member.filename, member.file_size)
                return
            if not {WEIGHTS_FILE} <= {member.filename for member in members} <= EXPECTED or len(members) > len(
                EXPECTED
            ):
                raise ValueError(f"expected {', '.join(sorted(EXPECTED))} in it and nothing else")
            with h5py.File(io.BytesIO(archive.read(WEIGHTS_FILE))) as weights:
                check_groups(weights)
    except DAMAGE as error:
        raise _weights_error(path, first_line(error)) from None


def check_groups(root: h5py.Group) -> None:
    """Checks the groups and arrays of an HDF5 file, from its root group.

    It does not use `visititems` of h5py, which takes minutes for thousands of nested groups.

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
            if depth == DEEPEST_GROUP or items > MOST_ITEMS:
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
    """Returns the reason why an HDF5 array cannot be a weight, as the end of a sentence; None if it can be a weight."""
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
        InputError: the file is damaged, its weights do not fit the model, or some of them are not finite.
    """
    try:
        with extracted_weights(path) as weights:
            model.load_weights(weights)
    except DAMAGE as error:
        raise _weights_error(path, first_line(error)) from None
    for variable in model.variables:
        if not np.isfinite(keras.ops.convert_to_numpy(variable)).all():
            raise InputError(
                f"{path}: {variable.path} has numbers that are not finite; restore the file, or train again"
            )


def halve_weights_file(path: Path) -> None:
    """Rewrites a `.keras` file with its weights in float16, in half the size. Models that read it compute in float32.

    Args:
        path: the file, which `model.save` has written.
    """
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    rounded = io.BytesIO()
    with h5py.File(io.BytesIO(members[WEIGHTS_FILE])) as source, h5py.File(rounded, "w") as target:
        _copy_rounded(source, target)
    members[WEIGHTS_FILE] = rounded.getvalue()
    with ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(ZipInfo(name), content)  # of a fixed date, so that equal weights give equal files


def _copy_rounded(source: h5py.Group, target: h5py.Group) -> None:
    """Copies a group of an HDF5 file with its attributes; arrays of floating-point numbers are copied as float16."""
    target.attrs.update(source.attrs)
    for name, item in source.items():
        if isinstance(item, h5py.Group):
            _copy_rounded(item, target.create_group(name))
        else:
            values = item[()]
            target.create_dataset(name, data=values.astype("float16") if values.dtype.kind == "f" else values)


@contextmanager
def extracted_weights(path: Path) -> Iterator[Path]:
    """Extracts the HDF5 file of a `.keras` file into a temporary folder for the time of the block.

    Keras reads the extracted file faster, because HDF5 jumps back and forth in a file. After a jump back, an archive is
    read again from its start.

    Yields:
        The extracted file; the `.keras` file if there is no space for the extracted one.

    Raises:
        BadZipFile: the file is damaged.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            with ZipFile(path) as archive:
                weights = Path(archive.extract(WEIGHTS_FILE, folder))
        except OSError:
            weights = path
        yield weights


def _weights_error(path: Path, reason: str) -> InputError:
    """Returns the error of a file of weights that cannot be loaded; `reason` is part of the message."""
    return InputError(
        f"{path}: the weights do not fit the run's config, or the file is damaged: {reason}; restore the file, "
        "or train again"
    )
