"""The arrays of a Marian folder, by their names in PyTorch, whichever file holds them."""

import re
from pathlib import Path
from typing import Any, Protocol

import h5py
import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 from then on
import numpy as np
from safetensors import SafetensorError, safe_open

from ..errors import DAMAGE, InputError
from ..files.paths import refuse_other_than_file
from ..run.weights import check_groups

FILES = ("model.safetensors", "tf_model.h5", "pytorch_model.bin")
NUMBERS = ("F64", "F32", "F16", "BF16")  # as safetensors names the types of numbers that are read
CONVERT = (
    "it is a pickle, which PyTorch alone can read safely; install torch, or convert it where torch and transformers "
    "are: MarianMTModel.from_pretrained(FOLDER).save_pretrained(FOLDER)"
)


class WeightFile(Protocol):
    """A file of arrays."""

    shapes: dict[str, tuple[int, ...]]

    def read(self, name: str) -> np.ndarray:
        """Reads an array as float32."""
        ...


class MarianWeights:
    """The arrays of a folder; each must be read, or it is told which are left.

    Args:
        folder: the folder; of several files of weights the first of `FILES` is read.

    Raises:
        InputError: it has none, or the file is damaged, or a pickle that cannot be read here.
    """

    def __init__(self, folder: Path) -> None:
        names = [name for name in FILES if (folder / name).exists()]
        if not names:
            parts = " (files in parts must be joined: save_pretrained with max_shard_size)"
            hint = parts if any(folder.glob("*.index.json")) else ""
            raise InputError(f"{folder}: no weights; expected one of {', '.join(FILES)}{hint}")
        self.path = folder / names[0]
        refuse_other_than_file(self.path, "the weights of a model")
        try:
            self._file = _open(self.path)
        except InputError:
            raise
        except DAMAGE as error:
            raise self.refused(str(error).strip().split("\n")[0] or type(error).__name__) from None
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._file.shapes

    def read(self, name: str, *shape: int) -> np.ndarray:
        """Reads an array of a known shape as float32.

        Raises:
            InputError: it is missing, of another shape, or has numbers that are not finite.
        """
        found = self._file.shapes.get(name)
        if found != shape:
            raise self.refused(f"{name}: expected shape {shape}, as config.json says, found {found or 'nothing'}")
        self._read.add(name)
        try:
            array = self._file.read(name)
        except DAMAGE as error:
            raise self.refused(f"{name}: {error}") from None
        if not np.isfinite(array).all():
            raise self.refused(f"{name} has numbers that are not finite")
        return array

    def ignore(self, name: str) -> None:
        """Says that an array may be left over."""
        self._read.add(name)

    def check_all_read(self) -> None:
        """Checks that no array was left over.

        Raises:
            InputError: the model has parts that would be ignored.
        """
        if left := sorted(set(self._file.shapes) - self._read):
            raise self.refused(f"{len(left)} arrays have no place in the model, such as {left[0][:80]}")

    def refused(self, reason: str) -> InputError:
        """Returns the error that says what is wrong with the file."""
        return InputError(f"{self.path}: {reason}; expected the weights of a MarianMTModel")


def _open(path: Path) -> WeightFile:
    if path.suffix == ".safetensors":
        return SafetensorsFile(path)
    return TensorFlowFile(path) if path.suffix == ".h5" else PyTorchFile(path)


class SafetensorsFile:
    """`model.safetensors`; see `WeightFile`. The library refuses arrays that overlap or are not wholly there."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: Any = safe_open(path, "np")
        except SafetensorError as error:
            raise ValueError(str(error)) from None
        slices = {name: self._file.get_slice(name) for name in self._file.keys()}  # noqa: SIM118 (it is no dict)
        for name, array in slices.items():
            if (kind := array.get_dtype()) not in NUMBERS:
                raise ValueError(f"{name[:80]}: expected numbers of type {', '.join(NUMBERS)}, found {kind}")
        self.shapes = {name: tuple(array.get_shape()) for name, array in slices.items()}

    def read(self, name: str) -> np.ndarray:
        return self._file.get_tensor(name).astype("float32", copy=False)


class TensorFlowFile:
    """`tf_model.h5`, as transformers before 5 wrote it; see `WeightFile`."""

    def __init__(self, path: Path) -> None:
        self._file = h5py.File(path)
        if fault := check_groups(self._file):
            raise ValueError(f"it has what no model has: {fault}")
        self._places: dict[str, str] = {}
        self._file.visititems(self._note)
        self.shapes = {name: self._shape(name) for name in self._places}

    def _note(self, place: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            self._places[torch_name(place)] = place

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = self._file[self._places[name]].shape
        return shape[::-1] if self._is_turned(name) else shape

    def _is_turned(self, name: str) -> bool:
        return self._places[name].split("/")[-1].startswith("kernel")

    def read(self, name: str) -> np.ndarray:
        array = np.asarray(self._file[self._places[name]], "float32")
        return array.T if self._is_turned(name) else array


def torch_name(place: str) -> str:
    """Returns the name in PyTorch of an array in `tf_model.h5`: `.../encoder/layers.0/fc1/kernel:0` is
    `model.encoder.layers.0.fc1.weight`."""
    place = place.removesuffix(":0")
    if "final_logits_bias" in place:
        return "final_logits_bias"
    if "shared" in place:
        return "model.shared.weight"
    parts = re.split(r"/(?=(?:encoder|decoder)/(?!.*/(?:encoder|decoder)/))", f"/{place}")[-1].split("/")
    last = {"kernel": "weight", "gamma": "weight", "beta": "bias", "embeddings": "weight"}
    return ".".join(["model", *parts[:-1], last.get(parts[-1], parts[-1])])


class PyTorchFile:
    """`pytorch_model.bin`; see `WeightFile`."""

    def __init__(self, path: Path) -> None:
        try:
            import torch
        except ImportError:
            raise InputError(f"{path}: {CONVERT}") from None
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # PyTorch's own errors of unpickling, and of its zip files
            reason = str(error).strip().split("\n")[0][:200]
            raise ValueError(f"PyTorch does not read it as weights alone: {reason}") from None
        if not isinstance(loaded, dict) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
            raise ValueError("expected arrays by their names")
        self._arrays = {str(name): value for name, value in loaded.items()}
        self.shapes = {name: tuple(value.shape) for name, value in self._arrays.items()}

    def read(self, name: str) -> np.ndarray:
        return self._arrays[name].float().contiguous().numpy()
