"""The settings of a run: what each means, its unit, its range and its default.

Read from YAML by `load_run_config`, with overrides from the command line by `pipeline.config_cli`, and saved into the
run by `save_run_config`. Relative paths are relative to the working directory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.config_messages import validate
from pipeline.config_model import ModelSettings, Probability, RecurrentSettings, Settings, TransformerSettings
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


class CorpusSettings(Settings):
    """One corpus: two line-aligned text files, or a table with a column for each language."""

    source: Path | None = Field(default=None, description="Text file with a source sentence per line.")
    target: Path | None = Field(
        default=None, description="Text file with a target sentence per line, aligned with source."
    )
    table: Path | None = Field(
        default=None, description="Table with a sentence pair per row, instead of source and target."
    )
    source_column: str | int = Field(
        default=0, description="The table's column of source sentences: its number from 0, or its name in the header."
    )
    target_column: str | int = Field(default=1, description="The table's column of target sentences, likewise.")
    separator: str = Field(default="\t", description="The character between columns of the table.")
    header: bool = Field(default=False, description="Whether the table's first line names its columns.")
    split_column: str | int | None = Field(
        default=None, description="The table's column that says which split a row is in, by number or name."
    )
    split_file: Path | None = Field(
        default=None,
        description="File with the name of a split per line, aligned with the corpus, instead of split_column.",
    )
    split: str | None = Field(default=None, description="The split to read, as split_column or split_file spells it.")
    alignments: Path | None = Field(
        default=None,
        description="Gold word alignments in Pharaoh format (source-target, ? for possible), a line per pair.",
    )
    alignments_first_index: Literal[0, 1] = Field(default=0, description="Number of the first word in alignments.")
    alignments_turned: bool = Field(
        default=False, description="alignments is a file of the opposite direction: target-source."
    )

    @field_validator("separator")
    @classmethod
    def _one_character(cls, value: str) -> str:
        character = "\t" if value == r"\t" else value  # a shell passes '\t' on as it is
        if len(character) != 1:
            raise ValueError(f"expected one character, found {value!r}")
        return character

    @model_validator(mode="after")
    def _one_way_to_the_pairs(self) -> Self:
        files = (self.source is not None) + (self.target is not None)
        if (files == 2) == (self.table is not None) or files == 1:
            given = [key for key in ("source", "target", "table") if getattr(self, key) is not None]
            raise ValueError(f"expected either source and target or table, found {' and '.join(given) or 'neither'}")
        if self.table is None and (self.header or self.split_column is not None):
            raise ValueError("header and split_column describe a table, and no table is given")
        columns = (self.source_column, self.target_column, self.split_column)
        if self.table is not None and not self.header and any(isinstance(column, str) for column in columns):
            raise ValueError("columns can be named only where header is true: give their numbers from 0")
        if self.table is not None and self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column!r}")
        return self

    @field_validator("source_column", "target_column", "split_column")
    @classmethod
    def _columns_count_from_0(cls, value: str | int | None) -> str | int | None:
        if isinstance(value, int) and value < 0:
            raise ValueError("columns are counted from 0")
        return value

    @model_validator(mode="after")
    def _one_way_to_the_split(self) -> Self:
        if self.split_column is not None and self.split_file is not None:
            raise ValueError("expected either split_column or split_file, found both")
        if (self.split is None) != (self.split_column is None and self.split_file is None):
            raise ValueError("split needs split_column or split_file beside it, and they need split")
        return self


class DataSettings(Settings):
    """The parallel text, and what happens to pairs that do not suit."""

    source_language: str = Field(min_length=1, description="Language translated from, as a code: en.")
    target_language: str = Field(min_length=1, description="Language translated into, as a code: fr.")
    train: CorpusSettings = Field(
        description="The pairs trained on: two line-aligned text files, or a table with a column for each language."
    )
    validation: CorpusSettings = Field(description="The pairs that choose the best checkpoint.")
    test: CorpusSettings | None = Field(default=None, description="The pairs that evaluate.py scores.")
    tokenized: bool = Field(
        default=False,
        description="The text is divided into words by spaces already: BLEU is computed on it as it is.",
    )
    max_source_tokens: int = Field(
        default=128, ge=1, description="Longest source sentence trained on, in tokens without EOS."
    )
    max_target_tokens: int = Field(
        default=128, ge=1, description="Longest target sentence trained on, in tokens without EOS."
    )
    max_length_ratio: float = Field(
        default=9.0,
        ge=1,
        description="Largest ratio of the longer side's tokens to the shorter side's in training pairs.",
    )
    joined_pairs: float = Field(
        default=0.0,
        ge=0,
        description="Further training pairs, as a share of the others, made by joining two of them at random, within "
        "max_source_tokens and max_target_tokens: they teach sentences longer than those of the text.",
    )
    on_empty_side: Literal["drop", "error"] = Field(
        default="drop", description="What happens to a training pair with an empty side."
    )
    on_over_long: Literal["drop", "error"] = Field(
        default="drop", description="What happens to a training pair over max_source_tokens or max_target_tokens."
    )
    on_length_ratio: Literal["drop", "keep", "error"] = Field(
        default="keep", description="What happens to a training pair over max_length_ratio."
    )
    on_duplicate: Literal["drop", "keep", "error"] = Field(
        default="keep", description="What happens to a training pair seen before."
    )


class TokenizerSettings(Settings):
    """The subword model that source and target share, trained on the training pairs."""

    kind: Literal["unigram", "bpe"] = Field(
        default="bpe", description="How subwords are found: by merging frequent pairs, or by a unigram model."
    )
    vocabulary_size: int = Field(default=8000, ge=32, description="Number of tokens, the special ones among them.")
    character_coverage: float = Field(
        default=1.0,
        ge=0.9,
        le=1,
        description="Share of the text's characters that get a token; the rarest others become UNK.",
    )
    bpe_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="BPE-dropout: share of merges left out at random in the training text, so that words are also seen "
        "in smaller pieces.",
    )
    segmentations: int = Field(
        default=10,
        ge=1,
        description="With bpe_dropout: how many segmentations of the training text epochs take in turn.",
    )

    @model_validator(mode="after")
    def _only_bpe_has_merges(self) -> Self:
        if self.bpe_dropout and self.kind != "bpe":
            raise ValueError(f"bpe_dropout leaves out merges, which kind: {self.kind} does not have; take kind: bpe")
        return self


class BatchSettings(Settings):
    """How sentences are put together for an update."""

    batch_tokens: int = Field(default=4096, ge=1, description="Target tokens of an update, padding included, at most.")
    length_multiple: int = Field(default=4, ge=1, description="Padded lengths are multiples of this many tokens.")


class EarlyStoppingSettings(Settings):
    """Which checkpoint is best, and when training stops because it no longer gets better."""

    metric: Literal["loss", "bleu", "token_accuracy"] = Field(
        default="bleu", description="Validation metric by which the best checkpoint is chosen."
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        description="Validations in a row without a better metric before training stops; null: no limit.",
    )


class GuidedAttentionSettings(Settings):
    """One head of the cross-attention is taught to look where words are linked."""

    layer: int = Field(default=0, ge=0, description="The decoder layer, from 0.")
    head: int = Field(default=0, ge=0, description="The head of that layer, from 0.")
    side: Literal["input", "output"] = Field(
        default="input",
        description="Whose links a row is taught: those of the token that it reads, or of the one that it predicts.",
    )
    weight: float = Field(default=0.05, gt=0, description="Weight of this loss beside the cross-entropy.")


class TrainingSettings(Settings):
    """The optimiser, and how long it works: until the first of max_updates, max_epochs and max_minutes."""

    precision: Literal["auto", "float32", "mixed_bfloat16"] = Field(
        default="auto",
        description="Number format of the computation; auto: mixed_bfloat16 where the device is built for it.",
    )
    max_updates: int | None = Field(default=None, ge=1, description="Limit of training in updates; null: none.")
    max_epochs: int | None = Field(
        default=None, ge=1, description="Limit of training in passes over the data; null: none."
    )
    max_minutes: float | None = Field(default=None, gt=0, description="Limit of training in minutes; null: none.")
    label_smoothing: Probability = Field(
        default=0.1, description="Probability taken from the right token for all others."
    )
    optimizer: Literal["adam", "muon"] = Field(
        default="adam",
        description="What turns gradients into updates; muon: orthogonal ones for matrices (Jordan et al. 2024), adam "
        "for embeddings and vectors.",
    )
    learning_rate: float = Field(default=0.002, gt=0, description="Learning rate at its peak, when warm-up ends.")
    schedule: Literal["inverse_sqrt", "linear", "constant"] = Field(
        default="inverse_sqrt",
        description="How the learning rate goes on after warm-up; linear: to zero at max_updates.",
    )
    warmup_updates: int = Field(default=1000, ge=0, description="Updates over which the learning rate rises from zero.")
    beta_1: Probability = Field(default=0.9, description="Adam's decay of the mean of gradients, per update.")
    beta_2: Probability = Field(default=0.98, description="Adam's decay of the mean of squared gradients, per update.")
    epsilon: float = Field(default=1e-9, gt=0, description="Adam's guard against division by zero.")
    clip_norm: float = Field(
        default=1.0, ge=0, description="Longest gradient, as the norm over all variables; 0: no limit."
    )
    validate_every_updates: int = Field(
        default=500, ge=1, description="Updates from a validation and checkpoint to the next."
    )
    log_every_updates: int = Field(
        default=50, ge=1, description="Updates from one logged line of training to the next."
    )
    keep_checkpoints: int = Field(
        default=2, ge=1, description="Number of recent checkpoints kept besides the best: a damaged one gives way."
    )
    average_checkpoints: int = Field(
        default=1,
        ge=1,
        description="The model is the mean of the weights of so many last checkpoints, which are kept too, if that is "
        "better on validation than the best single one; 1: no mean.",
    )
    early_stopping: EarlyStoppingSettings = Field(
        default=EarlyStoppingSettings(),
        description="Which checkpoint is best, and when training stops because it no longer gets better.",
    )
    guided_attention: GuidedAttentionSettings | None = Field(
        default=None,
        description="Teaches a head the word links of data.train.alignments; null: attention goes where it likes.",
    )

    @model_validator(mode="after")
    def _training_ends(self) -> Self:
        if self.max_updates is None and self.max_epochs is None and self.max_minutes is None:
            raise ValueError("expected at least one of max_updates, max_epochs and max_minutes, found none of them")
        if self.schedule == "linear" and (self.max_updates is None or self.max_updates <= self.warmup_updates):
            raise ValueError(
                f"schedule linear needs max_updates above warmup_updates ({self.warmup_updates}), "
                f"found {'null' if self.max_updates is None else self.max_updates}"
            )
        return self


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
    heatmap_sentences: int = Field(
        default=1, ge=0, description="First sentences of a set drawn as heat maps, besides probes."
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
    sentences_per_shard: int = Field(default=100, ge=1, description="Sentences per file of the attention archive.")


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


def dump(config: RunConfig) -> str:
    """YAML text of all settings, which loads as an equal config."""
    return dump_yaml(config.model_dump(mode="json"))


def save_run_config(config: RunConfig, path: str | Path) -> None:
    """Writes `dump(config)`."""
    Path(path).write_text(dump(config), encoding="utf-8")
