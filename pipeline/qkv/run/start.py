"""The start of a training, before TensorFlow is loaded: reads the settings, and checks the paths that they name.

The text may also be pairs in memory. Then they are written into temporary files, whose later copies in the run are the
training files of the config.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ..config import RunConfig, load_run_config
from ..config.ancestor import check_ancestor
from ..config.run import CHANGEABLE_SETTINGS, changes_of_result, load_started_run, make_run_config, read_settings
from ..config.yaml import Origins, replaced
from ..errors import InputError, invocation
from ..files.paths import (
    check_folder_to_write,
    check_path,
    check_text,
    check_writable,
    matching_files,
    new_name_problem,
)
from ..files.run_directory import RunDirectory, find_run
from ..runtime.cluster import read_cluster
from ..runtime.plugin_files import loaded_plugins
from .proposal import default_set_size, default_settings

if TYPE_CHECKING:
    from ..text.corpora.pairs_in_memory import SpooledPairs


def load_training(
    path: Path, overrides: Mapping[str, Any], origin: str = "command line", *, resumes: bool
) -> tuple[RunConfig, Path | None]:
    """Reads the settings of a training from a config file, or from the folder of a run to continue.

    Args:
        path: the config file or the folder.
        overrides, origin: see `config.run.load_run_config`.
        resumes: True if `path` is the folder of a run to continue, False if it is a config file.

    Returns:
        `(config, run)`: the settings, and the folder of the run to continue; None for a new run. The run of a config
        file is continued if the same settings have started it before.

    Raises:
        InputError: as for `load_run_config`; or there is no run to continue, an override would change the result of the
            run, or a run of this name was started with other settings.
    """
    if resumes:
        path = find_run(path)
        started = path / "config.yaml"
        if not started.is_file():
            raise InputError(f"{path}: there is no run to resume here: {started} is missing")
        config = load_started_run(started, overrides, origin)
        if changes := changes_of_result(load_started_run(started), config):
            raise InputError(
                f"--{', --'.join(changes)}: a resumed run keeps its settings, except {CHANGEABLE_SETTINGS}; "
                "for other settings start a new run with --config and --run.name"
            )
        _refuse_saved(path)
        return config, path
    config = load_run_config(path, overrides, origin)
    return config, _find_started(config)


def load_given_training(settings: Mapping[str, Any]) -> tuple[RunConfig, Path | None]:
    """Reads the settings of a training that the user has passed from Python, without a config file.

    Args:
        settings: all settings that differ from their defaults, by dotted key. Without `run.name`, the run is named
            after its languages, such as en_de.

    Returns and raises the same as `load_training`.
    """
    config = make_run_config({}, {}, _name_of_languages(settings), settings, "settings")
    return config, _find_started(config)


def _name_of_languages(settings: Mapping[str, Any]) -> str:
    """Returns the default name of a run without a config file: its two languages, such as en_de."""
    return "_".join(str(settings.get(f"data.{side}_language", "")) for side in ("source", "target"))


def _find_started(config: RunConfig) -> Path | None:
    """Returns the folder of a run if these settings have started it already; None for a new run.

    Raises:
        InputError: the run was started with other settings, or no run can have its name.
    """
    run = config.run.directory / str(config.run.name)
    started = run / "config.yaml"
    _refuse_saved(run)
    if not started.is_file():
        if problem := new_name_problem(run.name):
            raise InputError(f"run.name: {problem}; name the run: --run.name NAME")
        return None
    if changes := changes_of_result(load_started_run(started), config):
        shown = "\n  ".join(changes)
        raise InputError(
            f"{run}: the run exists already, and was started with other settings:\n  {shown}\nResume it unchanged: "
            f"{invocation('train', '--resume', run)}; start another one: --run.name NAME; or delete the folder"
        )
    return run


def load_training_on_pairs(
    config: Path | Mapping[str, Any], settings: Mapping[str, Any], pairs: Any, folder: Path
) -> "tuple[RunConfig, Path | None, SpooledPairs]":
    """Reads the settings of a training on pairs in memory, and writes the pairs into temporary files.

    The settings are checked before the pairs are read, so that no iterator is used up in vain.

    Args:
        config: a config file, whose sets of text are replaced; the folder of a run that was started with the same
            pairs; or all settings by dotted key, to which `default_settings` adds.
        settings: values that replace those of the config, by dotted key. In `data.train`, only the columns and how
            links are counted may be set.
        pairs: the pairs, see `text.corpora.pairs_in_memory.spool_pairs`.
        folder: the folder for the temporary files.

    Returns:
        The settings, whose training files are in the folder of the run; the folder of a run to continue, None for a new
        run; and the pairs.

    Raises:
        InputError: as for `load_training` and `spool_pairs`; or the run was started with other text, or the training
            has several workers.
    """
    if read_cluster():
        raise InputError(
            "pairs: a training on several machines reads files that all of them have; write the pairs into files, and "
            "name these as data.train"
        )
    started = None
    if isinstance(config, Path) and config.is_dir():
        columns, _, others = _divide_settings(settings)
        run_config, started = load_training(config, others, "settings", resumes=True)
        run = RunDirectory(config)
        if run.pairs not in [getattr(corpus.source, "parent", None) for corpus in run_config.data.training_corpora]:
            raise InputError(
                f"{config}: the run was trained on files, and keeps its text; start a new run with its settings: "
                f"qkv.train({str(run.config)!r}, {{'run.name': NAME}}, pairs=...)"
            )
        spooled = _spool(pairs, folder, run_config, columns)
    else:
        draft = _PairsDraft.of(config, settings)
        run_config = draft.check()
        run = RunDirectory(run_config.run.directory / str(run_config.run.name))
        spooled = _spool(pairs, folder, run_config, draft.columns)
        run_config = draft.complete(spooled, run)
    spooled.check_same(run)
    return run_config, started or _find_started(run_config), spooled


def _spool(pairs: Any, folder: Path, config: RunConfig, columns: Mapping[str, Any]) -> "SpooledPairs":
    """Writes pairs into temporary files; see `text.corpora.pairs_in_memory.spool_pairs`."""
    from ..text.corpora.pairs_in_memory import spool_pairs  # not at the top: `--help` needs no NumPy

    languages = config.data.source_language, config.data.target_language
    return spool_pairs(pairs, folder, languages, (columns.get("source_column"), columns.get("target_column")))


def _divide_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Divides settings, by dotted key, into columns of the pairs, settings of their links, and all others.

    The first two are by the names in `data.train`. Raises an `InputError` if the settings name training files.
    """
    columns, links, others = {}, {}, {}
    for key, value in settings.items():
        name = key.removeprefix("data.train.")
        if name in ("source_column", "target_column"):
            columns[name] = value
        elif name in ("alignments_first_index", "alignments_turned"):
            links[name] = value
        elif key == "data.train" or name != key:
            raise InputError(f"settings: {key:.60}: the training text is either in files or in pairs, found both")
        else:
            others[key] = value
    return columns, links, others


