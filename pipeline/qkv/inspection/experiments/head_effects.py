"""Tables of the effects of head ablations: for each sentence, and for a set with intervals and significance tests.

Letters: N sentences, P changes of one head each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...statistics.resampling import SAMPLES, ratio, ratio_interval
from ...statistics.significance import holm, randomisation_p

EFFECTS = ("loss_change", "argmax_changed")
"""The columns of the effects: the rise of the loss, and the share of tokens whose likeliest prediction changes."""

EXCHANGES_PER_TEST = 200
"""The number of random exchanges for each of the tests that are corrected together. With 20 or fewer, no p-value could
be below 0.05 after Holm's correction."""

MOST_EXCHANGES = 20_000
"""The largest number of random exchanges for all tests."""


class HeadEffects(NamedTuple):
    """The effects of single changes on the loss of the targets of N sentences.

    - changes: (layer, head, name) of each change, P of them.
    - sums: `(N, P, 2)`, sums over the target tokens of a sentence: the rise of the loss in nats, and the number of
      tokens whose likeliest prediction changes.
    - tokens: `(N,)`, the numbers of target tokens.
    """

    changes: Sequence[tuple[int, int, str]]
    sums: np.ndarray
    tokens: np.ndarray

    def table(self) -> pd.DataFrame:
        """Returns the effects on the whole set.

        Returns:
            One row per layer, head and change, the largest `loss_change` first, with these columns:

            - layer, head, change: the indices of the layer and head, and the name of the change.
            - loss_change, argmax_changed: means over all target tokens.
            - tokens: the number of target tokens.
            - `_low` and `_high` of both means: the ends of their 95 % intervals over sentences.
            - p: the p-value of the change of the loss, by approximate randomisation, after Holm's correction over all
              rows.
        """
        denominators = np.broadcast_to(self.tokens[:, None, None].astype(float), self.sums.shape)
        means = ratio(self.sums, denominators)
        low, high = ratio_interval(self.sums, denominators)
        columns = dict(zip(EFFECTS, means.T, strict=True)) | {"tokens": int(self.tokens.sum())}
        for i, effect in enumerate(EFFECTS):
            columns[f"{effect}_low"] = low[:, i]
            columns[f"{effect}_high"] = high[:, i]
        rise = self.sums[..., 0]
        tokens = denominators[..., 0]
        exchanges = exchanges_for(len(self.changes))
        p = randomisation_p((np.zeros_like(rise), tokens), (rise, tokens), samples=exchanges)
        table = self._table_of_changes().assign(**columns, p=holm(p))
        return table.sort_values("loss_change", ascending=False, kind="stable", ignore_index=True)

    def sentences(self) -> pd.DataFrame:
        """Returns the effects on each sentence.

        Returns:
            One row per sentence, layer, head and change: `id` (the sentence's index), `layer`, `head`, `change`,
            `tokens`, and `loss_change` and `argmax_changed`, means over the sentence's target tokens; NaN if it has no
            target tokens.
        """
        means = ratio(self.sums[None], np.broadcast_to(self.tokens[None, :, None, None], self.sums[None].shape))
        sentences = pd.DataFrame({"id": range(len(self.tokens)), "tokens": self.tokens})
        rows = sentences.merge(self._table_of_changes(), how="cross")[["id", "layer", "head", "change", "tokens"]]
        return rows.assign(**dict(zip(EFFECTS, means.reshape(-1, 2).T, strict=True)))

    def in_larger_set(self, sentences: int, rows: Sequence[int]) -> "HeadEffects":
        """Returns the effects on a larger set that contains the N sentences.

        Args:
            sentences: the number of sentences of the larger set.
            rows: the index of each of the N sentences in the larger set. The effects on all other sentences are 0, with
                0 tokens.
        """
        sums = np.zeros((sentences, *self.sums.shape[1:]))
        sums[rows] = self.sums
        tokens = np.zeros(sentences, int)
        tokens[rows] = self.tokens
        return HeadEffects(self.changes, sums, tokens)

    def _table_of_changes(self) -> pd.DataFrame:
        return pd.DataFrame(list(self.changes), columns=["layer", "head", "change"])


def exchanges_for(tests: int) -> int:
    """Returns the number of random exchanges of each test, for `tests` tests that Holm's method corrects together."""
    return min(max(SAMPLES, EXCHANGES_PER_TEST * tests), MOST_EXCHANGES)
