"""An update of ours."""

from pipeline.native import loading_tensorflow

with loading_tensorflow():
    import tensorflow as tf

from pipeline.model.transformer import Transformer
from pipeline.training.device import parts_of_batch
from pipeline.training.memory import keep_freed_memory
from pipeline.training.optimizer import make_optimizer
from pipeline.training.step import Update
from tests.benchmarks.contestants.training_batch import make_batch


def prepare(settings):
    """`settings["precision"]` is the Keras dtype policy."""
    keep_freed_memory()
    model = Transformer(
        settings["vocabulary"],
        settings["width"],
        settings["heads"],
        settings["hidden"],
        settings["layers"],
        settings["layers"],
        dropout=settings["dropout"],
        norm="post",
        dtype=settings["precision"],
    )
    model.build((None, None), (None, None))
    optimizer = make_optimizer("adam", 1e-3, beta_1=0.9, beta_2=0.98, epsilon=1e-7)
    optimizer.build(model.trainable_variables)
    update = Update(model, optimizer, tf.distribute.get_strategy(), label_smoothing=0.1, parts=parts_of_batch())
    batch = [tf.constant(ids) for ids in make_batch(settings)]

    def turn():
        float(update(*batch).loss)
        return {}

    return turn
