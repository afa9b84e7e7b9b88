"""Checks that the models of several runs can translate together, and names the runs."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from ..errors import InputError, invocation
from ..files.paths import sha256
from ..files.run_directory import RunDirectory
from .run import RunConfig, load_started_run

LANGUAGES = ("source_language", "target_language")


def check_members(runs: Sequence[RunDirectory]) -> None:
    """Raises an `InputError` if two runs have different tokenizers, or name different languages."""
    first, *others = runs
    for other in others:
        _check_tokenizers(first, other)
        _check_languages(first, other)


def _check_tokenizers(first: RunDirectory, other: RunDirectory) -> None:
    if not (first.tokenizer.is_file() and other.tokenizer.is_file()):
        return  # whoever loads the run says so
    digests = [sha256(run.tokenizer) for run in (first, other)]
    if digests[0] != digests[1]:
        pairs = zip((first, other), digests, strict=True)
        found = " and ".join(f"{run.tokenizer} (SHA-256 {digest[:12]}...)" for run, digest in pairs)
        raise InputError(
            f"{first.root} and {other.root} have different tokenizers, {found}; the models of an ensemble need the "
            f"same one, or there is nothing to average. Training on the same text with the same settings of data and "
            f"tokenizer gives the same tokenizer, whatever the seed and the model: "
            + invocation("train", "--config", first.config, "--run.name", "NAME", "--run.seed", "2")
        )


def _check_languages(first: RunDirectory, other: RunDirectory) -> None:
    data = [load_started_run(run.config).data for run in (first, other)]
    for name in LANGUAGES:
        found = [getattr(one, name) for one in data]
        if found[0] != found[1]:
            raise InputError(
                f"{first.config} and {other.config} have different data.{name}, {found[0]} and {found[1]}; the models "
                "of an ensemble must translate between the same languages"
            )


def check_members_search(config: RunConfig, others: Sequence[RunDirectory]) -> None:
    """Raises an `InputError` if the model of a further run cannot be searched as the first run's config says."""
    for run in others:
        try:
            config.decoding.check_coverage(load_started_run(run.config).model)
        except ValueError as error:
            raise InputError(f"{run.config}: {error}") from None


def member_names(roots: Sequence[Path]) -> list[str]:
    """Returns a name for each run: its folder's, with a number behind it from the second of a name on."""
    names: list[str] = []
    for root in roots:
        name = Path(root).absolute().name
        numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
        names.append(next(one for one in numbered if one not in names))
    return names
