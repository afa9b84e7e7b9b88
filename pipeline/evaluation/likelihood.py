"""How likely a model holds the references to be."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.decoding.forced import forced_pass
from pipeline.errors import InputError
from pipeline.text.batches import collate, plan_batches
from pipeline.text.encoded import EncodedSentences
from pipeline.text.tokenizer import PAD

LENGTH_MULTIPLE = 8


@dataclass(frozen=True)
class Likelihood:
    """Means over all target tokens of a set, EOS among them.

    Args:
        loss: negative log-likelihood, in nats a token, without label smoothing.
        token_accuracy: share of tokens that were the model's first choice, given those before.
    """

    loss: float
    token_accuracy: float

    @property
    def perplexity(self) -> float:
        """`exp(loss)`."""
        return math.exp(min(self.loss, 700.0))


class LikelihoodMeter:
    """Measures how likely a model holds the references to be. Pairs with a side too long for it are left out.

    Args:
        model: anything with the surface of `pipeline.model.surface`.
        source: encoded sources.
        target: encoded references.
        max_positions: the most tokens, EOS among them, that the model can take.
        batch_tokens: positions of a batch, padding included.

    Attributes:
        too_long: number of pairs left out.

    Raises:
        InputError: all pairs are too long.
    """

    def __init__(
        self,
        model: Any,
        source: EncodedSentences,
        target: EncodedSentences,
        *,
        max_positions: int,
        batch_tokens: int = 4096,
    ) -> None:
        fits = np.flatnonzero(np.maximum(source.lengths, target.lengths) < max_positions).tolist()
        self.too_long = len(source) - len(fits)
        if not fits:
            raise InputError(
                f"all {self.too_long} pairs have a side of model.max_positions ({max_positions}) tokens or more, "
                "so there is nothing to measure; take shorter text, or train with more positions"
            )
        self.source, self.target = source.select(fits), target.select(fits)
        self.length_multiple = math.gcd(LENGTH_MULTIPLE, max_positions)  # no padding beyond the last position
        plan = plan_batches(
            self.source.lengths,
            self.target.lengths,
            batch_tokens=batch_tokens,
            length_multiple=self.length_multiple,
            seed=0,
            epoch=0,
        )
        self.batches = plan.batches

        def sums(source_ids, target_input, target_output):
            forced = forced_pass(model, source_ids, target_input, target_output)
            real = target_output != PAD
            right = tf.logical_and(real, forced.likeliest == target_output)
            return tf.reduce_sum(tf.where(real, -forced.log_probabilities, 0.0)), tf.reduce_sum(
                tf.cast(right, tf.int32)
            )

        self._sums = tf.function(sums, input_signature=(tf.TensorSpec([None, None], tf.int32),) * 3, autograph=False)

    def measure(self) -> Likelihood:
        """The likelihood under the model as it is now."""
        loss, right = 0.0, 0
        for rows in self.batches:
            batch_loss, batch_right = self._sums(*collate(self.source, self.target, rows, self.length_multiple))
            loss, right = loss + float(batch_loss), right + int(batch_right)
        tokens = int(np.sum(self.target.lengths)) + len(self.target)
        return Likelihood(loss / tokens, right / tokens)
