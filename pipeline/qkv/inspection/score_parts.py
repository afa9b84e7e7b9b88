"""The scores of one row of attention as sums over pairs of a part of the query and a part of the key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd  # takes half a second; see `Record`

BIASES = "biases"


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """The scores of one row of one head, split into pairs of parts.

    Letters: Q and P parts of query and key, S keys.

    Attributes:
        layer: such as `decoder.0.cross`.
        head: its number.
        row: the query's position.
        query: the token that the row is computed from.
        predicted: the token that the row predicts; empty in the encoder.
        keys: the tokens that it may look at, S of them.
        query_parts: Q names: `token`, `position`, `encoder.0.self.head.1`, `encoder.0.self.bias` (of its output
            projection), `encoder.0.feed_forward`, `encoder.0.feed_forward.bias`, `decoder.0.cross.norm` (the bias of a
            normalisation), `queries.bias`.
        key_parts: P names; likewise, and `keys.bias`.
        pairs: `(Q, P, S)`, float64; the sum over both parts is the score.
        weights: `(S,)`, the softmax of the scores.
    """

    layer: str
    head: int
    row: int
    query: str
    predicted: str
    keys: list[str]
    query_parts: list[str]
    key_parts: list[str]
    pairs: np.ndarray
    weights: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """The scores before the softmax, `(S,)`."""
        return self.pairs.sum(axis=(0, 1))

    @property
    def differences(self) -> np.ndarray:
        """The pairs without their mean over the keys, `(Q, P, S)`: the softmax sees nothing else."""
        return self.pairs - self.pairs.mean(axis=-1, keepdims=True)

    def merged(self) -> "ScoreParts":
        """Returns the same with fewer parts: the heads of a layer are added up, and so are all biases."""
        query_parts, by_query = _merge(self.query_parts)
        key_parts, by_key = _merge(self.key_parts)
        pairs = np.einsum("aq,bp,qps->abs", by_query, by_key, self.pairs)
        return replace(self, query_parts=query_parts, key_parts=key_parts, pairs=pairs)

    def table(self) -> "pd.DataFrame":
        """Returns a row for each key and pair of parts: `position`, `key`, `query_part`, `key_part`, `score`, and
        `difference`, which is the score less its mean over the keys."""
        import pandas as pd

        names = [range(len(self.keys)), self.query_parts, self.key_parts]
        index = pd.MultiIndex.from_product(names, names=["position", "query_part", "key_part"])
        scores, differences = (np.moveaxis(x, -1, 0).ravel() for x in (self.pairs, self.differences))
        table = pd.DataFrame({"score": scores, "difference": differences}, index).reset_index()
        table.insert(1, "key", [self.keys[position] for position in table["position"]])
        return table

    def shares(self) -> "pd.DataFrame":
        """Returns how much of the differences between the row's scores each pair of parts accounts for: a row for each
        part of the query, a column for each part of the key, 1 in sum.

        A share is the covariance of a pair with the scores over the variance of the scores, both over the keys. It is
        negative where a pair holds against what the others want, and 0 for what is the same for all keys. It is
        not-a-number where all scores are equal.
        """
        import pandas as pd

        differences = self.differences
        of_scores = differences.sum(axis=(0, 1))
        variance = (of_scores**2).sum()
        shares = differences @ of_scores / variance if variance else np.full(self.pairs.shape[:2], np.nan)
        return pd.DataFrame(shares, self.query_parts, self.key_parts)


def _merge(names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Returns fewer names, and a matrix of 0 and 1 with a row for each that says which of the old ones it is the sum
    of."""
    coarse = [BIASES if name.endswith((".bias", ".norm")) else name.split(".head.")[0] for name in names]
    kept = [name for name in dict.fromkeys(coarse) if name != BIASES] + [BIASES] * (BIASES in coarse)
    return kept, np.array([[float(name == one) for name in coarse] for one in kept])
