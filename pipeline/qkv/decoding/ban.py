"""Bans phrases in a search: each hypothesis carries the state of the automaton that reads its text.

Letters: R hypotheses, V vocabulary.
"""

from keras import ops

from ..layers.dynamic_shape import dynamic_shape
from ..text.banned import BanTable
from .constraints import MINUS_INFINITY


class Ban:
    """Applies a `BanTable`."""

    def __init__(self, table: BanTable) -> None:
        self._following = ops.convert_to_tensor(table.following)
        self._closed = table.closed
        self.opens = ops.convert_to_tensor(table.opens)

    def start(self, hypotheses):
        """Returns the states before the first token: int32 `(R,)`."""
        return ops.zeros((hypotheses,), "int32")

    def advance(self, states, tokens):
        """Returns the states after tokens, int32 `(R,)`."""
        vocabulary = dynamic_shape(self._following)[1]
        following = ops.take(ops.reshape(self._following, (-1,)), states * vocabulary + tokens)
        return ops.maximum(ops.cast(following, "int32"), 0)

    def following(self, states):
        """Returns the states after each token `(R, V)`; below 0 where it is banned."""
        return ops.take(self._following, states, axis=0)

    def allow(self, scores, following, must_end):
        """Returns the scores of the next tokens `(R, V)` with minus infinity for banned ones.

        Args:
            scores: float32 `(R, V)`.
            following: of the hypotheses, see `following`.
            must_end: bool `(R,)`, the hypotheses in which no banned phrase may be whole after the next token, even if
                its last word could go on.
        """
        is_closed = ops.logical_and(ops.expand_dims(must_end, 1), following >= self._closed)
        return ops.where(ops.logical_or(following < 0, is_closed), MINUS_INFINITY, scores)

    def is_free(self, states):
        """Returns in which states, of any shape, no banned phrase has begun."""
        return ops.logical_and(states >= 0, states <= 1)

    def may_end(self, states):
        """Returns in which states the text may end."""
        return states < self._closed
