"""All settings of a run, `RunConfig`, and section `run`. Loads them from a YAML file, with changes by options.

Relative paths in settings are relative to the working directory.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, Self, Union

from pydantic import Field, Tag, create_model, field_validator, model_validator

from ..errors import InputError, invocation
from ..files.atomic import refuse_folder
from ..files.paths import name_problem
from ..files.run_directory import RunDirectory, check_version
from .batches import BatchSettings
from .corpus import CorpusSettings, ListedCorpusSettings
from .data import DataSettings
from .decoding import DecodingSettings
from .inspection import InspectionSettings
from .messages import parse_value, validate
from .model import Architecture, ArchitectureSettings, ModelSettings, TransformerSettings
from .schema import MAY_CHANGE, Settings, changeable_in_words, changeable_keys
from .tokenizer import TokenizerSettings
from .training import TrainingSettings
from .yaml import DEEPEST_NESTING, Origins, dump_yaml, read_yaml, replaced

__all__ = ["RunConfig", "load_run_config", "load_started_run", "load_trained_run"]


class RunSettings(Settings):
    """The run as a whole."""

    name: Annotated[str | None, MAY_CHANGE] = None
    """Name the run's folder. null: like the config file."""
    directory: Annotated[Path, MAY_CHANGE] = Path("runs")
    """Create the run's folder in this folder."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Seed the initial weights, the order of batches and dropout."""
    devices: Annotated[int | None, MAY_CHANGE] = Field(default=None, ge=0, le=1024)
    """Train on this many GPUs of the machine, the first ones. 0: on the processor; null: on all GPUs."""
    deterministic: Annotated[bool, MAY_CHANGE] = False
    """Make a GPU add numbers in the same order every time, so that the seed determines all results; slower."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str | None) -> str | None:
        if value is not None and (problem := name_problem(value)):
            raise ValueError(problem)
        return value


class RunConfig(Settings):
    """All settings of a run, by section."""

    run: RunSettings = RunSettings()
    """The run as a whole."""
    data: DataSettings
    """The parallel text: its languages and files, and the rules by which pairs are left out or added."""
    tokenizer: TokenizerSettings = TokenizerSettings()
    """The subword model that source and target share, trained on the training pairs."""
    batches: BatchSettings = BatchSettings()
    """The grouping of sentences into batches."""
    model: ModelSettings = TransformerSettings()
    """The model: its architecture, sizes and attention."""
    training: TrainingSettings
    """The optimiser, and when training ends: at the first of max_updates, max_epochs and max_minutes."""
    decoding: Annotated[DecodingSettings, MAY_CHANGE] = DecodingSettings()
    """The search for translations."""
    inspection: Annotated[InspectionSettings, MAY_CHANGE] = InspectionSettings()
    """The kinds of attention that are written and shown, and the sentences that are shown during training."""

    @model_validator(mode="after")
    def _sections_fit_together(self) -> Self:
        self.model.check_with(self.data)
        self.training.check_with(self.data, self.tokenizer, self.model)
        self.batches.check_with(self.model, self.training.xla is True)
        self.decoding.check_with(self.data, self.model)
        self.inspection.check_with(self.model)
        return self


def add_model_settings(name: str, meaning: str, settings: type[ArchitectureSettings]) -> type[ArchitectureSettings]:
    """Lets the section `model` have the settings of a further architecture. Plugins call it.

    Args:
        name: the value of `model.architecture` that chooses these settings.
        meaning: a description of the architecture, for help texts.
        settings: the class of the settings.

    Returns:
        A subclass of `settings`, in which `architecture` has the name as its default.
    """
    kind = settings.model_fields["architecture"]
    named_settings = create_model(
        f"{settings.__name__}_{name}",
        __base__=settings,
        architecture=(Architecture, Field(default=name, description=kind.description)),
    )
    named_settings.__doc__ = f"{meaning[:1].upper()}{meaning[1:]}."  # the help of `train` shows it
    field = RunConfig.model_fields["model"]
    field.annotation = Union[field.annotation, Annotated[named_settings, Tag(name)]]  # type: ignore[assignment]  # noqa: UP007
    RunConfig.model_rebuild(force=True)
    return named_settings


def load_run_config(
    path: str | Path, overrides: Mapping[str, Any] | None = None, origin: str = "command line"
) -> RunConfig:
    """Reads a config file. If the file does not set `run.name`, the run is named after the file.

    Args:
        path: the path of the file.
        overrides: values by dotted key, such as `model.d_model`, which replace values of the file.
        origin: the origin of `overrides`, for messages.

    Raises:
        InputError: the file is missing or is not a valid config; the message lists every mistake.
    """
    return make_run_config(*read_settings(Path(path)), Path(path).stem, overrides, origin)


def load_started_run(path: Path, overrides: Mapping[str, Any] | None = None, origin: str = "command line") -> RunConfig:
    """Reads the settings of a run that has been started, from the `config.yaml` in its folder.

    If the file does not set `run.name`, the run is named after its folder.

    Args:
        path: the path of the file.
        overrides: see `load_run_config`.
        origin: see `load_run_config`.

    Raises:
        InputError: the file is missing or is not a valid config, or the run was written by a version of qkv that this
            version cannot read.
    """
    check_version(path)
    return make_run_config(*read_settings(path), path.parent.name, overrides, origin)


def read_settings(path: Path) -> tuple[dict[str, Any], Origins]:
    """Reads a config file. The paths of pairs that are kept beside it are those of its folder, see `with_kept_pairs`.

    Returns and raises the same as `config.yaml.read_yaml`.
    """
    values, origins = read_yaml(path)
    return with_kept_pairs(values, RunDirectory(path.parent)), origins


def with_kept_pairs(values: dict[str, Any], run: RunDirectory) -> dict[str, Any]:
    """Returns the values of a run's config with the present paths of the pairs that the run keeps.

    A run that was trained on pairs in memory keeps them in its folder, which may have been moved since the config was
    written. The values of other runs are returned unchanged.

    Args:
        values: nested dicts, as a config file has them.
        run: the run, or the folder of a config file.
    """
    data = values.get("data")
    train = data.get("train") if isinstance(data, Mapping) else None
    if not isinstance(train, Mapping) or not run.pairs_origin.is_file():
        return values
    for key, value in train.items():
        if isinstance(value, str) and Path(value).parent.name == run.pairs.name:
            path = run.pairs / Path(value).name
            values = replaced(values, ["data", "train", key], str(path)) if path.is_file() else values
    return values


TUNED = ("beam_size", "length_penalty")
"""The settings of decoding that `evaluate.py --tune` chooses."""


def load_trained_run(run: RunDirectory, tuned: bool = True) -> RunConfig:
    """Reads the settings of a trained run, to translate with it.

    Args:
        run: the folder of the run.
        tuned: if True and the run has a `decoding.yaml`, the settings in `TUNED` are taken from it. All other settings
            are those of `config.yaml`.

    Raises:
        InputError: `config.yaml` cannot be read, see `load_started_run`; or `decoding.yaml` is not valid YAML, or has
            keys other than `TUNED` or wrong values.
    """
    config = load_started_run(run.config)
    if not tuned or not run.decoding.exists():
        return config
    refuse_folder(run.decoding)
    try:
        values, _ = read_yaml(run.decoding)
        if unknown := [str(key) for key in values if key not in TUNED]:
            raise InputError(
                f"{run.decoding}: expected {' and '.join(TUNED)}, as evaluate.py --tune writes them, found "
                f"{', '.join(unknown)}; delete the file, and set other keys in {run.config}"
            )
        return with_decoding_values(config, values, str(run.decoding))
    except InputError as error:
        if isinstance(error.__context__, PermissionError):
            raise
        advice = f"{invocation('evaluate', run.root, '--tune', 'off')} deletes {run.decoding.name}"
        raise InputError(f"{error}; {advice}") from error


def make_run_config(
    values: Mapping[str, Any],
    origins: Origins,
    default_name: str,
    overrides: Mapping[str, Any] | None = None,
    origin: str = "command line",
) -> RunConfig:
    """Creates all settings of a run from nested values and overrides, and checks them.

    Args:
        values: nested dicts, as a config file has them.
        origins: the origin of each dotted key, for messages.
        default_name: the name of the run if the values do not set `run.name`.
        overrides: see `load_run_config`.
        origin: see `load_run_config`.

    Raises:
        InputError: a value is wrong or contradicts other values; the message lists every mistake.
    """
    overrides = overrides or {}
    values = _with_sections_of_ancestor(values, overrides)
    data = values.get("data")
    has_list = isinstance(data, Mapping) and isinstance(data.get("train"), list)
    for key, value in overrides.items():
        if has_list and key.startswith("data.train."):
            name = f"--{key}"
            advice = "change the list in a config file"
            if origin == "settings":  # from Python
                name = f"settings: {key}"
                advice = "give a whole list as data.train"
            raise InputError(
                f"{name}: data.train is a list of corpora ({origins.get('data.train', 'config')}), so that the "
                f"option does not say which is meant; {advice}"
            )
        values = replaced(values, key.split("."), value)
    run = values.get("run", {})
    if isinstance(run, Mapping) and run.get("name") is None:
        values = replaced(values, ["run", "name"], default_name)
    return validate(RunConfig, values, {**origins, **dict.fromkeys(overrides, origin)})


ANCESTOR_SECTIONS = ("model", "tokenizer", "decoding")
"""The sections that a config without a section `model` takes from the run that its training starts from."""


def _with_sections_of_ancestor(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the values of a config that starts from another run, with the sections that it takes from that run.

    If the values have a section `model`, or `training.start_from` is not a run, the values are returned unchanged.

    Args:
        values: nested dicts, as a config file has them.
        overrides: see `load_run_config`.
    """
    training = values.get("training")
    in_file = training.get("start_from") if isinstance(training, Mapping) else None
    root = overrides.get("training.start_from", in_file)
    if "model" in values or not isinstance(root, str | Path):
        return values
    path = RunDirectory(Path(root)).config
    if not path.is_file():
        return values
    ancestor, _ = read_yaml(path)
    return {**{name: ancestor[name] for name in ANCESTOR_SECTIONS if name in ancestor}, **values}


