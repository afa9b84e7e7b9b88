"""The graph of a forced pass, traced once for batches of any shape."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from pipeline.decoding.forced import Forced, forced_pass
from pipeline.decoding.saliency import gradient_times_input

Reader = Callable[..., Forced]
"""`(source, target_input, target_output) -> Forced`, of int32 `(B, S)` and twice `(B, T)`."""


def make_reader(model: keras.Model, sites: Sequence[str] = ()) -> Reader:
    """Reads batches by `forced_pass`.

    Args:
        model: anything with the surface of `pipeline.model.surface`.
        sites: which attention to return: any of `forced.SITES`, and `gradients` (`gradient_times_input`).
    """

    def read(source, target_input, target_output):
        batch = source, target_input, target_output
        forced = forced_pass(model, *batch, [site for site in sites if site != "gradients"])
        if "gradients" in sites:
            forced.attention["gradients"] = gradient_times_input(model, *batch)
        return forced

    return tf.function(read, input_signature=(tf.TensorSpec([None, None], tf.int32),) * 3, autograph=False)
