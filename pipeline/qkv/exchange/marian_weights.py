"""The arrays of a Marian folder, whichever file holds them, and its weights by our names."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import h5py
import keras
import numpy as np
from safetensors import SafetensorError, safe_open

from ..errors import DAMAGE, InputError
from ..files.paths import refuse_other_than_file
from ..model.embedding import sinusoidal_positions
from ..run.weights import check_groups
from ..text.tokens.special_tokens import BOS
from .marian_config import MarianConfig
from .marian_vocabulary import NONE, MarianVocabulary

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


NEVER = -30.0  # a bias: probabilities times `exp` of it vanish in a float32 sum
POSITIONS_APART = 5e-3  # half-precision files round positions


def read_arrays(weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary) -> dict[str, np.ndarray]:
    """Reads all weights: the name of each of our variables, without the model's, with its value.

    It is called before a model is built, so that the memory of sizes which the files do not have is never taken.

    Raises:
        InputError: an array is missing, of another shape, not finite, or has no place in the model.
    """
    arrays = dict(_arrays(weights, config, vocabulary))
    _check_positions(weights, config)
    weights.check_all_read()
    return arrays


def assign_arrays(model: keras.Model, arrays: dict[str, np.ndarray]) -> None:
    """Gives a model all that `read_arrays` has read."""
    variables = {variable.path.split("/", 1)[1]: variable for variable in model.trainable_variables}
    assert variables.keys() == arrays.keys()
    for name, variable in variables.items():
        variable.assign(arrays[name])


def _arrays(
    weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary
) -> Iterator[tuple[str, np.ndarray]]:
    yield from _embeddings(weights, config, vocabulary)
    output = "output" if config.tie == "none" else "target"
    yield f"{output}_embedding/bias", _output_bias(weights, config, vocabulary)
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(layers):
            theirs, ours = f"model.{side}.layers.{number}", f"{side}_{number}"
            yield from _self_attention(weights, f"{theirs}.self_attn", f"{ours}/self_attention", config.width)
            yield from _norm(weights, f"{theirs}.self_attn_layer_norm", f"{ours}/self_attention", config.width)
            if side == "decoder":
                cross = f"{ours}/cross_attention"
                for name, own in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
                    place = f"{theirs}.encoder_attn.{name}_proj"
                    yield from _dense(weights, place, f"{cross}/{own}", config.width, config.width)
                yield from _norm(weights, f"{theirs}.encoder_attn_layer_norm", cross, config.width)
            yield from _dense(weights, f"{theirs}.fc1", f"{ours}/feed_forward/inner", config.width, config.hidden)
            yield from _dense(weights, f"{theirs}.fc2", f"{ours}/feed_forward/outer", config.hidden, config.width)
            yield from _norm(weights, f"{theirs}.final_layer_norm", f"{ours}/feed_forward", config.width)


def _embeddings(
    weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary
) -> Iterator[tuple[str, np.ndarray]]:
    shared, output = "model.shared.weight", "lm_head.weight"
    source, target = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    written = {"target": [target, output], "source": [source]}
    if config.tie == "all":
        written = {"target": [shared, source, target, output]}
    elif config.tie == "none":
        written = {"target": [target], "source": [source], "output": [output]}
        if source in weights and target in weights:
            weights.ignore(shared)  # transformers 5 writes it, and does not read it
    for table, names in written.items():
        size = config.source_size if table == "source" else config.target_size
        present = [name for name in names if name in weights] or [shared]
        rows = [weights.read(name, size, config.width) for name in present]
        if any(not np.array_equal(rows[0], others) for others in rows[1:]):
            raise weights.refused(f"{' and '.join(present)} differ, and config.json says that they are one table")
        numbers = vocabulary.source if table == "source" else vocabulary.target
        yield f"{table}_embedding/table", np.where(numbers[:, None] == NONE, np.float32(0), rows[0][numbers])


def _output_bias(weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary) -> np.ndarray:
    given = np.zeros(config.target_size, "float32")
    if "final_logits_bias" in weights:
        given = weights.read("final_logits_bias", 1, config.target_size)[0]
    given[[i for i in config.banned if i != config.start]] += NEVER  # searches never find BOS anyway
    bias = np.where(vocabulary.target == NONE, np.float32(NEVER), given[vocabulary.target])
    if not config.has_start_piece:
        bias[BOS] = given[config.start] + NEVER
    return bias


def _self_attention(weights: MarianWeights, theirs: str, ours: str, width: int) -> Iterator[tuple[str, np.ndarray]]:
    parts = [dict(_dense(weights, f"{theirs}.{name}_proj", name, width, width)) for name in "qkv"]
    for kind in ("kernel", "bias"):
        arrays = [part[f"{name}/{kind}"] for name, part in zip("qkv", parts, strict=True)]
        yield f"{ours}/qkv/{kind}", np.concatenate(arrays, axis=-1)
    yield from _dense(weights, f"{theirs}.out_proj", f"{ours}/output", width, width)


def _dense(
    weights: MarianWeights, theirs: str, ours: str, inputs: int, outputs: int
) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{ours}/kernel", weights.read(f"{theirs}.weight", outputs, inputs).T
    yield f"{ours}/bias", weights.read(f"{theirs}.bias", outputs)


def _norm(weights: MarianWeights, theirs: str, ours: str, width: int) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{ours}_residual/norm/gamma", weights.read(f"{theirs}.weight", width)
    yield f"{ours}_residual/norm/beta", weights.read(f"{theirs}.bias", width)


def _check_positions(weights: MarianWeights, config: MarianConfig) -> None:
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if name in weights:
            expected = sinusoidal_positions(config.positions, config.width, halves=True)
            found = weights.read(name, config.positions, config.width)
            if not np.allclose(found, expected, atol=POSITIONS_APART):
                raise weights.refused(f"{name} are other positions than Marian's sines and cosines")
