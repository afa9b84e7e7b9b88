"""The weights of a Marian folder: its arrays, whichever file holds them, by the names of a run's variables."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import keras
import numpy as np
from safetensors import SafetensorError, safe_open

from ..errors import DAMAGE, InputError, first_line, import_optional
from ..files.paths import refuse_other_than_file
from ..model.embedding import sinusoidal_positions
from ..run.weights import check_groups
from ..text.tokens.special_tokens import BOS
from .marian_config import MarianConfig
from .marian_vocabulary import NONE, MarianVocabulary

NUMBERS = ("F64", "F32", "F16", "BF16")  # as safetensors names the types of numbers that are read


class StoredArray(NamedTuple):
    """An array in a file: its shape, and a function that reads it as float32."""

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


class MarianWeights:
    """The arrays of a folder; each must be read, or it is told which are left.

    Args:
        folder: the folder; of several files of weights the first of `OPENERS` is read.

    Raises:
        InputError: it has none, or the file is damaged, or a pickle that cannot be read here.
    """

    def __init__(self, folder: Path) -> None:
        names = [name for name in OPENERS if (folder / name).exists()]
        if not names:
            parts = " (files in parts must be joined: save_pretrained with max_shard_size)"
            hint = parts if any(folder.glob("*.index.json")) else ""
            raise InputError(f"{folder}: no weights; expected one of {', '.join(OPENERS)}{hint}")
        self.path = folder / names[0]
        refuse_other_than_file(self.path, "the weights of a model")
        try:
            self._arrays = OPENERS[self.path.name](self.path)
        except InputError:
            raise
        except DAMAGE as error:
            raise self.refused(first_line(error)) from None
        self._left = set(self._arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def read(self, name: str, *shape: int) -> np.ndarray:
        """Reads an array of a known shape as float32.

        Raises:
            InputError: it is missing, of another shape, or has numbers that are not finite.
        """
        found = self._arrays[name].shape if name in self._arrays else "nothing"
        if found != shape:
            raise self.refused(f"{name}: expected shape {shape}, as config.json says, found {found}")
        self._left.discard(name)
        try:
            array = self._arrays[name].read()
        except DAMAGE as error:
            raise self.refused(f"{name}: {error}") from None
        if not np.isfinite(array).all():
            raise self.refused(f"{name} has numbers that are not finite")
        return array

    def ignore(self, name: str) -> None:
        """Says that an array may be left over."""
        self._left.discard(name)

    def check_all_read(self) -> None:
        """Raises an `InputError` if an array was left over: the model has parts that would be ignored."""
        if self._left:
            raise self.refused(f"{len(self._left)} arrays have no place in the model, such as {min(self._left)[:80]}")

    def refused(self, reason: str) -> InputError:
        """Returns the error that says what is wrong with the file."""
        return InputError(f"{self.path}: {reason}; expected the weights of a MarianMTModel")


def open_safetensors(path: Path) -> dict[str, StoredArray]:
    """Opens `model.safetensors`. The library refuses arrays that overlap or are not wholly there.

    Raises:
        ValueError: it is damaged.
    """
    try:
        file: Any = safe_open(path, "np")
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    arrays: dict[str, StoredArray] = {}
    for name in file.keys():  # noqa: SIM118 (it is no dict)
        stored = file.get_slice(name)
        if (kind := stored.get_dtype()) not in NUMBERS:
            raise ValueError(f"{name[:80]}: expected numbers of type {', '.join(NUMBERS)}, found {kind}")
        read = partial(lambda name: file.get_tensor(name).astype("float32", copy=False), name)
        arrays[name] = StoredArray(tuple(stored.get_shape()), read)
    return arrays


def _open_hdf5(path: Path) -> dict[str, StoredArray]:
    """Opens `tf_model.h5`, as transformers before 5 wrote it; raises a `ValueError` if it is damaged."""
    file = h5py.File(path)
    check_groups(file)
    arrays = {}

    def note(place: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            turned = place.split("/")[-1].startswith("kernel")
            turn = np.transpose if turned else np.asarray
            shape = item.shape[::-1] if turned else item.shape
            arrays[torch_name(place)] = StoredArray(shape, lambda: turn(np.asarray(item, "float32")))

    file.visititems(note)
    return arrays


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


def _open_pickle(path: Path) -> dict[str, StoredArray]:
    """Opens `pytorch_model.bin`; raises a `ValueError` if PyTorch does not read it as weights alone."""
    torch = import_optional(
        "torch",
        f"{path}: it is a pickle, which PyTorch alone can read safely; install torch, or convert it where torch and "
        "transformers are: MarianMTModel.from_pretrained(FOLDER).save_pretrained(FOLDER)",
    )
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch's own errors of unpickling, and of its zip files
        raise ValueError(f"PyTorch does not read it as weights alone: {first_line(error)[:200]}") from None
    if not isinstance(loaded, dict) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise ValueError("expected arrays by their names")
    return {
        str(name): StoredArray(tuple(value.shape), partial(lambda value: value.float().contiguous().numpy(), value))
        for name, value in loaded.items()
    }


OPENERS: Mapping[str, Callable[[Path], dict[str, StoredArray]]] = {
    "model.safetensors": open_safetensors,
    "tf_model.h5": _open_hdf5,
    "pytorch_model.bin": _open_pickle,
}


BANNED_TOKEN_BIAS = -30.0  # a bias: probabilities times `exp` of it vanish in a float32 sum
POSITIONS_APART = 5e-3  # half-precision files round positions


class MarianLayer(NamedTuple):
    """A dense layer or a layer normalisation.

    Attributes:
        theirs: the name in PyTorch; the names of all parts of a layer that is one here.
        ours: the name here, without the model's.
        axes: of a dense layer, what its inputs and its outputs are: coordinates of `width`, of `heads` or of the
            `hidden` layer; of a normalisation, `width` alone.
    """

    theirs: Sequence[str]
    ours: str
    axes: Sequence[str]

    @property
    def arrays(self) -> tuple[str, str]:
        """The names here of what PyTorch calls `weight` and `bias`."""
        names = ("kernel", "bias") if len(self.axes) == 2 else ("gamma", "beta")
        return f"{self.ours}/{names[0]}", f"{self.ours}/{names[1]}"


def marian_layers(encoder_layers: int, decoder_layers: int) -> Iterator[MarianLayer]:
    """Yields the layers of all blocks."""
    for side, blocks in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        for number in range(blocks):
            theirs, ours = f"model.{side}.layers.{number}", f"{side}_{number}"
            parts = [f"{theirs}.self_attn.{name}_proj" for name in "qkv"]
            yield MarianLayer(parts, f"{ours}/self_attention/qkv", ["width", "heads"])
            layers: dict[str, tuple[str, ...]] = {"self_attn.out_proj": ("self_attention/output", "heads", "width")}
            layers["self_attn_layer_norm"] = ("self_attention_residual/norm", "width")
            if side == "decoder":
                for name, part in {"q": "query", "k": "key", "v": "value"}.items():
                    layers[f"encoder_attn.{name}_proj"] = (f"cross_attention/{part}", "width", "heads")
                layers["encoder_attn.out_proj"] = ("cross_attention/output", "heads", "width")
                layers["encoder_attn_layer_norm"] = ("cross_attention_residual/norm", "width")
            layers["fc1"] = ("feed_forward/inner", "width", "hidden")
            layers["fc2"] = ("feed_forward/outer", "hidden", "width")
            layers["final_layer_norm"] = ("feed_forward_residual/norm", "width")
            for name, (own, *axes) in layers.items():
                yield MarianLayer([f"{theirs}.{name}"], f"{ours}/{own}", axes)


def read_arrays(weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary) -> dict[str, np.ndarray]:
    """Reads all weights: the value of each variable of a run's model by its path, without the model's own name.

    It is called before a model is built, so that the memory of sizes which the files do not have is never taken.

    Raises:
        InputError: an array is missing, of another shape, not finite, or has no place in the model.
    """
    width = config.model["d_model"]
    arrays = _read_embeddings(weights, config, vocabulary)
    output = "output" if config.model["tie_embeddings"] == "none" else "target"
    arrays[f"{output}_embedding/bias"] = _read_output_bias(weights, config, vocabulary)
    sizes = {"width": width, "heads": width, "hidden": config.model["d_ff"]}
    for layer in marian_layers(config.model["encoder_layers"], config.model["decoder_layers"]):
        shape = [sizes[axis] for axis in layer.axes]
        kernels = [weights.read(f"{name}.weight", *shape[::-1]).T for name in layer.theirs]
        biases = [weights.read(f"{name}.bias", shape[-1]) for name in layer.theirs]
        kernel, bias = layer.arrays
        arrays |= {kernel: np.concatenate(kernels, axis=-1), bias: np.concatenate(biases)}
    _check_positions(weights, config.model["max_positions"], width)
    weights.check_all_read()
    return arrays


def assign_arrays(model: keras.Model, arrays: dict[str, np.ndarray]) -> None:
    """Gives a model all that `read_arrays` has read."""
    variables = {variable.path.split("/", 1)[1]: variable for variable in model.trainable_variables}
    assert variables.keys() == arrays.keys()
    for name, variable in variables.items():
        variable.assign(arrays[name])


def _read_embeddings(
    weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary
) -> dict[str, np.ndarray]:
    shared, output = "model.shared.weight", "lm_head.weight"
    source, target = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    tie = config.model["tie_embeddings"]
    written = {"target": [target, output], "source": [source]}
    if tie == "all":
        written = {"target": [shared, source, target, output]}
    elif tie == "none":
        written = {"target": [target], "source": [source], "output": [output]}
        if source in weights and target in weights:
            weights.ignore(shared)  # transformers 5 writes it, and does not read it
    tables = {}
    for table, names in written.items():
        size = config.source_size if table == "source" else config.target_size
        present = [name for name in names if name in weights] or [shared]
        rows = [weights.read(name, size, config.model["d_model"]) for name in present]
        if any(not np.array_equal(rows[0], others) for others in rows[1:]):
            raise weights.refused(f"{' and '.join(present)} differ, and config.json says that they are one table")
        numbers = vocabulary.source if table == "source" else vocabulary.target
        tables[f"{table}_embedding/table"] = np.where(numbers[:, None] == NONE, np.float32(0), rows[0][numbers])
    return tables


def _read_output_bias(weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary) -> np.ndarray:
    given = np.zeros(config.target_size, "float32")
    if "final_logits_bias" in weights:
        given = weights.read("final_logits_bias", 1, config.target_size)[0]
    given[[i for i in config.banned if i != config.start]] += BANNED_TOKEN_BIAS  # searches never find BOS anyway
    bias = np.where(vocabulary.target == NONE, np.float32(BANNED_TOKEN_BIAS), given[vocabulary.target])
    if not config.has_start_piece:
        bias[BOS] = given[config.start] + BANNED_TOKEN_BIAS
    return bias


def _check_positions(weights: MarianWeights, length: int, width: int) -> None:
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if name in weights:
            expected = sinusoidal_positions(length, width, halves=True)
            if not np.allclose(weights.read(name, length, width), expected, atol=POSITIONS_APART):
                raise weights.refused(f"{name} are other positions than Marian's sines and cosines")
