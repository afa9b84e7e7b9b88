"""Systems: evaluations of runs, and attention archives without a run, read from disk to be compared or shown."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, Field, StrictFloat, StrictInt, StrictStr, ValidationError

from ..config import RunConfig
from ..config.run import load_started_run
from ..errors import InputError, invocation
from ..files.json import read_json_object
from ..files.run_directory import EvaluationDirectory, RunDirectory, find_evaluation
from ..inspection.archive import AttentionArchive
from ..inspection.matched_heads import MatchedHeads, match_heads
from ..inspection.viewer.data import Words
from .archive_scores import archive_metrics, score_alignments
from .page import page_facts
from .tables import read_result_csv, read_translations


@dataclass(frozen=True)
class ComparedArchive:
    """A system without a run: an attention archive.

    Its properties read files at their first use, and raise an `InputError` if a file is damaged.

    Args:
        name: the name of the system in tables and messages.
        evaluation: the folder of the archive.
    """

    name: str
    evaluation: EvaluationDirectory

    @cached_property
    def archive(self) -> AttentionArchive:
        """The attention archive."""
        return AttentionArchive(self.evaluation.attention)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The content of `metrics.json`. If `qkv measure` has not written the file, the metrics are computed."""
        if self.evaluation.metrics.is_file():
            return read_metrics(self.evaluation.metrics)
        readouts = score_alignments(self.archive, self.name, self.archive.gold)
        return archive_metrics(self.archive, self.name, readouts, bleu_tokenizer=None)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The table of the sentences, with the columns `source`, `reference` and, unless the targets are references,
        `translation`.

        Raises:
            InputError: there are no sentences, or a translation has no reference.
        """
        lines = pd.DataFrame(self.archive.lines)
        if lines.empty:
            raise InputError(f"{self.name}: no sentences to compare")
        if self.mode == "forced":
            return pd.DataFrame({"source": lines["source"], "reference": lines["hypothesis"]})
        if (without := lines["reference"].isna()).any():
            sentence = lines["id"][without].iloc[0]
            raise InputError(f"{self.name}: sentence {sentence} has no reference; write the archive with references")
        return lines[["source", "reference", "hypothesis"]].rename(columns={"hypothesis": "translation"})

    @property
    def seed(self) -> int | None:
        """The seed of the run; None if it is unknown, or for an ensemble."""
        return None

    @property
    def bleu_tokenizer(self) -> str | None:
        """The tokenizer of BLEU; None if the archive was never scored, so that any tokenizer may be used."""
        return self.metrics.get("bleu_tokenizer")

    @property
    def mode(self) -> str | None:
        """`forced` if the targets are references, `translated` if the model searched for them; None if unknown."""
        return self.metrics.get("mode")

    def key_without_seed(self) -> str:
        """Returns a key that is equal for evaluations that differ only in the seed of their runs.

        The seed of an archive without a run is unknown, so its key is unique.
        """
        return str(self.evaluation.root.resolve())

    def facts(self) -> dict[str, Any]:
        """Returns the columns of the comparison that are not tested, see `evaluation.comparison.compare`.

        They are AER, loss, search, seed, parameters, updates and minutes. A value that is unknown is None. The
        parameters of all models of an ensemble are added up.
        """
        return {
            "AER": self.metrics.get("alignment", {}).get("aer"),
            "loss": self.metrics.get("loss"),
            "search": self.metrics.get("search", ""),
            "seed": self.seed,
            **dict.fromkeys(("parameters", "updates", "minutes")),
        }


@dataclass(frozen=True)
class ComparedRun(ComparedArchive):
    """A system with a run: an evaluation.

    Its properties read files at their first use, and raise an `InputError` if a file is damaged.

    Args:
        name: the name of the system in tables and messages.
        evaluation: the folder of the evaluation.
        run: the folder of the run.

    Raises:
        InputError: the evaluation lacks `metrics.json` or `translations.tsv`.
    """

    run: RunDirectory

    def __post_init__(self) -> None:
        for file in (self.evaluation.metrics, self.evaluation.translations):
            if not file.is_file():
                evaluate = invocation("evaluate", self.run.argument)
                raise InputError(f"{self.evaluation.root}: {file.name} is missing; evaluate the run first: {evaluate}")

    @cached_property
    def config(self) -> RunConfig:
        """The run's settings."""
        return load_started_run(self.run.config)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The table of `translations.tsv`.

        Raises:
            InputError: the file is damaged, or has no references.
        """
        table = read_translations(self.evaluation.translations)
        if "reference" not in table:
            raise InputError(f"{self.evaluation.translations}: no column 'reference'; evaluate with references")
        return table

    @property
    def members(self) -> list[dict[str, Any]]:
        """The entry `members` of `metrics.json`: a dict for each model of an ensemble; empty for a single run."""
        return self.metrics.get("members", [])

    @property
    def seed(self) -> int | None:
        return None if self.members else self.config.run.seed

    @property
    def bleu_tokenizer(self) -> str:
        return super().bleu_tokenizer or self.config.data.scoring_tokenizer

    def key_without_seed(self) -> str:
        settings = self.config.model_dump(mode="json", exclude={"run", "inspection"})
        decoding = {key: value for key, value in self.metrics.get("decoding", {}).items() if key != "batch_sentences"}
        # The kind of checkpoint: `last` is a checkpoint of another update in each run.
        checkpoint = Path(self.metrics.get("checkpoint", "model.keras")).stem.partition("-")[0]
        corpus = read_manifest(self.run).get("data_sha256")
        evaluated = [self.bleu_tokenizer, self.mode or "translated", checkpoint, self.metrics.get("search"), decoding]
        return json.dumps([settings, corpus, evaluated, *self.members], sort_keys=True)

    def facts(self) -> dict[str, Any]:
        last: Any = {}
        if not self.members and self.run.history.is_file():
            history = read_result_csv(self.run.history, {"update": float, "minutes": float}, command="train.py")
            last = history.iloc[-1] if len(history) else {}
        parameters = sum(member["parameters"] for member in self.members) or read_manifest(self.run).get("parameters")
        return super().facts() | {
            "search": self._search(),
            "parameters": parameters,
            "updates": last.get("update"),
            "minutes": last.get("minutes"),
        }

    def _search(self) -> str:
        """Returns the search as the table shows it, such as `beam 5, length penalty 0.6`."""
        name = self.metrics.get("search", "")
        decoding = self.metrics.get("decoding", {})
        if self.members:
            name = f"ensemble of {len(self.members)}, {name}"
        if not name.endswith("beam") or not decoding:
            return name
        penalty = decoding.get("length_penalty", 1.0)
        return f"{name} {decoding.get('beam_size', '')}" + (f", length penalty {penalty:g}" if penalty != 1 else "")


def find_system(path: Path, set_name: str) -> ComparedArchive:
    """Finds the system at a path, see `files.run_directory.find_evaluation`.

    Args:
        path: the folder of a run, of an evaluation or of an attention archive.
        set_name: the name of the evaluation, if the path is a run.

    Returns:
        A `ComparedRun`; or a `ComparedArchive` if there is no run.

    Raises:
        InputError: the path has neither an evaluation nor an archive; or the evaluation is incomplete.
    """
    run, evaluation = find_evaluation(path, set_name)
    return ComparedArchive(str(path), evaluation) if run is None else ComparedRun(str(path), evaluation, run)


class _Decoding(BaseModel):
    beam_size: StrictFloat = 1
    length_penalty: StrictFloat = 1


class _Alignment(BaseModel):
    aer: StrictFloat | None = None


class _Member(BaseModel):
    parameters: Annotated[StrictInt, Field(ge=0, le=10**18)]


class _Metrics(BaseModel):
    """The keys of `metrics.json` that are read. All of them may be missing."""

    bleu_tokenizer: StrictStr | None = None
    mode: StrictStr | None = None
    checkpoint: StrictStr = ""
    search: StrictStr = ""
    bleu: StrictFloat | None = None
    chrf: StrictFloat | None = None
    loss: StrictFloat | None = None
    decoding: _Decoding = _Decoding()
    alignment: _Alignment = _Alignment()
    members: list[_Member] = []


class _Manifest(BaseModel):
    """The keys of a run's `manifest.json` that are read."""

    parameters: StrictInt | None = None
    data_sha256: dict[str, Any] = {}


