"""The settings of training: section `training`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from .data import DataSettings
from .model import ArchitectureSettings, RecurrentSettings
from .names import describe
from .names.inspection import LABEL_SIDES
from .names.model import MODEL_PARTS, PARTS_MISSING, WHOLE_MODEL
from .names.training import CALLBACKS, OPTIMIZERS, REFUSED_CALLBACKS, SCHEDULES
from .names.translation import choosing_metrics
from .schema import MAY_CHANGE, MOST_COUNTED, OneOf, Probability, Settings
from .tokenizer import TokenizerSettings

PLAIN = (str, int, float, bool, type(None))
CallbackName = Annotated[str, OneOf(lambda: CALLBACKS, extensible=True)]


class CallbackSettings(Settings):
    """A callback, and the arguments that it is made with."""

    name: CallbackName = Field(description=f"Which callback. {describe(CALLBACKS)}.")
    arguments: dict[str, Any] = Field(default={}, description="Its arguments: text, numbers, true, false, null.")

    @field_validator("name", mode="before")
    @classmethod
    def _refuse_what_has_a_setting(cls, value: Any) -> Any:
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
    """The start of a training."""

    start_from: Path | None = Field(
        default=None,
        description="Folder of a run, trained, in training or imported, whose weights and tokenizer the training "
        "starts from; relative to the working directory, and read once: the new run keeps a copy. null: fresh weights.",
    )
    freeze: tuple[Annotated[str, OneOf(MODEL_PARTS)], ...] = Field(
        default=(),
        description=f"Parts of the model whose weights training does not change. {describe(MODEL_PARTS)}.",
    )
    callbacks: tuple[CallbackSettings, ...] = Field(
        default=(),
        description="Further callbacks, called after the run's own: a list of {name, arguments}, see "
        f"docs/use/training.md. {describe(CALLBACKS)}.",
    )


class EarlyStoppingSettings(Settings):
    """The choice of the best checkpoint, and the end of a training whose validation no longer improves."""

    metric: Annotated[str, OneOf(choosing_metrics, extensible=True)] = Field(
        default="bleu", description="Validation metric by which the best checkpoint is chosen."
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        le=MOST_COUNTED,
        description="Number of validations in a row without improvement after which training stops; null: no limit.",
    )


class GuidedAttentionSettings(Settings):
    """Guides one head of the cross-attention towards given word links (Garg et al. 2019)."""

    layer: int = Field(default=0, ge=0, le=1000, description="Decoder layer of the guided head, counted from 0.")
    head: int = Field(default=0, ge=0, le=1024, description="Number of the guided head in its layer, counted from 0.")
    side: Annotated[str, OneOf(LABEL_SIDES)] = Field(
        default="input",
        description="Which links each row of attention learns. input: the links of the token that it has just read; "
        "output: those of the token that it predicts.",
    )
    weight: float = Field(
        default=0.05, ge=1e-12, le=1000, description="Weight of this loss, relative to the cross-entropy."
    )
    unlinked: Literal["nothing", "eos"] = Field(
        default="nothing",
        description="What rows learn if their word has no link. nothing: these rows are left out; eos: to attend to "
        "the EOS of the source.",
    )


class LimitSettings(Settings):
    """The end of training: the first of max_updates, max_epochs and max_minutes."""

    max_updates: Annotated[int | None, MAY_CHANGE] = Field(
        default=None, ge=1, le=MOST_COUNTED, description="Number of updates to train for; null: no limit."
    )
    max_epochs: Annotated[int | None, MAY_CHANGE] = Field(
        default=None,
        ge=1,
        le=MOST_COUNTED,
        description="Number of passes over the training text to train for; null: no limit.",
    )
    max_minutes: Annotated[float | None, MAY_CHANGE] = Field(
        default=None,
        gt=0,
        le=10_000_000,
        description="Minutes to train for, validations included; null: no limit. With schedule clock, training ends "
        "near them, at the end of its last update.",
    )


class LossSettings(Settings):
    """The loss that is minimised."""

    label_smoothing: Probability = Field(
        default=0.1,
        description="Probability taken from the reference token and spread evenly over the vocabulary; 0: none.",
    )
    r_drop: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="Weight, such as 5, of the divergence between two passes over each batch with different dropout "
        "(R-Drop, Liang et al. 2021), which doubles the training time. 0: a single pass.",
    )
    guided_attention: GuidedAttentionSettings | None = Field(
        default=None,
        description="Guides one head towards the word links of data.train.alignments; null: no head is guided.",
    )


class OptimizerSettings(Settings):
    """The optimizer, which turns gradients into updates."""

    optimizer: Annotated[str, OneOf(OPTIMIZERS)] = Field(
        default="adam", description=f"Optimiser, which turns gradients into updates. {describe(OPTIMIZERS)}."
    )
    beta_1: Probability = Field(default=0.9, description="Decay per update of Adam's mean of the gradients.")
    beta_2: Probability = Field(default=0.98, description="Decay per update of Adam's mean of the squared gradients.")
    epsilon: float = Field(
        default=1e-9, ge=1e-16, le=1, description="Number added to Adam's divisor against division by zero."
    )
    weight_decay: float = Field(
        default=0.0,
        ge=0,
        le=10,
        description="Decoupled weight decay (Loshchilov and Hutter 2019): each update shrinks every matrix by this "
        "number times the learning rate. Token embeddings, biases and layer norms are not decayed. 0: none.",
    )


class StepSettings(Settings):
    """The computation of an update."""

    clip_norm: float = Field(
        default=1.0,
        ge=0,
        le=1_000_000,
        description="Clip the gradient to this norm over all variables; 0: no clipping.",
    )
    xla: bool = Field(
        default=False,
        description="Compile the update with XLA, for a single GPU. Sentences are then padded to some 20 lengths, 12 % "
        "apart, and both sides of a batch to the same, since each shape takes up to a minute to compile. Slower on a "
        "processor.",
    )


class PaceSettings(Settings):
    """The intervals of validation, checkpoints and logs."""

    validate_every_updates: int | None = Field(
        default=500,
        ge=1,
        le=MOST_COUNTED,
        description="Number of updates between validations; each validation also writes a checkpoint. null: ten "
        "validations, spread evenly over a training whose schedule has an end; the default with schedule clock.",
    )
    checkpoint_every_minutes: Annotated[float | None, MAY_CHANGE] = Field(
        default=10.0,
        gt=0,
        le=10_000_000,
        description="Save an extra checkpoint when this many minutes have passed since the last one; it is deleted at "
        "the next validation. null: never.",
    )
    log_every_updates: int = Field(
        default=50, ge=1, le=MOST_COUNTED, description="Number of updates between lines of the training log."
    )


class TrainingSettings(PaceSettings, StepSettings, OptimizerSettings, LossSettings, LimitSettings, StartSettings):
    """The optimiser, and when training ends: at the first of max_updates, max_epochs and max_minutes.

    Each class that it inherits, but for `StartSettings`, is a part: the arguments of one constructor.
    """

    precision: Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"] = Field(
        default="auto",
        description="Number format of the computation. auto: mixed_bfloat16 on devices with native bfloat16 products, "
        "mixed_float16 on older GPUs with native float16 products (compute capability 7.0 and 7.5), otherwise float32. "
        "mixed_float16 scales the loss, and leaves out updates whose gradient is too large for it.",
    )
    learning_rate: float = Field(
        default=0.002, ge=1e-12, le=100, description="Peak learning rate, reached at the end of warm-up."
    )
    schedule: Annotated[str, OneOf(SCHEDULES, extensible=True)] = Field(
        default="inverse_sqrt", description=f"How the learning rate changes after warm-up. {describe(SCHEDULES)}."
    )
    warmup_updates: int = Field(
        default=1000,
        ge=0,
        le=MOST_COUNTED,
        description="Number of updates over which the learning rate rises. With schedule clock: at most 15 % of the "
        "total.",
    )
    keep_checkpoints: int = Field(
        default=2,
        ge=1,
        le=1_000_000,
        description="Number of recent checkpoints to keep besides the best; if the newest is damaged, training resumes "
        "from the previous one.",
    )
    average_checkpoints: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Use the mean of the weights of this many checkpoints as the final model, if it is better on "
        "validation than the best single checkpoint. These checkpoints are kept too. 1: no averaging.",
    )
    early_stopping: EarlyStoppingSettings = Field(
        default=EarlyStoppingSettings(),
        description="Which checkpoint is best, and when training stops because validation no longer improves.",
    )

    @model_validator(mode="before")
    @classmethod
    def _spread_validations_over_measured_total(cls, values: Any) -> Any:
        schedule = SCHEDULES.get(str(values.get("schedule"))) if isinstance(values, Mapping) else None
        return {"validate_every_updates": None, **values} if schedule and schedule.measures_total else values

    def check_with(self, data: DataSettings, tokenizer: TokenizerSettings, model: ArchitectureSettings) -> None:
        """Checks that the text and the model are such as this training needs.

        Raises:
            ValueError: they are not.
        """
        self._check_has_text(data, tokenizer)
        self._check_guided_attention(data, model)
        self._check_freeze(model)
        if self.xla and isinstance(model, RecurrentSettings):
            raise ValueError(
                "training.xla: XLA compiles no update of a recurrent model, whose loop has as many steps as the "
                "batch has tokens; expected false, or another model.architecture"
            )

    def _check_has_text(self, data: DataSettings, tokenizer: TokenizerSettings) -> None:
        # an imported run that is not trained further needs neither text nor an end
        if tokenizer.kind == "given" and self.start_from is None:
            return
        for name in ("train", "validation"):
            if getattr(data, name) is None:
                raise ValueError(
                    f"data.{name}: expected source and target, or table, found null, as in an imported run"
                )
        if self.has_no_limit:
            raise ValueError(
                "training: expected at least one of max_updates, max_epochs and max_minutes, found none of them"
            )

    def _check_guided_attention(self, data: DataSettings, model: ArchitectureSettings) -> None:
        guided = self.guided_attention
        if guided is None:
            return
        key = "training.guided_attention"
        if not data.has_word_links:
            raise ValueError(
                f"{key} needs data.train.alignments, a file with the word links of the training pairs"
                + ", for every corpus of the list" * bool(data.listed_corpora)
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
        """The limits by which the learning rate falls to zero, which a resumed run keeps."""
        schedule = SCHEDULES[self.schedule]
        if schedule.measures_total:
            return ("max_updates", "max_epochs", "max_minutes")
        return ("max_updates",) if schedule.ends_at_zero else ()

    @property
    def has_no_limit(self) -> bool:
        """Whether nothing ends a training, as in an imported run."""
        return self.max_updates is None and self.max_epochs is None and self.max_minutes is None

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        schedule = SCHEDULES[self.schedule]
        if schedule.measures_total and self.max_minutes is None:
            raise ValueError(f"schedule {self.schedule} needs max_minutes, found null")
        if self.validate_every_updates is None and not (schedule.measures_total or schedule.ends_at_zero):
            raise ValueError(
                f"validate_every_updates: expected an integer >= 1, found null, and schedule {self.schedule} has no "
                "end over which validations could be spread"
            )
        if schedule.ends_at_zero and (self.max_updates is None or self.max_updates <= self.warmup_updates):
            raise ValueError(
                f"schedule {self.schedule} needs max_updates above warmup_updates ({self.warmup_updates}), "
                f"found {'null' if self.max_updates is None else self.max_updates}"
            )
        return self
