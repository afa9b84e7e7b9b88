"""The settings of a run: what each means, its unit, its range and its default.

Read from YAML by `load_run_config`, with overrides from the command line by `pipeline.config_cli`, and saved into the
run by `save_run_config`. Relative paths are relative to the working directory.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.config_data import BatchSettings, CorpusSettings, DataSettings, TokenizerSettings
from pipeline.config_messages import validate
from pipeline.config_model import ModelSettings, RecurrentSettings, Settings, TransformerSettings
from pipeline.config_training import TrainingSettings
from pipeline.config_yaml import Origins, dump_yaml, read_yaml


class RunSettings(Settings):
    """The run as a whole."""

    name: str | None = Field(default=None, description="Name of the run's folder; the name of the config file if null.")
    directory: Path = Field(default=Path("runs"), description="Folder that holds the runs.")
    seed: int = Field(default=1, ge=0, lt=2**31, description="Seed of initial values, batch order and dropout.")

    @field_validator("name")
    @classmethod
    def _fit_for_a_folder(cls, value: str | None) -> str | None:
        if value is not None and (not value or value.startswith(".") or set(value) & set("/\\\0")):
            raise ValueError(f"expected the name of a folder, without slashes or a dot in front, found {value!r}")
        return value


class DecodingSettings(Settings):
    """How translations are made."""

    search: Literal["beam", "sampling"] = Field(
        default="beam", description="How translations are found: the best of several, or drawn by chance."
    )
    beam_size: int = Field(
        default=5, ge=1, description="Hypotheses of each sentence that beam search follows; 1: greedy search."
    )
    n_best: int = Field(default=1, ge=1, description="Translations found for each sentence; at most beam_size.")
    length_penalty: float = Field(
        default=1.0,
        ge=0,
        description="A hypothesis of n tokens is ranked by its log-probability divided by ((5 + n) / 6) to this power; "
        "0 favours short ones.",
    )
    coverage_penalty: float = Field(
        default=0.0,
        ge=0,
        description="Weight, in the ranking, of the logarithms of the attention that each source token got, up to 1.",
    )
    min_length: int = Field(default=0, ge=0, description="Fewest tokens of a translation before EOS.")
    no_repeat_ngram: int = Field(
        default=0, ge=0, description="No run of so many tokens stands twice in a translation; 0: any may."
    )
    temperature: float = Field(
        default=1.0, gt=0, description="Sampling: divides the logits; below 1 favours likely tokens."
    )
    top_k: int = Field(default=0, ge=0, description="Sampling: only so many likeliest tokens can be drawn; 0: all.")
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sampling: only the fewest likeliest tokens with this share of the probability can be drawn.",
    )
    batch_sentences: int = Field(default=64, ge=1, description="Sentences translated at once.")
    max_target_ratio: float = Field(
        default=2.0,
        ge=0,
        description="A translation ends after max_target_ratio * source tokens + max_target_extra tokens, "
        "at the latest.",
    )
    max_target_extra: int = Field(default=10, ge=1, description="Tokens; see max_target_ratio.")

    @property
    def kind(self) -> Literal["greedy", "beam", "sampling"]:
        """What the search is called."""
        return "greedy" if self.search == "beam" and self.beam_size == 1 else self.search

    @model_validator(mode="after")
    def _of_one_search(self) -> Self:
        if self.search == "sampling":
            return self
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best ({self.n_best}) can be at most beam_size ({self.beam_size})")
        fields = type(self).model_fields
        idle = [key for key in ("temperature", "top_k", "top_p") if getattr(self, key) != fields[key].default]
        if idle:
            raise ValueError(
                f"{' and '.join(idle)}: without effect in beam search; expected search: sampling beside it"
            )
        return self


class Probe(Settings):
    """A sentence to watch while the model learns."""

    source: str = Field(min_length=1, description="The sentence to translate, spelt as in the data.")
    reference: str | None = Field(default=None, description="A right translation, for comparison.")


class InspectionSettings(Settings):
    """What is shown of the attention."""

    probes: tuple[Probe, ...] = Field(
        default=(), description="Sentences shown in TensorBoard and as heat maps: a list of {source, reference}."
    )
    attention: tuple[Literal["cross", "norms", "gradients", "encoder", "decoder"], ...] = Field(
        default=("cross",),
        description="Which attention evaluate.py writes: a list of cross, encoder, decoder; norms, a Transformer's "
        "cross-attention with each weight times the length of the vector that it brings in; and gradients, gradient "
        "times input, which takes as long as all the rest.",
    )
    heatmap_sentences: int | None = Field(
        default=None,
        ge=0,
        description="First sentences of a set drawn as heat maps, besides probes; null: one where there are no probes.",
    )
    viewer_sentences: int = Field(
        default=1000, ge=0, description="First sentences of a set in viewer.html, the page that shows them all."
    )
    choose_head_on: CorpusSettings | None = Field(
        default=None,
        description="Pairs with gold alignments on which evaluate.py chooses the layer, head and label side that it "
        "reports; null: data.validation, where that has alignments.",
    )
    profile_updates: int = Field(
        default=0,
        ge=0,
        description="Updates that TensorFlow's profiler watches, once the first ten are over; 0: none. TensorBoard "
        "shows them with tensorboard-plugin-profile installed.",
    )
    sentences_per_shard: int = Field(default=256, ge=1, description="Sentences per file of the attention archive.")

    @property
    def drawn_sentences(self) -> int:
        """How many first sentences of a set are drawn as heat maps."""
        return int(not self.probes) if self.heatmap_sentences is None else self.heatmap_sentences


class RunConfig(Settings):
    """All settings of a run."""

    run: RunSettings = Field(default=RunSettings(), description="The run as a whole.")
    data: DataSettings = Field(description="The parallel text, and what happens to pairs that do not suit.")
    tokenizer: TokenizerSettings = Field(
        default=TokenizerSettings(),
        description="The subword model that source and target share, trained on the training pairs.",
    )
    batches: BatchSettings = Field(default=BatchSettings(), description="How sentences are put together for an update.")
    model: ModelSettings = Field(
        default=TransformerSettings(), description="The model: its architecture, sizes and attention."
    )
    training: TrainingSettings = Field(
        description="The optimiser, and how long it works: until the first of max_updates, max_epochs and max_minutes."
    )
    decoding: DecodingSettings = Field(default=DecodingSettings(), description="How translations are made.")
    inspection: InspectionSettings = Field(default=InspectionSettings(), description="What is shown of the attention.")

    @model_validator(mode="after")
    def _sentences_fit_the_positions(self) -> Self:
        for key in ("max_source_tokens", "max_target_tokens"):
            tokens = getattr(self.data, key)
            if tokens + 1 > self.model.max_positions:
                raise ValueError(
                    f"model.max_positions ({self.model.max_positions}) must exceed data.{key} ({tokens}): "
                    "BOS or EOS takes a position too"
                )
        return self

    @model_validator(mode="after")
    def _coverage_by_attention(self) -> Self:
        if self.decoding.coverage_penalty and getattr(self.model, "cross_attention", "") == "none":
            raise ValueError("decoding.coverage_penalty: a model without cross-attention covers nothing; expected 0")
        return self

    @model_validator(mode="after")
    def _a_head_that_can_be_guided(self) -> Self:
        guided = self.training.guided_attention
        if guided is None:
            return self
        key = "training.guided_attention"
        if self.data.train.alignments is None:
            raise ValueError(f"{key} needs data.train.alignments, a file with the word links of the training pairs")
        layers, heads = self.model.taught_heads
        if not layers:
            raise ValueError(
                f"{key} needs cross-attention with weights that are learnt: architecture transformer with mechanism "
                "softmax, or recurrent with a score function"
            )
        if guided.layer >= layers or guided.head >= heads:
            raise ValueError(
                f"{key}: the model has no head {guided.head} in decoder layer {guided.layer}; its {layers} layers and "
                f"{heads} heads are counted from 0"
            )
        return self

    @model_validator(mode="after")
    def _attention_that_there_is(self) -> Self:
        sites = self.inspection.attention
        if isinstance(self.model, RecurrentSettings) and not {"cross"} <= set(sites) <= {"cross", "gradients"}:
            raise ValueError(
                f"inspection.attention ({', '.join(sites)}): a recurrent model has no self-attention and no projected "
                "values; expected [cross] or [cross, gradients]"
            )
        if "norms" in sites and not isinstance(self.model, TransformerSettings):
            raise ValueError("inspection.attention: norms are those of a Transformer's cross-attention; leave them out")
        return self


def load_run_config(path: str | Path) -> RunConfig:
    """Reads a config file; `run.name`, where the file does not mention it, is the file's name.

    Raises:
        InputError: the file is missing or is no valid config; the message lists everything wrong with it.
    """
    values, origins = read_yaml(Path(path))
    return make_run_config(values, origins, default_name=Path(path).stem)


def make_run_config(values: Mapping[str, Any], origins: Origins, default_name: str) -> RunConfig:
    """Checks settings that came from files or the command line; `origins` says in errors where each came from."""
    run = values.get("run", {})
    named = {**values, "run": {"name": default_name, **run}} if isinstance(run, Mapping) else values
    return validate(RunConfig, named, origins)


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of nested sections with its dotted key."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def dump(config: RunConfig) -> str:
    """YAML text of all settings, which loads as an equal config."""
    return dump_yaml(config.model_dump(mode="json"))


def save_run_config(config: RunConfig, path: str | Path) -> None:
    """Writes `dump(config)`."""
    Path(path).write_text(dump(config), encoding="utf-8")
