"""Fine-tuning by matrices of low rank that are added to frozen ones (LoRA, Hu et al. 2022)."""

from typing import Any

from .constructor_config import to_json_value
from .keras_layers import check_sizes


class LowRank:
    """Base class, listed before `keras.Layer` or `keras.Model`, of layers and models that LoRA can fine-tune."""

    weights: Any
    _flatten_layers: Any

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        a_initializer: Any = "he_uniform",
        b_initializer: Any = "zeros",
    ) -> None:
        """Freezes all weights, and adds a trainable matrix of low rank to each matrix of attention, feed-forward
        networks and token embeddings in the layer or model (Hu et al. 2022, section 4.1).

        The added matrix is `lora_alpha / rank` times the product of two matrices, A with `rank` columns and B with
        `rank` rows. Call it once, after building and before making an optimizer. A saved file contains the sums, so it
        loads without LoRA.

        Args:
            rank: the rank of the added matrices, at least 1; for example 4.
            lora_alpha: the scale of the added matrices; `rank` if not given.
            a_initializer, b_initializer: the initializers of A and B, as in `keras.layers.Dense.enable_lora`. If B
                starts at zero, the outputs do not change before training.

        Raises:
            ValueError: the layer or model is not built, it has LoRA already, or `rank` is not a whole number of at
                least 1. Then nothing has changed.
        """
        check_sizes(rank=rank)
        layers = [layer for layer in self._flatten_layers() if hasattr(layer, "enable_lora")]
        for layer in layers:
            if not layer.built:
                raise ValueError(f"{layer.name}: enable_lora needs a built layer; call it or its build method first")
            if getattr(layer, "lora_enabled", False):
                raise ValueError(f"{layer.name}: enable_lora can be called once only")
        for variable in self.weights:
            variable.trainable = False
        # As configs, because each matrix needs a new initializer: a random one draws the same numbers in every call.
        a_initializer, b_initializer = to_json_value(a_initializer), to_json_value(b_initializer)
        for layer in layers:
            if not isinstance(layer, LowRank):
                layer.enable_lora(rank, lora_alpha, a_initializer, b_initializer)
