"""An update of ours."""

from qkv.runtime.import_tensorflow import importing_tensorflow

with importing_tensorflow():
    import tensorflow as tf

from qkv.model.transformer import Transformer
from qkv.runtime.devices import slices_per_update
from qkv.runtime.machine import keep_freed_memory
from qkv.text.batch import Batch
from qkv.training.loss import TotalLoss
from qkv.training.optimizers import make_optimizer
from qkv.training.step import TrainStep
from tests.benchmarks.contestants.training_batch import make_batch


def prepare(settings):
    """`settings["precision"]` is the Keras dtype policy, `settings["xla"]` whether XLA compiles the update."""
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
    model.build()
    optimizer = make_optimizer(1e-3, optimizer="adam", beta_1=0.9, beta_2=0.98, epsilon=1e-7)
    optimizer.build(model.trainable_variables)
    loss = TotalLoss(model, label_smoothing=0.1)
    xla = settings.get("xla", False)
    slices = 1 if xla else slices_per_update()
    step = TrainStep(loss, optimizer, tf.distribute.get_strategy(), slices=slices, xla=xla)
    batch = Batch(*(tf.constant(ids) for ids in make_batch(settings)))

    def turn():
        float(step(batch).loss)
        return {}

    return turn
