"""The loss that training minimises: the cross-entropy of the translations, and the terms that are added to it.

It is summed over the target tokens of a batch, to be divided by the number of tokens of all replicas.
"""

from typing import Any

import keras
import tensorflow as tf

from ..text.batches import Batch
from ..text.tokenizer import PAD
from .guided_attention import GuidedAttention
from .loss import fused_cross_entropy
from .r_drop import fused_divergence


class TotalLoss:
    """Computes the loss of a model on a batch, with dropout.

    Args:
        model: any `TranslationModel`.
        label_smoothing: see `qkv.training.loss`.
        r_drop: weight of the divergence between two passes over the batch (Liang et al. 2021, equation 4, halved to the
            scale of a single cross-entropy); 0 for one pass.
        guided_attention: the head that is guided by links, or None; batches must then have `links`.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        label_smoothing: float = 0.0,
        r_drop: float = 0.0,
        guided_attention: GuidedAttention | None = None,
    ) -> None:
        self.model = model
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop
        self.guided_attention = guided_attention

    def __call__(self, batch: Batch) -> tuple[Any, Any]:
        """Returns the cross-entropy, which is reported, and the total, whose gradient is taken: float32 scalars."""
        if not self.r_drop:
            cross_entropy, total, _ = self._forward(batch)
            return cross_entropy, total
        # Both passes are in one batch: each copy of a sentence has its own dropout.
        twice = batch.map(lambda x: tf.concat([x, x], 0))
        cross_entropy, total, states = self._forward(twice)
        states, table = self.model.output_embedding.factors(tf.reshape(states, (-1, states.shape[-1])))
        first, second = tf.split(states, 2)
        weights = tf.cast(tf.reshape(batch.target_output, (-1,)) != PAD, tf.float32)
        total += self.r_drop * fused_divergence(first, second, table, weights)
        return cross_entropy / 2, total / 2

    def _forward(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Returns the cross-entropy, its sum with the other losses of a single pass, and the decoder's states."""
        model = self.model
        memory = model.encode(batch.source, training=True)
        output = model.decode(batch.target_input, memory, training=True)
        cross_entropy = self._cross_entropy(output.states, batch.target_output)
        total = cross_entropy
        if model.source_loss:  # the states of source tokens predict the next source token
            total += model.source_loss * self._cross_entropy(memory.states[:, :-1], batch.source[:, 1:])
        if self.guided_attention is not None:
            total += self.guided_attention.loss(output.cross, batch.links, batch.source, batch.target_output)
        return cross_entropy, total, output.states

    def _cross_entropy(self, states, ids):
        targets = tf.reshape(ids, (-1,))
        states, table = self.model.output_embedding.factors(tf.reshape(states, (-1, states.shape[-1])))
        weights = tf.cast(targets != PAD, tf.float32)
        return fused_cross_entropy(states, table, targets, weights, self.label_smoothing)
