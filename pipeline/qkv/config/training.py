"""The settings of training: section `training`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from ..errors import invocation
from .choices.inspection import LABEL_SIDES
from .choices.model import MODEL_PARTS, PARTS_MISSING, WHOLE_MODEL
from .choices.training import CALLBACK_INFO, OPTIMIZER_MEANINGS, REFUSED_CALLBACKS, SCHEDULE_INFO
from .choices.translation import METRIC_INFO
from .data import DataSettings
from .model import ArchitectureSettings
from .schema import MAY_CHANGE, MOST_COUNTED, OneOf, Probability, Settings
from .tokenizer import TokenizerSettings

PLAIN = (str, int, float, bool, type(None))
CallbackName = Annotated[str, OneOf(lambda: CALLBACK_INFO, extensible=True)]
MetricName = Annotated[str, OneOf(lambda: [name for name, row in METRIC_INFO.items() if row.chooses], extensible=True)]


class CallbackSettings(Settings):
    """A callback of the training, and the arguments of its constructor."""

    name: CallbackName
    """Call this callback."""
    arguments: dict[str, Any] = Field(default={})
    """Construct the callback with these arguments: text, numbers, true, false, null."""

    @field_validator("name", mode="before")
    @classmethod
    def _refuse_unsuitable(cls, value: Any) -> Any:
        if isinstance(value, str) and (name := value.removeprefix("keras.callbacks.")) in REFUSED_CALLBACKS:
            raise ValueError(f"keras.callbacks.{name} cannot be used here: {REFUSED_CALLBACKS[name]}")
        return value.removeprefix("keras.callbacks.") if isinstance(value, str) else value

    @field_validator("arguments")
    @classmethod
    def _check_arguments(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, argument in value.items():
            items = argument if isinstance(argument, list) else [argument]
            if not all(isinstance(item, PLAIN) for item in items):
                raise ValueError(f"{name}: expected text, a number, true, false, null or a list of these")
        return value


class StartSettings(Settings):
    """The start of a training: its first weights, the parts that stay frozen, and further callbacks."""

    start_from: Path | None = None
    """Start from the weights and the tokenizer of the run in this folder, and from its section model if the config has
    none. null: fresh weights."""
    freeze: tuple[Annotated[str, OneOf(MODEL_PARTS)], ...] = ()
    """Freeze these parts of the model: their weights do not change in training."""
    callbacks: tuple[CallbackSettings, ...] = ()
    """Call these callbacks too, after those of every training: a list of {name, arguments}, see
    docs/extend/plugins.md."""


class EarlyStoppingSettings(Settings):
    """The choice of the best checkpoint, and the end of a training whose validation no longer improves."""

    metric: MetricName = "bleu"
    """Choose the best checkpoint by this validation metric."""
    patience: int | None = Field(default=None, ge=1, le=MOST_COUNTED)
    """Stop after this many validations in a row without improvement. null: never."""


class GuidedAttentionSettings(Settings):
    """The guidance of one head of the cross-attention by word links (Garg et al. 2019)."""

    layer: int = Field(default=0, ge=0, le=1000)
    """Guide a head of this decoder layer, counted from 0."""
    head: int = Field(default=0, ge=0, le=1024)
    """Guide this head of the layer, counted from 0."""
    side: Annotated[str, OneOf(LABEL_SIDES)] = "input"
    """Train each row of attention with the links of its token on this side."""
    weight: float = Field(default=0.05, ge=1e-12, le=1000)
    """Weigh the loss of guided attention by this number, relative to the cross-entropy."""
    unlinked: Literal["nothing", "eos"] = "nothing"
    """Train rows whose word has no link to attend to this. nothing: they are left out; eos: to the source's EOS."""


class LimitSettings(Settings):
    """The limits of training, which ends as soon as one of them is reached."""

    max_updates: Annotated[int | None, MAY_CHANGE] = Field(default=None, ge=1, le=MOST_COUNTED)
    """Train for this many updates. null: no limit."""
    max_epochs: Annotated[int | None, MAY_CHANGE] = Field(default=None, ge=1, le=MOST_COUNTED)
    """Train for this many passes over the training text. null: no limit."""
    max_minutes: Annotated[float | None, MAY_CHANGE] = Field(default=None, gt=0, le=10_000_000)
    """Train for this many minutes, validations included. null: no limit."""


