"""The settings of training: optimiser, limits, checkpoints, and what else is learnt."""

from typing import Literal, Self

from pydantic import Field, model_validator

from .base import Probability, Settings


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
    unlinked: Literal["nothing", "eos"] = Field(
        default="nothing",
        description="What rows are taught whose word has no link: nothing, or to look at the source's EOS.",
    )


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
    schedule: Literal["inverse_sqrt", "linear", "cosine", "constant"] = Field(
        default="inverse_sqrt",
        description="How the learning rate goes on after warm-up; linear and cosine: to zero at max_updates.",
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
    checkpoint_every_minutes: float | None = Field(
        default=10.0,
        gt=0,
        description="Minutes after the last checkpoint in which another one is written between validations; it goes "
        "with the next validation. null: none.",
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
    average_of: Literal["last", "best"] = Field(
        default="last", description="With average_checkpoints: the last ones, or those that were best on validation."
    )
    ema_decay: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="The model is the moving average of its weights with this decay per update, such as 0.999, in "
        "validation and in the end; null: no average.",
    )
    r_drop: float = Field(
        default=0.0,
        ge=0,
        description="R-Drop (Liang et al. 2021): each batch is read twice, with other units dropped, and the two "
        "predictions are drawn together with this weight, such as 5; takes twice the time. 0: read once.",
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
        if self.schedule in ("linear", "cosine") and (
            self.max_updates is None or self.max_updates <= self.warmup_updates
        ):
            raise ValueError(
                f"schedule {self.schedule} needs max_updates above warmup_updates ({self.warmup_updates}), "
                f"found {'null' if self.max_updates is None else self.max_updates}"
            )
        return self
