"""Scores of sacreBLEU on drawn or exchanged sentences, from what it counts in each of them.

Letters: N sentences, C counts of a sentence, B samples.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..statistics.paired_tests import p_of_exchanges


class CorpusScore(NamedTuple):
    """A score of a corpus.

    - metric: sacreBLEU's.
    - counts: `(N, C)`, n-grams and lengths of each sentence, whose sums give the score.
    """

    metric: Any
    counts: np.ndarray

    @classmethod
    def of(cls, metric: Any, translations: Sequence[str], references: Sequence[str]) -> "CorpusScore":
        """Counts each sentence."""
        # As sacreBLEU's own tests of significance do it: there is no public name for it.
        return cls(metric, np.array(metric._extract_corpus_statistics(translations, [references]), np.float64))

    def of_set(self) -> float:
        """Returns the score of all sentences."""
        return float(self.of_samples(np.ones((1, len(self.counts))))[0])

    def of_samples(self, sentence_counts: np.ndarray) -> np.ndarray:
        """Returns the scores, `(B,)`, of samples in which each sentence occurs as often as `(B, N)` says."""
        return self._of_sums(sentence_counts @ self.counts)

    def p_against(self, first: "CorpusScore", samples: int) -> float:
        """Tests whether two scores of the same sentences differ, by approximate randomisation (Riezler and Maxwell
        2005): two-sided."""

        def difference(of_first: np.ndarray) -> np.ndarray:
            one, other = (
                self._of_sums(kept @ first.counts + (1 - kept) @ self.counts) for kept in (of_first, 1 - of_first)
            )
            return one - other

        return float(p_of_exchanges(difference, len(self.counts), samples=samples))

    def _of_sums(self, sums: np.ndarray) -> np.ndarray:
        # Sums of whole numbers, but for rounding.
        return np.array([self.metric._compute_score_from_stats(np.rint(row)).score for row in sums])
