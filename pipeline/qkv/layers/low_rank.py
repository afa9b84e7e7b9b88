"""Fine-tuning by matrices of low rank that are added to frozen ones (LoRA, Hu et al. 2022)."""

from typing import Any


class LowRank:
    """Base class, listed before `keras.Layer` or `keras.Model`, of layers and models that LoRA can fine-tune."""

    weights: Any
    _flatten_layers: Any

    def enable_lora(self, rank: int) -> None:
        """Freezes all weights, and adds a trainable matrix of low rank to each matrix of attention, feed-forward
        networks and token embeddings in the layer or model (Hu et al. 2022, section 4.1).

        Call it once, after building and before making an optimizer. A saved file contains the sums of both matrices, so
        it loads without LoRA.

        Args:
            rank: the rank of the added matrices, at least 1; for example 4.

        Raises:
            ValueError: it was called before.
        """
        for variable in self.weights:
            variable.trainable = False
        for layer in self._flatten_layers(include_self=False):
            if hasattr(layer, "enable_lora") and not isinstance(layer, LowRank):
                layer.enable_lora(rank)
