"""The attention of a recurrent decoder to the states of the encoder."""

from ..attention.additive import AdditiveAttention
from ..attention.mechanisms import MECHANISMS
from ..attention.multi_head import MultiHeadAttention
from ..attention.scores import SCORES, Concat


def make_attention(kind, units, hidden_dim, memory_size, policy):
    """Makes the layer, of one head.

    Args:
        kind: a score function, "uniform" or "last" for fixed weights, or "none".
        units: the width of the projected states that are compared.
        hidden_dim: the size of the decoder's state, which is the query.
        memory_size: the size of the encoder's states, which are the values themselves.
        policy: the Keras dtype policy.

    Returns:
        The layer, named `attention`; None for "none".
    """
    if kind == "none":
        return None
    if kind == "additive":
        return AdditiveAttention(units, name="attention", dtype=policy)
    compares = kind not in MECHANISMS  # mechanisms of fixed weights have no score
    projected = kind in SCORES and SCORES[kind].projected
    score = Concat(units=units) if kind == "concat" else kind
    return MultiHeadAttention(
        1,
        units if projected else hidden_dim,
        value_dim=memory_size,
        **({"score": score} if compares else {"mechanism": kind}),
        projection=projected,
        value_projection=False,
        use_bias=False,
        name="attention",
        dtype=policy,
    )