def read_metrics(path: Path) -> dict[str, Any]:
    """Reads the `metrics.json` of an evaluation.

    Raises:
        InputError: the file is damaged.
    """
    return _read_json(path, _Metrics)


def read_manifest(run: RunDirectory) -> dict[str, Any]:
    """Reads the `manifest.json` of a run. Returns an empty dict while the run is in training.

    Raises:
        InputError: the file is damaged.
    """
    return _read_json(run.manifest, _Manifest) if run.manifest.is_file() else {}


def _read_json(path: Path, schema: type[BaseModel]) -> dict[str, Any]:
    """Reads a JSON object, and checks its values against a schema. Keys that are not in the schema are returned, too.

    Raises:
        InputError: the file is damaged.
    """
    try:
        value = read_json_object(path)
        schema.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        value_text = str(first["input"])[:40]
        raise InputError(
            f"{path}: {key} cannot be {value_text!r}; restore the file, or evaluate the run again"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}; evaluate the run again") from None
    return value


def read_page_facts(run: RunDirectory | None, evaluation: EvaluationDirectory | None) -> list[Words]:
    """Reads the facts about a run for the header of its page, see `evaluation.page.page_facts`.

    Args:
        run: the folder of the run; None if there is none.
        evaluation: the folder of the evaluation; None if there is none.

    Returns:
        The facts. An empty list if there is no run or its settings cannot be read: the page shows attention without
        them.
    """
    if run is None:
        return []
    try:
        config = load_started_run(run.config)
    except InputError:
        return []
    parameters, metrics = None, {}
    with suppress(InputError):
        parameters = read_manifest(run).get("parameters")
    with suppress(InputError):
        metrics = read_metrics(evaluation.metrics) if evaluation else {}
    return page_facts(config, parameters, metrics)


def match_to_first(systems: Sequence[ComparedArchive]) -> list[MatchedHeads | None]:
    """Matches the heads of each system but the first to the first system's heads.

    Args:
        systems: the systems.

    Returns:
        For each system but the first: the match of its heads, see `inspection.matched_heads.match_heads`; or None if
        the heads cannot be matched.

    Raises:
        InputError: an archive is missing or damaged.
    """
    baseline, *archives = [AttentionArchive(system.evaluation.attention) for system in systems]
    return [
        match_heads(zip(baseline.records(["cross"]), archive.records(["cross"]), strict=False)) for archive in archives
    ]
