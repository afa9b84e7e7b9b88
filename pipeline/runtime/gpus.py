"""The GPUs that TensorFlow sees: which are used, and what they can do."""

from typing import NamedTuple

import tensorflow as tf

from ..errors import InputError
from .nvidia import why_unseen

BFLOAT16_SINCE, FLOAT16_SINCE = (8, 0), (7, 0)
"""The compute capabilities from which on NVIDIA's GPUs have units for products in these formats: Ampere, and Volta."""


class Gpu(NamedTuple):
    """A GPU.

    - name: of the product.
    - capability: NVIDIA's compute capability, such as (8, 0); None for another maker's.
    """

    name: str
    capability: tuple[int, int] | None

    def __str__(self) -> str:
        known = f", compute capability {'.'.join(map(str, self.capability))}" if self.capability else ""
        return f"{self.name}{known}"


def visible_gpus() -> list[Gpu]:
    """Returns the GPUs that are used."""
    return [_describe(device) for device in tf.config.get_visible_devices("GPU")]


def _describe(device: tf.config.PhysicalDevice) -> Gpu:
    details = tf.config.experimental.get_device_details(device)
    return Gpu(details.get("device_name", device.name), details.get("compute_capability"))


def use_gpus(number: int) -> None:
    """Makes TensorFlow use the first GPUs alone; 0 for the processor.

    Raises:
        InputError: there are fewer, or TensorFlow has taken them already.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if number > len(gpus):
        reason = why_unseen() if not gpus else None
        hint = f"; an NVIDIA GPU is there, but {reason}" if reason else ""
        raise InputError(
            f"run.devices: expected at most {len(gpus)}, as many GPUs as TensorFlow sees, found {number}{hint}"
        )
    if gpus[:number] == tf.config.get_visible_devices("GPU"):
        return
    try:
        tf.config.set_visible_devices(gpus[:number], "GPU")
    except RuntimeError:
        raise InputError(
            f"run.devices: {number} of {len(gpus)} GPUs cannot be chosen any more, since this process uses them; start "
            "another process"
        ) from None


def gpu_formats() -> list[str]:
    """Returns the Keras dtype policies whose products all GPUs in use have units for, the best first; float16 for a
    single GPU alone, see `check_several_devices`."""
    gpus = visible_gpus()
    least = min((gpu.capability or (0, 0) for gpu in gpus), default=(0, 0))
    since = {"mixed_bfloat16": BFLOAT16_SINCE, "mixed_float16": FLOAT16_SINCE}
    if len(gpus) > 1:
        del since["mixed_float16"]
    return [policy for policy, capability in since.items() if least >= capability]


def gpu_memory() -> list[int]:
    """Returns the memory that TensorFlow may take of each GPU in use, in bytes."""
    from tensorflow.python.client.device_lib import list_local_devices  # the only one that tells it

    return [device.memory_limit for device in list_local_devices() if device.device_type == "GPU"]
