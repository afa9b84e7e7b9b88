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
        tokenizers = first.tokenizer, other.tokenizer
        digests = [sha256(path)[:12] for path in tokenizers if path.is_file()]  # whoever loads a run misses its own
        if len(set(digests)) > 1:
            found = " and ".join(f"{path} (SHA-256 {own}...)" for path, own in zip(tokenizers, digests, strict=True))
            raise InputError(
                f"{first.root} and {other.root} have different tokenizers, {found}; the models of an ensemble need the "
                "same one. The same text with the same settings of data and tokenizer gives it, whatever the seed and "
                "the model: " + invocation("train", "--config", first.config, "--run.name", "NAME", "--run.seed", "2")
            )
        data = [load_started_run(run.config).data for run in (first, other)]
        for name in LANGUAGES:
            one, another = (getattr(own, name) for own in data)
            if one != another:
                raise InputError(
                    f"{first.config} and {other.config} have different data.{name}, {one} and {another}; the models of "
                    "an ensemble must translate between the same languages"
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