class LossSettings(Settings):
    """The loss that training minimises."""

    label_smoothing: Probability = 0.1
    """Take this probability from the reference token and spread it evenly over the vocabulary. 0: none."""
    r_drop: float = Field(default=0.0, ge=0, le=1000)
    """Weigh the divergence of two passes with different dropout by this number, such as 5 (R-Drop, Liang et al. 2021);
    doubles the time. 0: a single pass."""
    guided_attention: GuidedAttentionSettings | None = None
    """The guidance of one head towards the word links of data.train.alignments; null: no head is guided."""


class OptimizerSettings(Settings):
    """The optimizer, which turns gradients into updates."""

    optimizer: Annotated[str, OneOf(OPTIMIZER_MEANINGS)] = "adam"
    """Turn gradients into updates by this optimiser."""
    beta_1: Probability = 0.9
    """Decay Adam's mean of the gradients by this factor per update."""
    beta_2: Probability = 0.98
    """Decay Adam's mean of the squared gradients by this factor per update."""
    epsilon: float = Field(default=1e-9, ge=1e-16, le=1)
    """Add this number to Adam's divisor against division by zero."""
    weight_decay: float = Field(default=0.0, ge=0, le=10)
    """Shrink every matrix but token embeddings by this number times the learning rate per update (decoupled,
    Loshchilov and Hutter 2019). 0: none."""


class StepSettings(Settings):
    """The computation of an update, apart from the optimizer."""

    clip_norm: float = Field(default=1.0, ge=0, le=1_000_000)
    """Clip the gradient to this norm over all variables. 0: no clipping."""
    xla: Annotated[bool | Literal["auto"], MAY_CHANGE] = "auto"
    """Compile the update with XLA, on a single device and for packed batches. auto: on a single GPU, if the model can
    be trained on packed batches."""


class PaceSettings(Settings):
    """The intervals of validation, checkpoints and logs, and the updates between two returns to Python."""

    validate_every_updates: int | None = Field(default=500, ge=1, le=MOST_COUNTED)
    """Validate and write a checkpoint whenever this many updates have passed. null: ten times, spread evenly over a
    schedule that has an end; the default with schedule clock."""
    checkpoint_every_minutes: Annotated[float | None, MAY_CHANGE] = Field(default=10.0, gt=0, le=10_000_000)
    """Save an extra checkpoint, until the next validation, when this many minutes have passed since the last one.
    null: never."""
    log_every_updates: int = Field(default=50, ge=1, le=MOST_COUNTED)
    """Write a line of the training log whenever this many updates have passed."""
    updates_per_call: Annotated[Annotated[int, Field(ge=1, le=1000)] | Literal["auto"], MAY_CHANGE] = "auto"
    """Make up to this many updates in one call, for packed batches on a single device. auto: 16 on a GPU, 1 on a
    processor."""


