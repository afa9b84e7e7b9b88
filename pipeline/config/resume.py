"""Which settings may differ between the command that began a run and one that goes on with it."""

import re

from .run import RunConfig, flat_settings

# How long it trains, how it is saved and looked at, and how the finished model translates.
HARMLESS = re.compile(
    r"run\.(name|directory)|training\.(max_\w+|checkpoint_every_minutes)|inspection\..+|decoding\.(?!max_target_).+"
)
FOR_PEOPLE = (
    "--training.max_updates (but where the learning rate ends with it), --training.max_epochs, --training.max_minutes, "
    "--training.checkpoint_every_minutes, and those of decoding and inspection"
)


def changes_of_result(began: RunConfig, now: RunConfig) -> list[str]:
    """What would make the rest of the training another one: `key: value that it began with, not value`."""
    before, after = (dict(flat_settings(config.model_dump(mode="json"))) for config in (began, now))
    keys = [key for key in (*before, *(key for key in after if key not in before)) if before.get(key) != after.get(key)]
    to_zero = began.training.schedule in ("linear", "cosine")
    return [
        f"{key}: {before.get(key)}, not {after.get(key)}"
        for key in keys
        if not HARMLESS.fullmatch(key) or (to_zero and key == "training.max_updates")
    ]