def dotted_settings(settings: Any, argument: str = "settings") -> dict[str, Any]:
    """Flattens settings that the user passes in Python.

    Args:
        settings: a dictionary. It may be nested as in a config file, and keys may be dotted at any level.
        argument: the name of the argument, for messages.

    Returns:
        The value of each setting by dotted key, such as `{"model.d_model": 64}`.

    Raises:
        InputError: the settings are not a dictionary, a key is not text or has an empty part, an inner dictionary is
            empty or nested too deeply, or a key has two values.
    """
    values: dict[str, Any] = {}
    sections: set[str] = set()
    for key, value in _walk_settings(settings, "", argument):
        sections_of_key = [key[: dot.start()] for dot in re.finditer(r"\.", key)]
        clash = next((name for name in (key, *sections_of_key) if name in values), key if key in sections else None)
        if clash:
            raise InputError(f"{argument}: {clash:.60}: expected one value, found two; leave one out")
        values[key] = value
        sections.update(sections_of_key)
    return values


def _walk_settings(settings: Any, prefix: str, argument: str) -> Iterator[tuple[str, Any]]:
    """Yields the dotted key and the value of each setting in a nested dictionary; see `dotted_settings`."""
    if not isinstance(settings, Mapping):
        raise InputError(f'{argument}: expected a dictionary such as {{"model.d_model": 64}}, found {settings!r:.60}')
    if prefix.count(".") > DEEPEST_NESTING:
        raise InputError(f"{argument}: {prefix[:60]}: nested more than {DEEPEST_NESTING} levels deep")
    for name, value in settings.items():
        if not isinstance(name, str):
            raise InputError(f'{argument}: expected keys that are text, such as "model.d_model", found {name!r:.60}')
        if "" in name.split("."):
            raise InputError(f'{argument}: expected keys such as "model.d_model", found {name!r:.60}')
        if not isinstance(value, Mapping):
            yield f"{prefix}{name}", value
        elif value:
            yield from _walk_settings(value, f"{prefix}{name}.", argument)
        else:
            raise InputError(f"{argument}: {prefix}{name:.60}: an empty dictionary changes nothing; leave it out")


