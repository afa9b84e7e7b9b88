"""Models in memory as runs, and the folder of such a run.

A model that was trained without `train.py`, for example by `fit`, becomes a run with a tokenizer and a config. Until it
is saved, the run has a temporary folder with everything that a run needs except the model and the manifest.
"""

import atexit
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import keras
import numpy as np

from ..config import RunConfig
from ..config.ancestor import MAY_DIFFER
from ..config.data import DataSettings
from ..config.messages import as_yaml
from ..config.run import dotted_settings, dump, flat_settings, load_started_run, load_trained_run, make_run_config
from ..config.yaml import Origins, read_yaml, replaced
from ..errors import InputError, first_line
from ..files.atomic import new_folder, replaced_when_done, write_atomically
from ..files.json import read_json_if_whole
from ..files.paths import new_name_problem, sha256
from ..files.run_directory import SAVED, RunDirectory
from ..inspection.experiments.score_parts import copy_weights
from ..model.build import MODELS, build_model, describe_model
from ..model.interface import TranslationModel
from ..text.corpora.held_out import with_held_out_files
from ..text.tokens.marian_tokenizer import MarianTokenizer
from ..text.tokens.run_tokenizer import load_tokenizer
from ..text.tokens.tokenizer import Tokenizer
from .keras_batches import KerasBatches
from .manifest import golden_logits, same_logits, write_manifest
from .trained_run import TrainedRun, digest_weights, load_run
from .weights import halve_weights_file


def with_model(run: TrainedRun, model: Any) -> TrainedRun:
    """Returns a run in memory with the config, the tokenizer and the text of a run, and another model.

    Args:
        run: the run.
        model: a built model that the `model` section of the run's config describes.

    Raises:
        InputError: the model does not fit the config or the vocabulary of the run.
    """
    return replace(run_of_model(model, run, run.config), origin=_origin_of(run))


def run_of_model(
    model: Any,
    tokenizer: TrainedRun | KerasBatches | Tokenizer | Path,
    config: RunConfig | Mapping[str, Any] | Path | None = None,
) -> TrainedRun:
    """Makes a run in memory of a model.

    Args:
        model: a built model of an architecture, or of a subclass.
        tokenizer: the tokenizer with which the model was trained: of a run or of batches, whose text styles and
            held-out sets are copied as well; a tokenizer; or the path of a run or of a SentencePiece model.
        config: the settings, as a config, nested or dotted in a dict, or the path of a config file. None for those of
            the run or of the batches. The section `model` is checked if it is there, and otherwise derived from the
            model. It is also derived for None.

    Returns:
        The run. Its folder is temporary, and is deleted when the process ends.

    Raises:
        InputError: an argument is of another kind, or the model, the tokenizer and the config do not fit together.
    """
    _check_model(model)
    source = _folder_of(tokenizer)
    files = _load_tokenizer(tokenizer, source)
    size = model.output_embedding.vocabulary_size
    if size != files.vocabulary_size:
        raise InputError(
            f"model: expected the vocabulary of the tokenizer, {files.vocabulary_size} ids, found a model of {size}"
        )
    is_of_source = config is None or (isinstance(tokenizer, TrainedRun) and config == tokenizer.config)
    if is_of_source:
        if source is None:
            raise InputError("config: expected settings, since a tokenizer alone has no languages; found None")
        values = load_started_run(source.config).model_dump(mode="json")
        origins: Origins = {}
        if config is None:
            del values["model"]
    else:
        values, origins = _read_settings(config)
    settings = _complete_settings(values, origins, model, files)
    directory = RunDirectory(_temporary_folder() / str(settings.run.name))
    directory.root.mkdir()
    if source is None:
        write_atomically(directory.own_tokenizer, files.model)
    else:
        _copy_parts(source, directory, tuned=is_of_source)
    directory.write_config(dump(settings))
    settings = with_held_out_files(load_trained_run(directory), directory)
    tagged = files.with_tag(settings.decoding.tag)
    origin = {"model": type(model).__name__}
    run = TrainedRun(directory, settings, tagged, model, directory.model, origin=origin)
    if type(model) in MODELS.values():
        _plain_model(run)
    return run


