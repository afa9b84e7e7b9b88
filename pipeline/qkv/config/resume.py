"""Which settings may change when a run is resumed."""

import operator
import re
from collections.abc import Callable
from typing import Any

from .names import SCHEDULES
from .run import RunConfig, flat_settings

# How long to train and on what, how to save and inspect, what counts as a word there, and how the finished model
# translates.
HARMLESS = re.compile(
    r"run\.(name|directory|devices|deterministic)|training\.(max_\w+|checkpoint_every_minutes)|inspection\..+"
    r"|decoding\.(?!max_target_|tag).+|data\.(normalize|words|cache)(\..+)?"
)
HARMLESS_IN_WORDS = (
    "--training.max_updates, --training.max_epochs and --training.max_minutes (unless the learning rate falls to zero "
    "there), --training.checkpoint_every_minutes, --run.devices, --run.deterministic, and the settings of decoding, "
    "inspection, data.normalize, data.words and data.cache"
)


def changes_of_result(start: RunConfig, now: RunConfig, same: Callable[[Any, Any], bool] = operator.eq) -> list[str]:
    """Lists the changes that would alter the rest of the training, as `key: value at the start, not value now`.

    Args:
        start: the settings at the start.
        now: the settings now.
        same: whether two values of a key, as JSON has them, mean the same.
    """
    before, after = (dict(flat_settings(config.model_dump(mode="json"))) for config in (start, now))
    keys = [key for key in {**before, **after} if not same(before.get(key), after.get(key))]
    schedule = SCHEDULES[start.training.schedule]
    return [
        f"{key}: {before.get(key)}, not {after.get(key)}"
        for key in keys
        if not HARMLESS.fullmatch(key)
        or (schedule.ends_at_zero and key == "training.max_updates")
        or (schedule.measures_total and key.startswith("training.max_"))
    ]