def dump(config: RunConfig) -> str:
    """Returns all settings of a run as YAML text. Loading the text gives an equal config."""
    return dump_yaml(config.model_dump(mode="json"))


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the dotted key and the value of every setting in nested dicts.

    Args:
        values: the nested dicts, for example from `RunConfig.model_dump`.
        prefix: text before each key, used for the keys of inner dicts.
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def settings_of_set(config: RunConfig, name: str, path: Path) -> CorpusSettings | Sequence[ListedCorpusSettings]:
    """Returns the settings in section `data` that define a set of sentence pairs.

    Args:
        config: all settings of the run.
        name: the name of the set: `train`, `validation` or `test`. For `train`, the result may be a list of corpora.
        path: the file of the config, for the message.

    Raises:
        InputError: the set is null in the config.
    """
    settings = getattr(config.data, name)
    if settings is None:
        raise InputError(f"{path}: data.{name} is null; give your own text with --source")
    return settings


CHANGEABLE_SETTINGS = changeable_in_words(RunConfig) + " (limits at which the learning rate reaches zero are kept)"
"""The settings that a resumed run may change, as text for messages and help texts."""


def changes_of_result(start: RunConfig, now: RunConfig, same: Callable[[Any, Any], bool] = operator.eq) -> list[str]:
    """Finds the changed settings because of which a training cannot be resumed: the changes would change its result.

    Args:
        start: the settings with which the training started.
        now: the settings with which it is to be resumed.
        same: a function of two values, as JSON has them. It returns True if they have the same meaning.

    Returns:
        A message for each of these settings, `KEY: VALUE AT THE START, not VALUE NOW`; an empty list if the training
        can be resumed.
    """
    before = dict(flat_settings(start.model_dump(mode="json")))
    after = dict(flat_settings(now.model_dump(mode="json")))
    keys = [key for key in {**before, **after} if not same(before.get(key), after.get(key))]
    changeable = {*changeable_keys(RunConfig)} - {f"training.{name}" for name in start.training.planned_limits}
    return [f"{key}: {before.get(key)}, not {after.get(key)}" for key in keys if key not in changeable]


