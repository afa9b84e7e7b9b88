"""The cost of changing one head at a time: of each sentence, and of a set with intervals and tests.

Letters: N sentences, P changes of one head each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...statistics.resampling import SAMPLES, ratio, ratio_interval
from ...statistics.significance import holm, randomisation_p

EFFECTS = ("loss_change", "argmax_changed")
SAMPLES_A_TEST, MOST_SAMPLES = 200, 20_000
"""The number of random exchanges for each of the tests that Holm corrects, since with 20 or fewer none could be
below 0.05; and how many at most."""


class HeadEffects(NamedTuple):
    """The effects of changes on given targets.

    - places: of each change (layer, head, its name), P of them.
    - sums: `(N, P, 2)`, summed over a sentence's target tokens: the rise of their loss in nats, and the number of those
        whose likeliest prediction changes.
    - tokens: `(N,)`, the target tokens.
    """

    places: Sequence[tuple[int, int, str]]
    sums: np.ndarray
    tokens: np.ndarray

    def table(self) -> pd.DataFrame:
        """Returns one row per layer, head and change, the largest loss first: `loss_change` and `argmax_changed`, means
        over all target tokens, whose number is `tokens`; the ends of their 95 % intervals over sentences (`_low`,
        `_high`); and `p`, by approximate randomisation, of the change of the loss being none, corrected for all rows
        (Holm 1979)."""
        below = np.broadcast_to(self.tokens[:, None, None].astype(float), self.sums.shape)
        columns = dict(zip(EFFECTS, ratio(self.sums, below).T, strict=True)) | {"tokens": int(self.tokens.sum())}
        low, high = ratio_interval(self.sums, below)
        columns |= {f"{EFFECTS[i]}_{name}": end[:, i] for i in (0, 1) for name, end in (("low", low), ("high", high))}
        loss = self.sums[..., 0], below[..., 0]
        p = randomisation_p((np.zeros_like(loss[0]), loss[1]), loss, samples=samples_for(len(self.places)))
        table = self._places().assign(**columns, p=holm(p))
        return table.sort_values("loss_change", ascending=False, kind="stable", ignore_index=True)

    def sentences(self) -> pd.DataFrame:
        """Returns one row per sentence, layer, head and change: `id`, `layer`, `head`, `change`, `tokens`,
        `loss_change` and `argmax_changed`, means over the sentence's target tokens; not-a-number without any."""
        means = ratio(self.sums[None], np.broadcast_to(self.tokens[None, :, None, None], self.sums[None].shape))
        sentences = pd.DataFrame({"id": range(len(self.tokens)), "tokens": self.tokens})
        rows = sentences.merge(self._places(), how="cross")[["id", "layer", "head", "change", "tokens"]]
        return rows.assign(**dict(zip(EFFECTS, means.reshape(-1, 2).T, strict=True)))

    def among(self, sentences: int, rows: Sequence[int]) -> "HeadEffects":
        """Returns the effects of so many sentences, of which these are the ones in `rows`; the others count nothing."""
        sums = np.zeros((sentences, *self.sums.shape[1:]))
        sums[rows] = self.sums
        tokens = np.zeros(sentences, int)
        tokens[rows] = self.tokens
        return HeadEffects(self.places, sums, tokens)

    def _places(self) -> pd.DataFrame:
        return pd.DataFrame(list(self.places), columns=["layer", "head", "change"])


def samples_for(tests: int) -> int:
    """Returns how many random exchanges tests that Holm corrects need."""
    return min(max(SAMPLES, SAMPLES_A_TEST * tests), MOST_SAMPLES)
