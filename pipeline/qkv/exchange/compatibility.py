"""The model settings that other programs support, and the weights of a run's model by name.

Both are complete. Every setting must be supported, or known to have no effect on the exported model. Every weight must
be exported.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from ..config.choices.model import MECHANISM_INFO
from ..errors import InputError
from ..files.atomic import write_atomically
from ..run.trained_run import TrainedRun
from ..text.tokens.marian_tokenizer import SIDES

TRAINING_SETTINGS = {"dropout", "attention_dropout", "activation_dropout"}
"""Settings that have an effect in training only."""

WITHOUT_EFFECT = TRAINING_SETTINGS.union(*(row.settings for row in MECHANISM_INFO.values()))
"""Settings that have no effect on an exported model. Those of attention mechanisms have none, because only softmax can
be exported."""

SIZES = {"d_model", "num_heads", "d_ff", "encoder_layers", "decoder_layers", "max_positions"}
"""Settings of which every value can be exported."""

STANDARD_TRANSFORMER: Mapping[str, Collection[Any]] = {
    "architecture": ["transformer"],
    "norm": ["pre", "post"],
    "positions": ["sinusoidal", "sinusoidal_halves", "learned"],
    "positions_on": ["input"],
    "tie_embeddings": ["all", "target", "none"],
    "activation": ["relu", "gelu", "silu"],
    "scale_embeddings": [True, False],
    "output_bias": [False, True],
    "mechanism": ["softmax"],
    "score": ["scaled_dot"],
    "key_dim": [None],
    "value_dim": [None],
    "key_value_heads": [None],
    "projection": [True],
    "value_projection": [True],
}
"""Setting -> the values that most other programs support."""


def check_supported(settings: BaseModel, supported: Mapping[str, Collection[Any]], program: str, prefix: str) -> None:
    """Checks that another program supports the value of every setting of a model, or of a part of a model.

    Args:
        settings: the settings.
        supported: the supported values of each setting, by the name of the setting.
        program: the name of the program, for messages.
        prefix: the key of the settings in a config, such as `model`.

    Raises:
        InputError: the program does not support a value; or it is not known whether the program supports a setting.
    """
    for name in type(settings).model_fields:
        key = f"{prefix}.{name}"
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            check_supported(value, supported, program, key)
        elif name in supported:
            if value not in supported[name]:
                default = type(settings).model_fields[name].default
                choices = ", ".join(
                    f"{_as_typed(choice)} (the default)" if choice == default else _as_typed(choice)
                    for choice in supported[name]
                )
                raise InputError(f"{key}: {program} does not support {_as_typed(value)}; expected {choices}")
        elif name not in WITHOUT_EFFECT | SIZES:
            raise InputError(f"{key}: it is not known whether {program} supports this setting")


def _as_typed(value: Any) -> str:
    """Returns a value as users type it in YAML, such as `null` and `true`."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def write_subword_models(run: TrainedRun, folder: Path) -> None:
    """Writes `source.spm` and `target.spm`: the models of an imported tokenizer, otherwise the run's model twice.

    Args:
        run: the run.
        folder: the folder to write into.
    """
    for side in SIDES:
        imported = run.directory.given_tokenizer.with_name(f"{side}.spm")
        model = imported.read_bytes() if run.directory.has_imported_tokenizer else run.tokenizer.model
        write_atomically(folder / f"{side}.spm", model)


class NamedWeights:
    """The weights of a run's model by name, and a check that every weight has been taken.

    The name of a weight is its path without the name of the model, such as `target_embedding/table`.

    Args:
        run: the run.

    Attributes:
        arrays: a dict from the name of a weight to its values.
    """

    def __init__(self, run: TrainedRun) -> None:
        # The states of the random generators of dropout are variables, but not weights.
        variables = [variable for variable in run.model.variables if variable.name != "seed_generator_state"]
        self.arrays = {variable.path.split("/", 1)[1]: variable.numpy() for variable in variables}
        self._not_taken = set(self.arrays)

    def take(self, path: str) -> np.ndarray:
        """Returns the weight with this name, and marks it as taken.

        Raises:
            KeyError: there is no such weight.
        """
        self._not_taken.discard(path)
        return self.arrays[path]

    def check_all_taken(self, root: Path) -> None:
        """Checks that every weight has been taken.

        Args:
            root: the run's folder, for the message.

        Raises:
            InputError: a weight has not been taken.
        """
        if self._not_taken:
            names = ", ".join(sorted(self._not_taken))
            raise InputError(f"{root}: the export would leave out the weights {names}; nothing was written")