def save_run(run: TrainedRun, path: Path, dtype: str = "float32") -> TrainedRun:
    """Writes the folder of a run with the present weights of its model. If it fails, no folder is left behind.

    The folder has the model, the tokenizer, the config, the settings that `evaluate.py --tune` has chosen, the styles
    of the training text and the held-out sets. It has no checkpoints and no encoded text: no training can continue it.

    Args:
        run: a loaded run, or a run in memory.
        path: the folder, which must not exist yet.
        dtype: the type of the weights in the file, `float32` or `float16`.

    Returns:
        The run, loaded from the folder.

    Raises:
        InputError: `dtype` is neither, or a weight is too large for it; the folder exists, cannot be written or has a
            name that is not allowed; or the class of the model is not registered, or the config does not describe the
            model, so that no command could load it.
    """
    if dtype not in ("float32", "float16"):
        raise InputError(f"dtype: expected float32 or float16, found {dtype!r:.60}")
    path = path.absolute()
    if problem := new_name_problem(path.name):
        raise InputError(f"path: {problem}")
    model_class = type(run.model)
    if model_class not in MODELS.values():
        known = ", ".join(registered.__name__ for registered in MODELS.values())
        raise InputError(
            f"{path}: no command could load {model_class.__name__}, which is not a registered architecture; expected "
            f"one of {known}; register the class by qkv.plugins.register_architecture, or save the model alone: "
            "run.model.save('model.keras')"
        )
    model = _plain_model(run)
    if dtype == "float16":
        _round_to_float16(model)
    settings = load_started_run(run.directory.config)
    section = settings.run.model_copy(update={"name": path.name, "directory": path.parent})
    settings = settings.model_copy(update={"run": section})
    with new_folder(path, "writes this folder") as hidden:
        directory = RunDirectory(hidden)
        _copy_parts(run.directory, directory)
        directory.write_config(dump(settings))
        with replaced_when_done(directory.model) as temporary:
            model.save(temporary)
            if dtype == "float16":
                halve_weights_file(temporary)
        entries = {**_manifest_entries(run), "values_sha256": digest_weights(model), "dtype": dtype}
        write_manifest(settings, directory, model, run.tokenizer, entries)
        saved = load_run(hidden)  # as every command does
    directory = RunDirectory(path)
    settings = with_held_out_files(load_trained_run(directory), directory)
    return replace(saved, directory=directory, config=settings, weights=directory.model)


def _check_model(model: Any) -> None:
    """Raises an `InputError` unless `model` is a built model of an architecture, or of a subclass."""
    if not isinstance(model, TranslationModel) or not issubclass(type(model), tuple(MODELS.values())):
        names = ", ".join(model_class.__name__ for model_class in MODELS.values())
        raise InputError(
            f"model: expected a model of class {names} or of a subclass, found {type(model).__name__}; of a model "
            "around one, give the inner model"
        )
    if not model.weights:
        raise InputError("model: expected a trained model, found one without weights; fit it, or load its weights")


def _folder_of(tokenizer: Any) -> RunDirectory | None:
    """Returns the folder of the run that `tokenizer` stands for; None if it stands for no run."""
    if isinstance(tokenizer, TrainedRun | KerasBatches):
        return tokenizer.directory
    return RunDirectory.open(tokenizer) if isinstance(tokenizer, Path) and tokenizer.is_dir() else None


