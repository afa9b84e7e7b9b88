"""Score functions: how a query is compared with a key, before the softmax. This is the table of their names.

Letters: B batch, H heads, T target (query) positions, S source (key) positions, K key size.
"""

from ..by_name import describe_layer, make_layer
from .cosine import COSINES, Cosine
from .networks import NETWORKS, Additive, Concat
from .products import PRODUCTS, Dot, General, ScaledDot
from .score import Score

__all__ = ["SCORES", "Additive", "Concat", "Cosine", "Dot", "General", "ScaledDot", "Score", "make_score"]

SCORES = {**PRODUCTS, **COSINES, **NETWORKS}


def make_score(score, **arguments):
    """Makes a score function.

    Args:
        score: a key of `SCORES`, its config, or a layer whose arguments are taken; see `describe_layer`.
        **arguments: further arguments of that layer, such as `name` and `dtype`.

    Raises:
        ValueError: no score function has that name.

    Example:
        >>> make_score("cosine").initial_scale, make_score(Cosine(initial_scale=2.0)).initial_scale
        (10.0, 2.0)
    """
    return make_layer(SCORES, describe_layer("score", SCORES, score), **arguments)
