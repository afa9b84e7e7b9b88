"""A file of weights looked over before anything is made of it: it may come from a stranger."""

import io
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import h5py

from pipeline.errors import InputError

WEIGHTS = "model.weights.h5"
EXPECTED = {WEIGHTS, "config.json", "metadata.json"}
LARGEST_GAIN = 20  # weights hardly shrink when they are compressed; what grows more than so much is a trick


def check_weights_file(path: Path, least_parameters: int) -> None:
    """Refuses a `.keras` file that would take more memory than it should, or that points at other files.

    Args:
        path: the file.
        least_parameters: fewest numbers that a model of the run's config has.

    Raises:
        InputError: it is no such file, holds others than Keras writes, unpacks to far more than it is, has fewer
            numbers than the config's model, or has HDF5 links or data outside itself.
    """
    try:
        with ZipFile(path) as archive:
            members = archive.infolist()
            if not {WEIGHTS} <= {member.filename for member in members} <= EXPECTED or len(members) > len(EXPECTED):
                raise _refused(path, f"expected {', '.join(sorted(EXPECTED))} in it and nothing else")
            size = sum(member.file_size for member in members)
            if size > LARGEST_GAIN * path.stat().st_size:
                raise _refused(path, f"it would unpack to {size:,} bytes")
            if 4 * least_parameters > size:
                raise _refused(
                    path,
                    f"the config's model has at least {least_parameters:,} numbers, and {size // 4:,} at most are here",
                )
            with h5py.File(io.BytesIO(archive.read(WEIGHTS))) as weights:
                elsewhere = weights.visititems_links(_link_elsewhere) or weights.visititems(_data_elsewhere)
        if elsewhere:
            raise _refused(path, elsewhere)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, NotImplementedError, BadZipFile) as error:
        raise _refused(path, str(error).strip().split("\n")[0] or type(error).__name__) from None


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
