"""What a beam search is made to keep to, beside its settings: here nothing, in `lexical` words.

Letters: A sentences still searched, B batch, K beam size, V vocabulary.
"""

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from .constraints import MINUS_INFINITY
from .hypotheses import top_k_of_many


class Constraint:
    """Allows everything. A subclass has a state for each hypothesis, which goes with it from step to step.

    `rows`, int32 `(A,)`, are everywhere the sentences of the batch that are still searched.
    """

    def start(self):
        """Returns the state before the first token: any nested structure of tensors `(B * K, ...)`."""
        return ()

    def advance(self, state, tokens, rows):
        """Returns the state after the tokens int32 `(A * K,)`, which are BOS at first."""
        return ()

    def allow(self, allowed, scores, state, step, rows):
        """Returns the scores of the next tokens, `(A * K, V)`, with minus infinity for those that are not allowed.

        Args:
            allowed: the scores after all bans of the settings.
            scores: the scores before them.
            state: of the hypotheses.
            step: how many tokens they have.
            rows: the sentences.
        """
        return allowed

    def best_extensions(self, totals, state, rows, count):
        """Chooses among the extensions of a sentence's hypotheses.

        Args:
            totals: float32 `(A, K, V)`, the log-probability of each hypothesis with each token.
            state: of the hypotheses.
            rows: the sentences.
            count: of those to choose.

        Returns:
            `(totals, indices)`: float32 and int32 `(A, count)`, in the order of preference, each the K hypotheses times
            the V tokens.
        """
        sentences, size, vocabulary = dynamic_shape(totals)
        return top_k_of_many(ops.reshape(totals, (sentences, size * vocabulary)), count)

    def open_scores(self, scores, ends, size):
        """Returns the scores of candidates `(A, 2 K)`, which stand in the order of preference, with minus infinity for
        those that do not stay live: here those that end."""
        return ops.where(ends, MINUS_INFINITY, scores)
