"""How likely a model holds the references to be."""

import math
from dataclasses import dataclass

import numpy as np

from ..decoding.forced_graph import ForcedGraph
from ..errors import InputError
from ..runtime.cores import in_order
from ..text.batches import FORCED_BATCH_TOKENS, batches_by_length, collate
from ..text.encoded import EncodedSentences
from ..text.tokenizer import PAD


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
        read: a `ForcedGraph` of the model.
        source: encoded sources.
        target: encoded references.
        max_positions: the most tokens, EOS among them, that the model can take.
        batch_tokens: positions of a batch, padding included.
        workers: batches read side by side.

    Attributes:
        too_long: number of pairs left out.

    Raises:
        InputError: all pairs are too long.
    """

    def __init__(
        self,
        read: ForcedGraph,
        source: EncodedSentences,
        target: EncodedSentences,
        *,
        max_positions: int,
        batch_tokens: int = FORCED_BATCH_TOKENS,
        workers: int = 1,
    ) -> None:
        fits = np.flatnonzero(np.maximum(source.lengths, target.lengths) < max_positions).tolist()
        self.too_long = len(source) - len(fits)
        if not fits:
            raise InputError(
                f"all {self.too_long} pairs have a side of model.max_positions ({max_positions}) tokens or more, "
                "so there is nothing to measure; take shorter text, or train with more positions"
            )
        self.source, self.target = source.select(fits), target.select(fits)
        self.batches = batches_by_length(self.source.lengths + 1, self.target.lengths + 1, batch_tokens)  # EOS, BOS
        self._read = read
        self.workers = workers

    def measure(self) -> Likelihood:
        """The likelihood under the model as it is now."""
        loss, right = np.sum(list(in_order(self._of_batch, self.batches, self.workers)), axis=0)
        tokens = int(np.sum(self.target.lengths)) + len(self.target)
        return Likelihood(float(loss) / tokens, float(right) / tokens)

    def _of_batch(self, rows: np.ndarray) -> tuple[float, int]:
        """Its loss, and how many tokens were the first choice."""
        batch = collate(self.source, self.target, rows)
        forced = self._read(*batch.ids)
        real = batch.target_output != PAD
        loss = -float(forced.log_probabilities.numpy()[real].sum(dtype=np.float64))
        return loss, int((forced.likeliest.numpy() == batch.target_output)[real].sum())
