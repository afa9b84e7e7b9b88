"""The mechanisms by name."""

from .blockwise import Blockwise
from .fixed_weights import Last, OneHot, Uniform
from .linformer import Linformer
from .lsh import LSH
from .mechanism import Softmax

MECHANISMS = {
    "softmax": Softmax,
    "blockwise": Blockwise,
    "one_hot": OneHot,
    "uniform": Uniform,
    "last": Last,
    "linformer": Linformer,
    "lsh": LSH,
}


def make_mechanism(mechanism, **kwargs):
    """Makes the mechanism of that name.

    Args:
        mechanism: a key of `MECHANISMS`.
        **kwargs: arguments of that layer, such as `score` and `dropout`.

    Raises:
        ValueError: there is none of that name.
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism: expected one of {', '.join(MECHANISMS)}, found {mechanism!r}")
    return MECHANISMS[mechanism](**kwargs)
