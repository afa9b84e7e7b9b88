"""Fine-tuning by matrices of low rank that are added to frozen ones (LoRA, Hu et al. 2022)."""

from typing import Any


class LowRank:
    """A base class of layers and models, listed before Keras' own, whose matrices LoRA can be added to."""

    weights: Any
    _flatten_layers: Any

    def enable_lora(self, rank):
        """Freezes all weights, and adds trainable matrices of low rank to the matrices of attention, feed-forward
        networks and token embeddings within (Hu et al. 2022, section 4.1).

        Call it once, between building the layer and making an optimizer. Saved files hold the sums, as others do.

        Args:
            rank: the rank of what is added to each matrix, at least 1; for example 4.
        """
        for variable in self.weights:
            variable.trainable = False
        for layer in self._flatten_layers(include_self=False):
            if hasattr(layer, "enable_lora") and not isinstance(layer, LowRank):
                layer.enable_lora(rank)
