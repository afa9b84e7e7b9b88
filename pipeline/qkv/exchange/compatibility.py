"""The conditions under which a model has a counterpart in another program, and its weights by name.

No setting or weight is left out without a word: each is asked for, or known to change nothing.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from ..config.choices.model import MECHANISM_INFO
from ..errors import InputError
from ..run.trained_run import TrainedRun

OF_TRAINING = {"dropout", "attention_dropout", "activation_dropout"}
WITHOUT_EFFECT = OF_TRAINING.union(
    *(row.settings for row in MECHANISM_INFO.values())
)  # of mechanisms other than softmax
SIZES = {"d_model", "num_heads", "d_ff", "encoder_layers", "decoder_layers", "max_positions"}
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
"""The values of settings that most programs have."""


def check_supported(settings: BaseModel, supported: Mapping[str, Collection[Any]], program: str, prefix: str) -> None:
    """Checks that a program supports the value of every setting of a model, or of its part at a prefix such as `model`.

    Raises:
        InputError: it has no counterpart of a value, or a setting is not known here.
    """
    for name in type(settings).model_fields:
        key, value = f"{prefix}.{name}", getattr(settings, name)
        if isinstance(value, BaseModel):
            check_supported(value, supported, program, key)
        elif name in supported:
            if value not in supported[name]:
                allowed = ", ".join("null" if one is None else str(one) for one in supported[name])
                raise InputError(f"{key}: {value} has no counterpart in {program}; expected {allowed}")
        elif name not in WITHOUT_EFFECT | SIZES:
            raise InputError(f"{key}: it is not known whether {program} has a counterpart of this setting")


class NamedWeights:
    """The weights of a run's model by their paths, without the model's own name; each is taken once or more."""

    def __init__(self, run: TrainedRun) -> None:
        # The state of dropout's generators is no weight.
        variables = [variable for variable in run.model.variables if variable.name != "seed_generator_state"]
        self.arrays = {variable.path.split("/", 1)[1]: variable.numpy() for variable in variables}
        self._left = set(self.arrays)

    def take(self, path: str) -> np.ndarray:
        """Returns the weight of that path.

        Raises:
            KeyError: there is none.
        """
        self._left.discard(path)
        return self.arrays[path]

    def check_all_taken(self, root: Path) -> None:
        """Checks that no weight is left over.

        Raises:
            InputError: some are.
        """
        if self._left:
            raise InputError(f"{root}: nothing takes the weights {', '.join(sorted(self._left))}; nothing was written")