def _load_tokenizer(tokenizer: Any, source: RunDirectory | None) -> Tokenizer:
    """Returns the tokenizer that the argument of `run_of_model` stands for, without a tag of `decoding.tag`.

    Args:
        tokenizer: the argument.
        source: the result of `_folder_of`.

    Raises:
        InputError: the argument is of another kind, or a file is no tokenizer or has other special ids.
    """
    if source is not None:
        return load_tokenizer(source.tokenizer)
    if isinstance(tokenizer, MarianTokenizer) or not isinstance(tokenizer, Tokenizer | Path):
        raise InputError(
            "tokenizer: expected a run, qkv.batches, a tokenizer of one of them, or the path of a SentencePiece model, "
            f"found {type(tokenizer).__name__}"
        )
    if isinstance(tokenizer, Path) and not tokenizer.exists():
        raise InputError(f"tokenizer: {tokenizer}: no such file; expected a run, or a SentencePiece model")
    files = tokenizer.with_tag(None) if isinstance(tokenizer, Tokenizer) else Tokenizer(tokenizer)
    files.check_special_ids("tokenizer")
    return files


def _read_settings(config: Any) -> tuple[dict[str, Any], Origins]:
    """Returns the values of a config, nested, and their origins for messages.

    Raises:
        InputError: the config is of another kind, or its file cannot be read.
    """
    if isinstance(config, RunConfig):
        return config.model_dump(mode="json"), {}
    if isinstance(config, Path):
        return read_yaml(config)
    values: dict[str, Any] = {}
    for key, value in dotted_settings(config).items():
        values = replaced(values, key.split("."), value)
    return values, {}


def _complete_settings(
    values: Mapping[str, Any], origins: Origins, model: TranslationModel, tokenizer: Tokenizer
) -> RunConfig:
    """Returns the config of a run in memory.

    The section `model` is completed by the model. Without a section `tokenizer`, the tokenizer counts as given, so that
    text and limits of a training may be missing.

    Args:
        values: the nested values that the user gives.
        origins: the origin of each dotted key, for messages.
        model: the model.
        tokenizer: the tokenizer.

    Raises:
        InputError: a setting is wrong, or contradicts the model or the tokenizer.
    """
    try:
        derived = describe_model(model)
    except ValueError as error:
        raise InputError(f"model: a config cannot describe it: {first_line(error)}") from None
    section = values.get("model") or {}
    mistake = "model: expected the settings of the model, which are also derived if they are left out; found "
    if not isinstance(section, Mapping):
        raise InputError(f"{mistake}{section!r:.60}")
    architecture = derived["architecture"]
    if section.get("architecture", architecture) != architecture:
        raise InputError(f"model.architecture: expected {architecture}, found {section['architecture']!r:.60}")
    chosen = derived
    for key, value in flat_settings(section):
        chosen = replaced(chosen, key.split("."), value)
    data = values.get("data") or {}
    longest = derived.get("max_positions", DataSettings.model_fields["max_source_tokens"].default + 1) - 1
    defaults: dict[str, Any] = {"train": None, "validation": None}
    for key in ("max_source_tokens", "max_target_tokens"):
        defaults[key] = min(DataSettings.model_fields[key].default, longest)
    size = {"vocabulary_size": tokenizer.vocabulary_size}
    vocabulary = values.get("tokenizer", {"kind": "given"})
    complete = {
        **values,
        "data": {**defaults, **data} if isinstance(data, Mapping) else data,
        "tokenizer": {**size, **vocabulary} if isinstance(vocabulary, Mapping) else vocabulary,
        "model": chosen,
        "training": values.get("training", {}),
    }
    config = make_run_config(complete, origins, default_name="model")
    described = make_run_config({**complete, "model": derived}, origins, default_name="model")
    if config.tokenizer.vocabulary_size != tokenizer.vocabulary_size:
        raise InputError(
            f"tokenizer.vocabulary_size: the tokenizer has {tokenizer.vocabulary_size} ids, found "
            f"{config.tokenizer.vocabulary_size} in the config"
        )
    actual = dict(flat_settings(described.model.model_dump(mode="json"), "model."))
    wrong = [
        f"{key}: {as_yaml(actual.get(key))} in the model, {as_yaml(value)} in the config"
        for key, value in flat_settings(config.model.model_dump(mode="json"), "model.")
        if value != actual.get(key) and not MAY_DIFFER.fullmatch(key)
    ]
    if wrong:
        listed = "\n  ".join(wrong)
        raise InputError(
            f"model: the config describes another model:\n  {listed}\nGive the config of this model, or leave its "
            "section model out"
        )
    return config


