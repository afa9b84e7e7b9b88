"""The interface of all score functions."""

import keras

from ..pairwise import DotProduct, TanhSum


class Score(keras.Layer):
    """Compares every query with every key of the same head. Learnt parameters are separate for each head.

    Each side is prepared by itself, and then all pairs are compared. So blockwise attention can prepare both sides
    once, and compare as many pairs at a time as memory allows. Subclasses override `prepare`, or `call` if the score
    cannot be written that way; the latter do not work with blockwise attention.

    Call arguments:
        query: `(B, H, T, K)`.
        key: `(B, H, S, K)`.

    Returns:
        The scores `(B, H, T, S)`.

    Example:
        >>> class NegativeDistance(Score):
        ...     def call(self, query, key):
        ...         difference = keras.ops.expand_dims(query, 3) - keras.ops.expand_dims(key, 2)
        ...         return -keras.ops.sum(keras.ops.square(difference), -1)
        >>> query, key = keras.ops.array([[[[0.0, 1.0]]]]), keras.ops.array([[[[1.0, 1.0], [0.0, 3.0]]]])
        >>> NegativeDistance()(query, key).numpy().tolist()
        [[[[-1.0, -4.0]]]]
    """

    comparison: type[DotProduct] | type[TanhSum] = DotProduct
    """How prepared queries and keys are compared, see `qkv.attention.pairwise`."""

    sizes_may_differ = False
    """Whether queries and keys of different sizes can be compared."""

    projected = False
    """Whether a recurrent model projects both sides first. The others have matrices of their own."""

    by_angle = False
    """Whether scores grow as the angle between query and key shrinks, which `LSH` relies on."""

    is_product = False
    """Whether the score is `q k^T` up to a factor, so that the spectrum of `W_Q W_K^T` describes a head."""

    def build(self, query_shape, key_shape):
        """Creates the weights: none, unless a subclass overrides it."""

    def prepare(self, query, key):
        """Returns the arguments of `comparison`: queries and keys, followed by the learnt parameters."""
        return query, key

    def call(self, query, key):
        return self.comparison.compare(*self.prepare(query, key))[0]

    def compute_output_shape(self, query_shape, key_shape):
        return (*query_shape[:-1], key_shape[-2])