@dataclass(frozen=True)
class _PairsDraft:
    """The settings of a new training on pairs in memory, before the pairs are read.

    Attributes:
        values: the values of the config file, nested, without sets of text that belong to other training text.
        origins: the origin of each of these values, for messages.
        name: the name of the run, unless the settings have another.
        columns: the columns of the pairs, by `source_column` and `target_column`; only those that are named.
        links: the settings of the links of the pairs, by their names in `data.train`.
        settings: all other settings of the user, by dotted key.
        has_defaults: whether settings that nobody has chosen are those of `default_settings`, not those of the schema.
    """

    values: dict[str, Any]
    origins: Origins
    name: str
    columns: Mapping[str, Any]
    links: Mapping[str, Any]
    settings: Mapping[str, Any]
    has_defaults: bool

    @classmethod
    def of(cls, config: Path | Mapping[str, Any], settings: Mapping[str, Any]) -> "_PairsDraft":
        """Reads the settings; see `load_training_on_pairs`."""
        if not isinstance(config, Path):
            columns, links, others = _divide_settings({**config, **settings})
            return cls({}, {}, _name_of_languages(others), columns, links, others, has_defaults=True)
        columns, links, others = _divide_settings(settings)
        values, origins = read_settings(config)
        data = values.get("data")
        if isinstance(data, Mapping):
            train = data.get("train")
            if isinstance(train, Mapping):
                named = {key: train[key] for key in ("source_column", "target_column") if key in train}
                columns = named | columns
            dropped = {"train", *(name for name in ("validation", "test") if not _is_drawn(data.get(name)))}
            dropped.update(name for name in ("validation", "test") if _names_set(others, name))
            values["data"] = {name: value for name, value in data.items() if name not in dropped}
        return cls(values, origins, config.stem, columns, links, others, has_defaults=False)

    def check(self) -> RunConfig:
        """Returns the settings as if there were 1,000 pairs with links; raises an `InputError` if they are wrong."""
        files = {key: Path(key) for key in ("source", "target", "alignments")}
        return self._make(files, default_set_size(1000), default_settings(1000, 40_000, 1000, 100, self.settings))

    def complete(self, pairs: "SpooledPairs", run: RunDirectory) -> RunConfig:
        """Returns the settings for these pairs, whose training files are in the folder of the run."""
        sizes = pairs.count, pairs.sizes["target"], pairs.words, pairs.characters
        return self._make(pairs.files_in(run), default_set_size(pairs.count), default_settings(*sizes, self.settings))

    def _make(self, files: Mapping[str, Path], set_size: int, defaults: Mapping[str, Any]) -> RunConfig:
        """Makes all settings.

        Args:
            files: the training files by the settings that name them.
            set_size: the number of pairs of a set for which the user has chosen nothing.
            defaults: the result of `default_settings`.
        """
        values = self.values
        if isinstance(values.get("data", {}), Mapping):
            links = self.links if "alignments" in files else {}
            texts = {key: str(path) for key, path in files.items()}
            values = replaced(values, ["data", "train"], {**texts, **links})
            for name in ("validation", "test"):
                if name not in values["data"] and not _names_set(self.settings, name):
                    values = replaced(values, ["data", name], {"pairs": set_size})
        for key, value in defaults.items() if self.has_defaults else ():
            values = replaced(values, key.split("."), value)
        return make_run_config(values, self.origins, self.name, self.settings, "settings")


