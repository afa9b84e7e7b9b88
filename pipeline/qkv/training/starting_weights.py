"""What a training starts from, where that is not fresh weights."""

from typing import Protocol

import keras


class StartingWeights(Protocol):
    """The weights that a training starts from; text says where they are from."""

    def load(self, model: keras.Model) -> None:
        """Gives them to a model."""
        ...
