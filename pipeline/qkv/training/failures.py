"""What makes training impossible: a loss that is not finite, and a batch that does not fit into memory."""

import math

from ..errors import InputError
from ..text.batches import Batch


def check_finite(update: int, logs: dict[str, float]) -> None:
    """Checks the means of the last updates.

    Raises:
        InputError: one is not finite.
    """
    if not all(math.isfinite(value) for value in logs.values()):
        raise InputError(
            f"update {update}: training has diverged and is stopped: expected a finite loss and gradient, "
            f"found a loss of {logs['loss']:g} and a gradient norm of {logs['gradient_norm']:g}; lower "
            "training.learning_rate, raise training.warmup_updates, or set training.precision to float32. The "
            "checkpoints of earlier updates are intact"
        )


def check_several_devices(is_half: bool, xla: bool) -> None:
    """Checks that an update can be made on several devices.

    Raises:
        InputError: it is of a model in float16, or compiled.
    """
    if is_half:  # the optimizer cannot be asked within a condition there
        raise InputError(
            "training.precision: mixed_float16 on several devices cannot leave out an update; expected float32 or, "
            "from compute capability 8.0 on, mixed_bfloat16, or --run.devices 1"
        )
    if xla:
        raise InputError("training.xla: compiles for one device; expected --run.devices 1, or training.xla false")


def too_large(update: int, batch: Batch) -> InputError:
    """Returns the error of a batch that does not fit into memory."""
    shapes = ", ".join(str(tuple(x.shape)) for x in batch if x is not None and hasattr(x, "shape"))
    return InputError(
        f"update {update}: a batch of shapes {shapes} does not fit into memory; lower batches.batch_tokens and "
        "raise batches.accumulated, or lower data.max_source_tokens and data.max_target_tokens"
    )
