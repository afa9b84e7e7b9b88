"""The graph of a teacher-forced pass, traced once for batches of any shape."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from .forced import TeacherForced, forced_pass
from .saliency import gradient_times_input

ForcedGraph = Callable[..., TeacherForced]
"""`(source, target_input, target_output) -> TeacherForced`; takes int32 `(B, S)`, `(B, T)` and `(B, T)`."""


def make_forced_graph(model: keras.Model, sites: Sequence[str] = ()) -> ForcedGraph:
    """Makes a `tf.function` of `forced_pass` for one model.

    Args:
        model: any `TranslationModel`.
        sites: which attention to return: any of `config.names.inspection.SITES`.
    """

    def read(source, target_input, target_output):
        batch = source, target_input, target_output
        forced = forced_pass(model, *batch, [site for site in sites if site != "gradients"])
        if "gradients" in sites:
            forced.attention["gradients"] = gradient_times_input(model, *batch)
        return forced

    return tf.function(read, input_signature=(tf.TensorSpec([None, None], tf.int32),) * 3, autograph=False)
