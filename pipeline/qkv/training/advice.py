"""What to change about a training that has ended too early, and how to lengthen one."""

from dataclasses import dataclass

from .checkpoint import Progress
from .stopping import Limits

FEW_UPDATES = 300  # with fewer, even a small translator has hardly begun to learn


def shortcoming(progress: Progress, warmup_updates: int, metric: str, patience: int | None = None) -> str | None:
    """Returns why a training that has ended may be worth little and what to change, in one line; None if nothing
    seems wrong.

    Args:
        progress: at the end of training.
        warmup_updates: number of updates over which the learning rate rises.
        metric: the validation metric by which the best checkpoint is chosen, without `val_`.
        patience: as in early stopping, which explains why the last validations brought no gain.
    """
    updates, validations = progress.update, len(progress.history)
    measured = progress.total_updates is not None
    if not measured and updates <= warmup_updates:
        return (
            f"training has ended within its warm-up: {updates} updates of {warmup_updates}, so the learning rate never "
            "reached its peak; train longer, lower training.warmup_updates, or set training.max_minutes and "
            "training.schedule clock"
        )
    if updates < FEW_UPDATES:
        return (
            f"{updates} updates are few to learn from: train longer, or make updates faster by a smaller model "
            "(model.d_model, model.encoder_layers, model.decoder_layers) or smaller batches (batches.batch_tokens)"
        )
    if validations == 1:
        return (
            "the model was validated only once, at the end, so there was no better checkpoint to choose: lower "
            "training.validate_every_updates"
        )
    if progress.best_update == progress.history[0]["update"] and patience is None:
        return (
            f"{metric} has not improved since the first validation, after {progress.best_update:.0f} updates: compare "
            "training and validation loss in history.csv; if validation loss rises, use more text, a smaller model or "
            "more model.dropout, and if neither falls, lower training.learning_rate"
        )
    return None


@dataclass(frozen=True)
class Lengthening:
    """How a training that has ended can be made longer.

    Args:
        because: what has ended it, and what that means.
        option: the option, with a value, that makes it longer.
        resumes: whether the run continues with that option; otherwise a new run is needed.
    """

    because: str
    option: str
    resumes: bool


def how_to_lengthen(progress: Progress, limits: Limits, patience: int | None, ends_at_zero: bool) -> Lengthening:
    """Returns what has ended a training, and how to train longer.

    Args:
        progress: at the end of training.
        limits: of this training.
        patience: number of validations without gain after which training stops; None for no limit.
        ends_at_zero: whether the learning rate is zero at `limits.max_updates`.
    """
    if progress.total_updates is not None and progress.update >= progress.total_updates:
        because = f"its {progress.update} updates were measured once for {limits.max_minutes:g} minutes (training."
        because += "max_minutes), and its learning rate has ended with them"
        return Lengthening(because, f"--training.max_minutes {2 * (limits.max_minutes or 0):g}", resumes=False)
    if limits.max_updates is not None and progress.update >= limits.max_updates:
        because = f"training.max_updates ({limits.max_updates}) has ended it"
        because += ", and its learning rate is zero there, so that no other limit makes it longer" * ends_at_zero
        return Lengthening(because, f"--training.max_updates {2 * limits.max_updates}", not ends_at_zero)
    if limits.max_epochs is not None and progress.epoch >= limits.max_epochs:
        because = f"training.max_epochs ({limits.max_epochs}) has ended it"
        return Lengthening(because, f"--training.max_epochs {2 * limits.max_epochs}", resumes=True)
    if patience is not None and progress.validations_without_gain >= patience:
        because = f"training.early_stopping.patience ({patience}) has ended it"
        return Lengthening(because, f"--training.early_stopping.patience {2 * patience}", resumes=False)
    because = f"training.max_minutes ({limits.max_minutes or 0:g}) has ended it"
    return Lengthening(because, f"--training.max_minutes {2 * (limits.max_minutes or 0):g}", resumes=True)
