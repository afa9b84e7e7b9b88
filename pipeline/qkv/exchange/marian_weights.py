"""The weights of a Marian folder: readers of its file formats, and the arrays by the names of a run's variables."""

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
from .marian_vocabulary import MISSING_ROW, MarianVocabulary

NUMBERS = ("F64", "F32", "F16", "BF16")
"""The number types that are read, by their names in safetensors."""


class StoredArray(NamedTuple):
    """An array in a file.

    - shape: the shape of the array.
    - read: a function that returns the array as float32.
    """

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


class MarianWeights:
    """The arrays of a Marian folder by name, and a check that every array has been read.

    Args:
        folder: the folder. If it has several files of weights, the first of `OPENERS` is read.

    Attributes:
        path: the file of weights.

    Raises:
        InputError: the folder has no file of weights, the file is damaged, or it is a pickle and PyTorch is not
            installed.
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
            raise self.error(first_line(error)) from None
        self._unread = set(self._arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def read(self, name: str, *shape: int) -> np.ndarray:
        """Reads an array as float32.

        Args:
            name: the name of the array in PyTorch.
            shape: the expected shape.

        Raises:
            InputError: the array is missing, damaged, has another shape, or has numbers that are not finite.
        """
        stored_shape = self._arrays[name].shape if name in self._arrays else "nothing"
        if stored_shape != shape:
            raise self.error(f"{name}: expected shape {shape}, as config.json says, found {stored_shape}")
        self._unread.discard(name)
        try:
            array = self._arrays[name].read()
        except DAMAGE as error:
            raise self.error(f"{name}: {error}") from None
        if not np.isfinite(array).all():
            raise self.error(f"{name} has numbers that are not finite")
        return array

    def ignore(self, name: str) -> None:
        """Marks an array as read, so that `check_all_read` does not report it. The name may be missing."""
        self._unread.discard(name)

    def check_all_read(self) -> None:
        """Raises an `InputError` if an array has not been read: it would be missing from the imported model."""
        if self._unread:
            raise self.error(f"{len(self._unread)} arrays do not belong to the model, such as {min(self._unread)[:80]}")

    def error(self, reason: str) -> InputError:
        """Returns an error about the file of weights, with its path and the reason."""
        return InputError(f"{self.path}: {reason}; expected the weights of a MarianMTModel")


def open_safetensors(path: Path) -> dict[str, StoredArray]:
    """Opens `model.safetensors`. Returns its arrays by their names, which are PyTorch's.

    Raises:
        ValueError: the file is damaged, its arrays overlap or are incomplete, or an array has a type that is not in
            `NUMBERS`.
    """
    try:
        file: Any = safe_open(path, "np")
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    arrays: dict[str, StoredArray] = {}
    for name in file.keys():  # noqa: SIM118 (the file is not a dict)
        stored = file.get_slice(name)
        if (kind := stored.get_dtype()) not in NUMBERS:
            raise ValueError(f"{name[:80]}: expected numbers of type {', '.join(NUMBERS)}, found {kind}")
        read = partial(lambda name: file.get_tensor(name).astype("float32", copy=False), name)
        arrays[name] = StoredArray(tuple(stored.get_shape()), read)
    return arrays


def _open_hdf5(path: Path) -> dict[str, StoredArray]:
    """Opens `tf_model.h5`, which transformers before version 5 wrote. Returns its arrays by their names in PyTorch.

    Raises:
        ValueError: the file is damaged.
    """
    file = h5py.File(path)
    check_groups(file)
    arrays = {}

    def add_array(hdf5_name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            # Keras stores the kernels of dense layers transposed.
            is_kernel = hdf5_name.split("/")[-1].startswith("kernel")
            convert = np.transpose if is_kernel else np.asarray
            shape = item.shape[::-1] if is_kernel else item.shape
            arrays[torch_name(hdf5_name)] = StoredArray(shape, lambda: convert(np.asarray(item, "float32")))

    file.visititems(add_array)
    return arrays


def torch_name(hdf5_name: str) -> str:
    """Returns the name in PyTorch of an array in `tf_model.h5`.

    An example: `.../encoder/layers.0/fc1/kernel:0` is `model.encoder.layers.0.fc1.weight`.
    """
    hdf5_name = hdf5_name.removesuffix(":0")
    if "final_logits_bias" in hdf5_name:
        return "final_logits_bias"
    if "shared" in hdf5_name:
        return "model.shared.weight"
    parts = re.split(r"/(?=(?:encoder|decoder)/(?!.*/(?:encoder|decoder)/))", f"/{hdf5_name}")[-1].split("/")
    last = {"kernel": "weight", "gamma": "weight", "beta": "bias", "embeddings": "weight"}
    return ".".join(["model", *parts[:-1], last.get(parts[-1], parts[-1])])


def _open_pickle(path: Path) -> dict[str, StoredArray]:
    """Opens `pytorch_model.bin`, a pickle. Returns its arrays by their names, which are PyTorch's.

    Raises:
        InputError: PyTorch is not installed.
        ValueError: PyTorch cannot read the file with `weights_only`, or it does not hold tensors by name.
    """
    torch = import_optional(
        "torch",
        f"{path}: the file is a pickle, which only PyTorch can read safely; install the package torch, or convert it "
        "where torch and transformers are installed: MarianMTModel.from_pretrained(FOLDER).save_pretrained(FOLDER)",
    )
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch's own errors of unpickling, and of its zip files
        raise ValueError(f"PyTorch cannot read it with weights_only: {first_line(error)[:200]}") from None
    if not isinstance(loaded, dict) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise ValueError("expected a dictionary from names to arrays")
    return {
        str(name): StoredArray(tuple(value.shape), partial(lambda value: value.float().contiguous().numpy(), value))
        for name, value in loaded.items()
    }


# File name -> the function that opens the file, in the order of preference.
OPENERS: Mapping[str, Callable[[Path], dict[str, StoredArray]]] = {
    "model.safetensors": open_safetensors,
    "tf_model.h5": _open_hdf5,
    "pytorch_model.bin": _open_pickle,
}


BANNED_TOKEN_BIAS = -30.0
"""The output bias of a token that is never predicted. A probability times `exp(-30)` vanishes in a float32 sum."""

POSITION_TOLERANCE = 5e-3
"""The largest allowed difference of stored positions. Files in half precision round them."""


class MarianLayer(NamedTuple):
    """The names and axes of a dense layer or a layer normalisation in Marian and in a run.

    - torch_names: the names in PyTorch. There are several if the layer of the run concatenates the outputs of several
      layers in PyTorch.
    - name: the name in the run, without the name of the model.
    - axes: the kind of each axis of the weight: `width` (of the model), `heads` (all heads together) or `hidden` (of
      the feed-forward layer). A dense layer has two axes, inputs and outputs. A normalisation has one axis.
    """

    torch_names: Sequence[str]
    name: str
    axes: Sequence[str]

    @property
    def arrays(self) -> tuple[str, str]:
        """The names in the run of the two arrays that PyTorch calls `weight` and `bias`."""
        names = ("kernel", "bias") if len(self.axes) == 2 else ("gamma", "beta")
        return f"{self.name}/{names[0]}", f"{self.name}/{names[1]}"


def marian_layers(encoder_layers: int, decoder_layers: int) -> Iterator[MarianLayer]:
    """Yields the dense layers and layer normalisations of all blocks of a model with these numbers of layers."""
    for side, blocks in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        for number in range(blocks):
            torch_block = f"model.{side}.layers.{number}"
            block = f"{side}_{number}"
            parts = [f"{torch_block}.self_attn.{name}_proj" for name in "qkv"]
            yield MarianLayer(parts, f"{block}/self_attention/qkv", ["width", "heads"])
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
            for torch_layer, (layer, *axes) in layers.items():
                yield MarianLayer([f"{torch_block}.{torch_layer}"], f"{block}/{layer}", axes)


def read_arrays(weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary) -> dict[str, np.ndarray]:
    """Reads all weights of a Marian folder, in the form of the run's model.

    Call it before the model is built: if `config.json` claims wrong sizes, no memory has been allocated for them.

    Args:
        weights: the arrays of the folder.
        config: the settings of the folder.
        vocabulary: the vocabulary of the run.

    Returns:
        The arrays by the names of the weights in the run's model. A name is a path without the name of the model, such
        as `target_embedding/table`.

    Raises:
        InputError: an array is missing, damaged, has another shape or numbers that are not finite, or does not belong
            to the model; or the stored positional encodings are not Marian's.
    """
    width = config.model["d_model"]
    arrays = _read_embeddings(weights, config, vocabulary)
    output = "output" if config.model["tie_embeddings"] == "none" else "target"
    arrays[f"{output}_embedding/bias"] = _read_output_bias(weights, config, vocabulary)
    sizes = {"width": width, "heads": width, "hidden": config.model["d_ff"]}
    for layer in marian_layers(config.model["encoder_layers"], config.model["decoder_layers"]):
        shape = [sizes[axis] for axis in layer.axes]
        kernels = [weights.read(f"{name}.weight", *shape[::-1]).T for name in layer.torch_names]
        biases = [weights.read(f"{name}.bias", shape[-1]) for name in layer.torch_names]
        kernel, bias = layer.arrays
        arrays |= {kernel: np.concatenate(kernels, axis=-1), bias: np.concatenate(biases)}
    _check_positions(weights, config.model["max_positions"], width)
    weights.check_all_read()
    return arrays


def assign_arrays(model: keras.Model, arrays: dict[str, np.ndarray]) -> None:
    """Assigns the result of `read_arrays` to the trainable weights of a model. The arrays must have the
    names and shapes of these weights."""
    variables = {variable.path.split("/", 1)[1]: variable for variable in model.trainable_variables}
    assert variables.keys() == arrays.keys()
    for name, variable in variables.items():
        variable.assign(arrays[name])


def _read_embeddings(
    weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary
) -> dict[str, np.ndarray]:
    """Reads the embedding tables.

    Returns:
        The tables by their names in the run, such as `target_embedding/table`. Each is float32 `(V, width)`, in the
        order of the run's ids. Rows of pieces that the side does not have are 0.

    Raises:
        InputError: see `read_arrays`; or tables that the config declares to be equal differ.
    """
    shared, output = "model.shared.weight", "lm_head.weight"
    source, target = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    tie = config.model["tie_embeddings"]
    # Table of the run -> the names in PyTorch under which a folder may hold it.
    torch_names = {"target": [target, output], "source": [source]}
    if tie == "all":
        torch_names = {"target": [shared, source, target, output]}
    elif tie == "none":
        torch_names = {"target": [target], "source": [source], "output": [output]}
        if source in weights and target in weights:
            weights.ignore(shared)  # transformers 5 writes it, and does not read it
    tables = {}
    for table, names in torch_names.items():
        size = config.source_size if table == "source" else config.target_size
        present = [name for name in names if name in weights] or [shared]
        copies = [weights.read(name, size, config.model["d_model"]) for name in present]
        if any(not np.array_equal(copies[0], copy) for copy in copies[1:]):
            raise weights.error(f"{' and '.join(present)} differ, but config.json declares them as one table")
        rows = vocabulary.source if table == "source" else vocabulary.target
        tables[f"{table}_embedding/table"] = np.where(rows[:, None] == MISSING_ROW, np.float32(0), copies[0][rows])
    return tables


def _read_output_bias(weights: MarianWeights, config: MarianConfig, vocabulary: MarianVocabulary) -> np.ndarray:
    """Returns the output bias in the order of the run's ids, float32 `(V,)`.

    `BANNED_TOKEN_BIAS` is added for tokens that are never predicted.
    """
    marian_bias = np.zeros(config.target_size, "float32")
    if "final_logits_bias" in weights:
        marian_bias = weights.read("final_logits_bias", 1, config.target_size)[0]
    banned = [token for token in config.banned if token != config.start]  # all searches ban BOS anyway
    marian_bias[banned] += BANNED_TOKEN_BIAS
    bias = np.where(vocabulary.target == MISSING_ROW, np.float32(BANNED_TOKEN_BIAS), marian_bias[vocabulary.target])
    if not config.has_start_piece:
        bias[BOS] = marian_bias[config.start] + BANNED_TOKEN_BIAS
    return bias


def _check_positions(weights: MarianWeights, length: int, width: int) -> None:
    """Raises an `InputError` if the folder stores positional encodings that are not Marian's.

    Args:
        weights: the arrays of the folder.
        length: the expected number of positions.
        width: the expected width of the encodings.
    """
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if name in weights:
            expected = sinusoidal_positions(length, width, halves=True)
            if not np.allclose(weights.read(name, length, width), expected, atol=POSITION_TOLERANCE):
                raise weights.error(f"{name}: expected Marian's sines and cosines of positions, found other numbers")
