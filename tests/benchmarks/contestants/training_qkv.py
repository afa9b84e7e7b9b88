"""An update of ours."""

from pipeline.runtime.import_tensorflow import importing_tensorflow

with importing_tensorflow():
    import tensorflow as tf

from pipeline.model.transformer import Transformer
from pipeline.runtime.devices import slices_per_update
from pipeline.runtime.memory import keep_freed_memory
from pipeline.training.optimizers import make_optimizer
from pipeline.training.step import TrainStep
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
    update = TrainStep(model, optimizer, tf.distribute.get_strategy(), label_smoothing=0.1, parts=slices_per_update())
    batch = [tf.constant(ids) for ids in make_batch(settings)]

    def turn():
        float(update(*batch).loss)
        return {}

    return turn