def _is_drawn(section: Any) -> bool:
    """Returns whether a set in a config file, `data.validation` or `data.test`, is held out from the training text."""
    return isinstance(section, Mapping) and any(section.get(key) is not None for key in ("share", "pairs"))


def _names_set(settings: Mapping[str, Any], name: str) -> bool:
    """Returns whether settings, by dotted key, have a set of text: `validation` or `test`."""
    return any(f"{key}.".startswith(f"data.{name}.") for key in settings)


def _refuse_saved(run: Path) -> None:
    """Raises an `InputError` if `Run.save` wrote the run in a folder."""
    directory = RunDirectory(run)
    if directory.is_saved():
        name = directory.argument
        raise InputError(
            f"{name}: its model was saved by run.save, so there is no training to continue; train a new run that "
            f"starts from it: --training.start_from {name} --run.name NAME"
        )


def refuse_imported(config: RunConfig, path: str | Path) -> None:
    """Raises an `InputError` if a config belongs to an imported run, which cannot be trained.

    Args:
        config: the settings.
        path: the file or folder of the config, for the message.
    """
    if config.tokenizer.kind == "given" and config.training.start_from is None:
        data = {f"data.{name}": getattr(config.data, name) for name in ("train", "validation")}
        missing = [key for key, value in data.items() if value is None]
        if config.training.has_no_limit:
            missing.append("training.max_updates (or max_epochs, max_minutes)")
        has = f"; it has no {', '.join(missing)}" if missing else ""
        raise InputError(
            f"{path}: tokenizer.kind is given, so this is an imported run, which "
            f"is not trained itself{has}. Train a new run that starts from it: --training.start_from RUN with text and "
            f"a limit, or use it with {invocation('evaluate')} and {invocation('translate')}"
        )


def check_config_paths(config: RunConfig, pairs: "SpooledPairs | None" = None) -> None:
    """Checks the paths in the config of a new run.

    Args:
        config: the settings.
        pairs: the pairs in memory that will be copied to the training files of the config; None if these files exist.

    Raises:
        InputError: a file is missing or is not text, the files of a corpus do not match, a folder cannot be written,
            or `training.start_from` is not a run that fits the config.
    """
    if pairs is not None:
        train = config.data.training_corpora[0].model_copy(update=pairs.spooled_files())
        config = config.model_copy(update={"data": config.data.model_copy(update={"train": train})})
    data = config.data
    links = {corpus.alignments for corpus in data.training_corpora}
    for file in files_of_text(config):
        check_path(file)
        if file in links and not file.exists():
            raise InputError(
                f"{file}: there is no such file of links (data.train.alignments); "
                f"`{invocation('link')} CONFIG` writes the links of the training text; or check the path, which starts "
                f"at {Path.cwd()}"
            )
        check_text(file, pipes=False)  # it is read more than once
    for corpus in (*data.training_corpora, data.validation, data.test):
        if corpus is not None:
            corpus.file_sets()
    if data.cache is not None:
        check_folder_to_write(data.cache)
    check_writable(config.run.directory / str(config.run.name))
    if config.training.start_from is not None:
        check_ancestor(config)
        RunDirectory.open(config.training.start_from).check_weights()


def files_of_text(config: RunConfig) -> list[Path]:
    """Returns the files of the text that a config names. Raises an `InputError` if no file matches a pattern."""
    paths = _paths(config.data.model_copy(update={"cache": None}))
    return [file for path in paths for file in matching_files(path)]


def inputs_of_training(config: RunConfig) -> list[Path]:
    """Returns the files and folders that a training reads, except its config.

    Raises:
        InputError: no file matches a pattern.
    """
    start_from = config.training.start_from
    of_run = [] if start_from is None else RunDirectory(find_run(start_from)).inputs
    return [*files_of_text(config), *of_run, *loaded_plugins()]


def _paths(section: BaseModel) -> Iterator[Path]:
    """Yields all paths in a section of a config and in the sections inside it."""
    for _, value in section:
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Path):
                yield item
            elif isinstance(item, BaseModel):
                yield from _paths(item)
