"""The likelihood of references under a model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..decoding.forced import ForcedGraph
from ..errors import InputError
from ..runtime.parallel import in_threads
from ..text.batch import make_batch
from ..text.batch_plan import FORCED_BATCH_TOKENS, batches_by_length
from ..text.tokens.encoding import EncodedPairs, EncodedSentences
from ..text.tokens.special_tokens import PAD


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of a set of references under a model: means over all target tokens, EOS included.

    Args:
        loss: the negative log-likelihood in nats per token, without label smoothing.
        token_accuracy: the share of tokens that the model ranks first given the tokens before them, 0 to 1.
        too_long: the number of pairs that were left out because a side is too long for the model.
    """

    loss: float
    token_accuracy: float
    too_long: int = 0

    @property
    def perplexity(self) -> float:
        """The exponential of the loss. A loss above 700 nats counts as 700 nats, to avoid an overflow."""
        return math.exp(min(self.loss, 700.0))


class LikelihoodSum:
    """The likelihood of references that are added sentence by sentence.

    Args:
        max_positions: the maximum number of tokens that the model accepts, for the error message.
    """

    def __init__(self, max_positions: int) -> None:
        self._max_positions = max_positions
        self._too_long = 0
        self._loss = 0.0
        self._right = 0
        self._tokens = 0

    def add(self, log_probabilities: Sequence[float], right: int, truncated: bool) -> None:
        """Adds a sentence. A truncated sentence is left out and counted in `Likelihood.too_long`.

        Args:
            log_probabilities: the log-probability of each token, in nats.
            right: the number of tokens that the model ranks first.
            truncated: True if the source or the target was cut because it is too long for the model.
        """
        if truncated:
            self._too_long += 1
            return
        self._loss -= sum(log_probabilities)
        self._right += right
        self._tokens += len(log_probabilities)

    def means(self) -> Likelihood:
        """Returns the means over all tokens.

        Raises:
            InputError: all pairs were truncated.
        """
        if not self._tokens:
            raise _all_too_long(self._too_long, self._max_positions)
        return Likelihood(self._loss / self._tokens, self._right / self._tokens, self._too_long)


def _all_too_long(pairs: int, max_positions: int) -> InputError:
    return InputError(
        f"all {pairs} pairs have a side of model.max_positions ({max_positions}) tokens or more; use shorter text"
    )


class LikelihoodMeter:
    """A meter of the likelihood of references under a model, for example at each validation of a training.

    Pairs with a side that is too long for the model are left out.

    Args:
        forced_graph: the graph of the model's teacher-forced pass, see `decoding.forced.make_forced_graph`.
        source: the encoded sources.
        target: the encoded references.
        max_positions: the maximum number of tokens that the model accepts, EOS included.
        batch_tokens: the maximum number of positions on either side of a batch, padding included.
        threads: the number of batches that are measured in parallel.

    Attributes:
        too_long: the number of pairs that are left out.
        source, target: the encoded sources and references of the remaining pairs.
        batches: the indices in `source` of the pairs of each batch.

    Raises:
        InputError: all pairs are too long for the model.
    """

    def __init__(
        self,
        forced_graph: ForcedGraph,
        source: EncodedSentences,
        target: EncodedSentences,
        *,
        max_positions: int,
        batch_tokens: int = FORCED_BATCH_TOKENS,
        threads: int = 1,
    ) -> None:
        fits = np.flatnonzero(np.maximum(source.lengths, target.lengths) < max_positions).tolist()
        self.too_long = len(source) - len(fits)
        if not fits:
            raise _all_too_long(self.too_long, max_positions)
        self.source = source.select(fits)
        self.target = target.select(fits)
        self.batches = batches_by_length(self.source.lengths + 1, self.target.lengths + 1, batch_tokens)  # EOS, BOS
        self._forced_graph = forced_graph
        self.threads = threads

    def measure(self) -> Likelihood:
        """Measures the likelihood under the model's current weights. `too_long` of the result is 0."""
        loss, correct = np.sum(list(in_threads(self._measure_batch, self.batches, self.threads)), axis=0)
        tokens = int(np.sum(self.target.lengths)) + len(self.target)
        return Likelihood(float(loss) / tokens, float(correct) / tokens)

    def _measure_batch(self, rows: np.ndarray) -> tuple[float, int]:
        """Returns the loss of a batch in nats, summed over tokens, and the number of tokens that the model ranks first.

        `rows` has the indices of the pairs of the batch.
        """
        batch = make_batch(EncodedPairs(self.source, self.target), rows)
        forced = self._forced_graph(*batch.ids)
        real = batch.target_output != PAD
        loss = -float(forced.log_probabilities.numpy()[real].sum(dtype=np.float64))
        return loss, int((forced.likeliest.numpy() == batch.target_output)[real].sum())
