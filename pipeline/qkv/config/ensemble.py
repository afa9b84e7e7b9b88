"""Checks that the models of several runs can translate as an ensemble, and gives each run a name."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from ..errors import InputError, invocation
from ..files.paths import sha256
from ..files.run_directory import RunDirectory
from .run import RunConfig, load_started_run

LANGUAGES = ("source_language", "target_language")


def check_members(runs: Sequence[RunDirectory]) -> None:
    """Checks that all runs have the same tokenizer and the same languages.

    Raises:
        InputError: the tokenizer or a language of a run differs from the first run's, or a config cannot be read.
    """
    first, *others = runs
    for other in others:
        tokenizers = first.tokenizer, other.tokenizer
        digests = [sha256(path)[:12] for path in tokenizers if path.is_file()]  # a missing file is reported on loading
        if len(set(digests)) > 1:
            files = " and ".join(
                f"{path} (SHA-256 {digest}...)" for path, digest in zip(tokenizers, digests, strict=True)
            )
            raise InputError(
                f"{first.root} and {other.root} have different tokenizers, {files}; the models of an ensemble need the "
                "same one. The same text with the same settings of data and tokenizer gives it, whatever the seed and "
                "the model: " + invocation("train", "--config", first.config, "--run.name", "NAME", "--run.seed", "2")
            )
        first_data = load_started_run(first.config).data
        other_data = load_started_run(other.config).data
        for name in LANGUAGES:
            language = getattr(first_data, name)
            other_language = getattr(other_data, name)
            if language != other_language:
                raise InputError(
                    f"{first.config} and {other.config} have different data.{name}, {language} and {other_language}; "
                    "the models of an ensemble must translate between the same languages"
                )


def check_members_search(config: RunConfig, other_runs: Sequence[RunDirectory]) -> None:
    """Checks that the models of all runs support the search, which the settings of the first run define.

    Args:
        config: the settings of the first run.
        other_runs: the other runs of the ensemble.

    Raises:
        InputError: `config` has a coverage penalty, but the model of another run has no cross-attention.
    """
    for run in other_runs:
        try:
            config.decoding.check_coverage(load_started_run(run.config).model)
        except ValueError as error:
            raise InputError(f"{run.config}: {error}") from None


def member_names(roots: Sequence[Path]) -> list[str]:
    """Returns a unique name for each run, given the folders of the runs.

    The name of a run is the name of its folder. If several folders have the same name, the second run gets the suffix
    `-2`, the third `-3`, and so on.
    """
    names: list[str] = []
    for root in roots:
        folder_name = Path(root).absolute().name
        candidates = (folder_name if number == 1 else f"{folder_name}-{number}" for number in count(1))
        names.append(next(candidate for candidate in candidates if candidate not in names))
    return names
