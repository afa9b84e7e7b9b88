"""Checks a file of weights before it is loaded, because it may come from an untrusted source."""

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
EXPECTED = {WEIGHTS, "config.json", "metadata.json"}
DEEPEST = 50  # groups within groups; a model of Keras has some ten
MOST_ITEMS = 20_000  # also bounds groups that hold each other
FEW = 4  # numbers that may be integers: the states of random numbers


def check_weights_file(path: Path, least_parameters: int) -> None:
    """Refuses a `.keras` file or a checkpoint that would take too much memory, or that points at other files.

    Args:
        path: the file, `.keras` or `.npz`.
        least_parameters: the fewest parameters that a model of the run's config can have.

    Raises:
        InputError: the file is of another kind, has members that Keras does not write, unpacks to far more than its
            size, has fewer numbers than the config's model, has HDF5 links or data outside itself, declares arrays
            larger than their data, nests deeper than a model, or has something other than numbers.
    """
    try:
        with open_zip(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if 4 * least_parameters > size:
                needed = f"the config's model has at least {least_parameters:,} numbers"
                raise ValueError(f"{needed}, and {size // 4:,} at most are here")
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
    """Raises a `ValueError` if a file of HDF5 has what no model has.

    It walks through all groups itself, since h5py's own `visititems` takes minutes for thousands of nested ones.
    """
    waiting, items = [(root, "", 0)], 0
    while waiting:
        group, place, depth = waiting.pop()
        for name in group:
            path, items, fault = f"{place}{name}", items + 1, None
            if depth == DEEPEST or items > MOST_ITEMS:
                fault = f"{path[:40]} is one of more groups than a model has"
            elif not isinstance(group.get(name, getlink=True), h5py.HardLink):
                fault = f"{path} is a link to elsewhere"
            elif isinstance(item := group[name], h5py.Group):
                waiting.append((item, f"{path}/", depth + 1))
            elif wrong := _check_dataset(item):
                fault = f"the numbers of {path} {wrong}"
            if fault:
                raise ValueError(f"it has what no model has: {fault}")


def _check_dataset(item: h5py.Dataset | h5py.Datatype) -> str | None:
    if not isinstance(item, h5py.Dataset):
        return "are a type"
    if item.external or item.is_virtual:
        return "are in another file"
    if item.dtype.kind != "f" and not (item.dtype.kind in "iu" and item.size <= FEW):
        return f"are of type {item.dtype}"
    if item.id.get_storage_size() < item.size * item.dtype.itemsize:
        return f"have {item.id.get_storage_size():,} bytes, too few for the shape {item.shape}"
    return None


def load_weights(model: keras.Model, path: Path) -> None:
    """Loads the weights of a checked `.keras` file into a model.

    Raises:
        InputError: they do not fit the model, or are not finite.
    """
    try:
        with extracted_weights(path) as weights:
            model.load_weights(weights)
    except DAMAGE as error:
        raise _refused(path, first_line(error)) from None
    for variable in model.variables:
        if not np.isfinite(keras.ops.convert_to_numpy(variable)).all():
            raise InputError(f"{path}: {variable.path} has numbers that are not finite; restore it, or train anew")


@contextmanager
def extracted_weights(path: Path) -> Iterator[Path]:
    """Yields the HDF5 file within a `.keras` file, which Keras reads faster when it stands alone: HDF5 jumps to and fro
    in it, and a jump back within an archive reads all again. Where there is no room for it, yields the `.keras` file.

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
    return InputError(
        f"{path}: the weights do not fit the run's config, or the file is damaged: {reason}; restore it, or train anew"
    )