def with_decoding(config: RunConfig, options: Mapping[str, Any]) -> RunConfig:
    """Applies the decoding options of a command to a config, and returns the changed config.

    Args:
        config: all settings of a run.
        options: the text of each option by its name, such as `beam_size`; None keeps the setting. Options other than
            settings of section `decoding` and `seed` are ignored.

    Raises:
        InputError: a value is wrong or contradicts other settings.
    """
    fields = {**DecodingSettings.model_fields, "seed": RunSettings.model_fields["seed"]}
    values = {}
    for name, field in fields.items():
        text = options.get(name)
        if text is not None:
            values[name] = parse_value(_decoding_key(name), field, text)
    return with_decoding_values(config, values, "command line")


def with_decoding_values(config: RunConfig, changes: Mapping[str, Any], origin: str | None = None) -> RunConfig:
    """Returns a copy of a config with changed settings of decoding.

    If `n_best` becomes larger than the beam size, the beam size becomes `n_best`, unless `beam_size` is changed too.

    Args:
        config: all settings of a run.
        changes: new values by the names of settings in section `decoding`; also by `seed`, the seed of sampling.
        origin: the origin of the changes, for messages.

    Raises:
        InputError: there is no such setting, or a value is wrong or contradicts other settings.
    """
    n_best = changes.get("n_best")
    if isinstance(n_best, Integral) and not isinstance(n_best, bool) and "beam_size" not in changes:
        changes = {**changes, "beam_size": max(n_best, config.decoding.beam_size)}
    values = config.model_dump()
    for name, value in changes.items():
        values = replaced(values, _decoding_key(name).split("."), value)
    changed = validate(RunConfig, values, dict.fromkeys(map(_decoding_key, changes), origin) if origin else {})
    if "seed" in changes and changed.decoding.search != "sampling":
        raise InputError("--seed: no effect in beam search; expected --search sampling as well")
    return changed


def _decoding_key(name: str) -> str:
    """Returns the dotted key of a setting in section `decoding`; `run.seed` for `seed`."""
    return "run.seed" if name == "seed" else f"decoding.{name}"