class TrainingSettings(PaceSettings, StepSettings, OptimizerSettings, LossSettings, LimitSettings, StartSettings):
    """All settings of training.

    Each base class except `StartSettings` has the settings that one constructor takes as its arguments, see
    `config.schema.Settings.part`.
    """

    precision: Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"] = "auto"
    """Compute in this number format. auto: mixed_bfloat16 on devices with native bfloat16 products, mixed_float16 on
    older GPUs with native float16 products, otherwise float32."""
    learning_rate: float = Field(default=0.002, ge=1e-12, le=100)
    """Reach this peak learning rate at the end of warm-up."""
    schedule: Annotated[str, OneOf(SCHEDULE_INFO, extensible=True)] = "inverse_sqrt"
    """Change the learning rate after warm-up by this schedule."""
    warmup_updates: int = Field(default=1000, ge=0, le=MOST_COUNTED)
    """Raise the learning rate over this many updates, with schedule clock over at most 15 % of the total."""
    keep_checkpoints: int = Field(default=2, ge=1, le=1_000_000)
    """Keep this many recent checkpoints in addition to the best, so that training resumes even if the newest is
    damaged."""
    average_checkpoints: int = Field(default=1, ge=1, le=1000)
    """Average the weights of this many checkpoints, if that is better on validation than the best one.
    1: no averaging."""
    early_stopping: EarlyStoppingSettings = EarlyStoppingSettings()
    """The choice of the best checkpoint, and the end of a training whose validation no longer improves."""

    @model_validator(mode="before")
    @classmethod
    def _spread_validations_over_measured_total(cls, values: Any) -> Any:
        schedule = SCHEDULE_INFO.get(str(values.get("schedule"))) if isinstance(values, Mapping) else None
        return {"validate_every_updates": None, **values} if schedule and schedule.measures_total else values

    def check_with(self, data: DataSettings, tokenizer: TokenizerSettings, model: ArchitectureSettings) -> None:
        """Checks that these settings fit the text and the model.

        Raises:
            ValueError: there is no training or validation text, or no limit of the training. Or `guided_attention` is
                set, but the text has no word links or the model lacks the head. Or `freeze` has a part that the model
                lacks, or all its parts.
        """
        self._check_has_text(data, tokenizer)
        self._check_guided_attention(data, model)
        self._check_freeze(model)

    def _check_has_text(self, data: DataSettings, tokenizer: TokenizerSettings) -> None:
        """Raises a `ValueError` if training or validation text is missing, or if there is no limit of the training.

        An imported run needs neither text nor limit.
        """
        if tokenizer.kind == "given" and self.start_from is None:
            return
        for name in ("train", "validation"):
            if getattr(data, name) is None:
                raise ValueError(f"data.{name}: expected source and target, or table; only imported runs have null")
        if self.has_no_limit:
            raise ValueError("training: expected at least one of max_updates, max_epochs and max_minutes, found none")

    def _check_guided_attention(self, data: DataSettings, model: ArchitectureSettings) -> None:
        guided = self.guided_attention
        if guided is None:
            return
        key = "training.guided_attention"
        if not data.has_word_links:
            every = ", for every corpus of the list" if data.listed_corpora else ""
            raise ValueError(
                f"{key} needs data.train.alignments, a file of word links{every}; name a new file there, and "
                f"`{invocation('link')} CONFIG` writes it"
            )
        layers, heads = model.guided_heads
        if not layers:
            raise ValueError(
                f"{key} needs cross-attention with learnt weights: architecture transformer with mechanism softmax or "
                "sink, or recurrent with a score function"
            )
        if guided.layer >= layers or guided.head >= heads:
            raise ValueError(
                f"{key}: the model has no head {guided.head} in decoder layer {guided.layer}; its {layers} layers and "
                f"{heads} heads are counted from 0"
            )

    def _check_freeze(self, model: ArchitectureSettings) -> None:
        missing = PARTS_MISSING.get(model.architecture, ())
        for part in self.freeze:
            if part in missing:
                has = ", ".join(name for name in MODEL_PARTS if name not in missing)
                raise ValueError(f"training.freeze: {model.architecture} has no {part}; expected some of {has}")
        if set(WHOLE_MODEL) - set(missing) <= set(self.freeze):
            raise ValueError(f"training.freeze ({', '.join(self.freeze)}): nothing is left to train; leave a part out")

    @property
    def planned_limits(self) -> tuple[str, ...]:
        """The names of the limits that determine when the learning rate reaches zero.

        A resumed run may not change them. Empty if the schedule does not end at zero.
        """
        schedule = SCHEDULE_INFO[self.schedule]
        if schedule.measures_total:
            return ("max_updates", "max_epochs", "max_minutes")
        return ("max_updates",) if schedule.ends_at_zero else ()

    @property
    def has_no_limit(self) -> bool:
        """True if no limit is set, as in an imported run."""
        return self.max_updates is None and self.max_epochs is None and self.max_minutes is None

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        schedule = SCHEDULE_INFO[self.schedule]
        if schedule.measures_total and self.max_minutes is None:
            raise ValueError(f"schedule {self.schedule} needs max_minutes, found null")
        if self.validate_every_updates is None and not (schedule.measures_total or schedule.ends_at_zero):
            raise ValueError(
                f"validate_every_updates: expected an integer >= 1, found null, and schedule {self.schedule} has no end"
            )
        if schedule.ends_at_zero and (self.max_updates is None or self.max_updates <= self.warmup_updates):
            raise ValueError(
                f"schedule {self.schedule} needs max_updates above warmup_updates ({self.warmup_updates}), "
                f"found {'null' if self.max_updates is None else self.max_updates}"
            )
        return self