def _temporary_folder() -> Path:
    """Returns a new folder that is deleted when the process ends, since results of evaluations may lie in it."""
    folder = Path(mkdtemp(prefix="qkv-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _copy_parts(source: RunDirectory, target: RunDirectory, tuned: bool = True) -> None:
    """Copies what belongs to the text of a run: its tokenizer, the styles of its text, and its held-out sets.

    Args:
        source: the run.
        target: the folder of the copy.
        tuned: whether the settings that `evaluate.py --tune` has chosen are copied too.
    """
    target.copy_tokenizer(source)
    names = ("source_look", "target_look", "decoding") if tuned else ("source_look", "target_look")
    for name in names:
        if (file := getattr(source, name)).is_file():
            write_atomically(getattr(target, name), file.read_bytes())
    if source.held_out.is_dir():
        for file in sorted(source.held_out.iterdir()):
            if file.is_file():
                write_atomically(target.held_out / file.name, file.read_bytes())


def _plain_model(run: TrainedRun) -> keras.Model:
    """Returns a new model of the run's config with the present weights, in which LoRA matrices are merged.

    Raises:
        InputError: the weights do not fit the config or are not finite, or the model of the config computes something
            else.
    """
    for variable in run.model.weights:
        if not np.isfinite(keras.ops.convert_to_numpy(variable)).all():
            raise InputError(f"model: {variable.path} has numbers that are not finite: the training has diverged")
    size = run.tokenizer.vocabulary_size
    plain = build_model(run.config.model, size)
    advice = "the config does not describe the model; its layers may have been replaced"
    try:
        copy_weights(run.model, plain)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"model: {advice}: {first_line(error)}") from None
    if not same_logits(golden_logits(run.model, size), golden_logits(plain, size), run.model.dtype_policy.name):
        raise InputError(f"model: {advice}: with equal weights, the model of the config gives other logits")
    return plain


def _round_to_float16(model: keras.Model) -> None:
    """Rounds the weights of a model to float16; raises an `InputError` if one is too large."""
    for variable in model.variables:
        if keras.backend.is_float_dtype(variable.dtype):
            with np.errstate(over="ignore"):
                values = keras.ops.convert_to_numpy(variable).astype("float16")
            if not np.isfinite(values).all():
                raise InputError(f"dtype: {variable.path} has numbers too large for float16; expected float32")
            variable.assign(values)


def _origin_of(run: TrainedRun) -> dict[str, Any]:
    """Returns the entry `saved_from` of the manifest: the run from which a model comes.

    A model that comes from no run is described by its class.
    """
    if run.origin is not None:
        return dict(run.origin)
    weights = run.weights.relative_to(run.directory.root).as_posix()
    return {"run": str(run.directory.root), "weights": weights, "weights_sha256": sha256(run.weights)}


def _manifest_entries(run: TrainedRun) -> dict[str, Any]:
    """Returns the entries of the manifest of a saved run that tell the origin of its weights.

    - weights: `SAVED`.
    - saved_from: see `_origin_of`.
    - changed: whether the weights differ from those that were loaded; true for a model that was read from no run.
    - lora: `ranks`, the ranks of LoRA matrices, and `merged`, true if there were any: they are added to the weights.
    - data_sha256: the digests of the training text, if the folder of the run has them.
    """
    ranks = {weight.shape[-1] for weight in run.model.weights if weight.name in ("lora_a", "lora_kernel_a")}
    return {
        "weights": SAVED,
        "validation": {},
        "data_sha256": read_json_if_whole(run.directory.manifest).get("data_sha256", {}),
        "saved_from": _origin_of(run),
        "changed": run.is_changed,
        "lora": {"ranks": sorted(ranks), "merged": bool(ranks)},
    }
