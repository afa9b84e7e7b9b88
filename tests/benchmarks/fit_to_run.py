"""Fits the model of the demo by `fit` of Keras, saves it as a run, and evaluates it beside the run of `train.py`.

    make demo
    python -m tests.benchmarks.fit_to_run [--seed 1] [--output runs/fitted]

Both have the same batches, Adam, schedule and number of updates. It takes some three minutes on two cores. The
scores of `runs/demo` are those of its own evaluation.
"""

import argparse
import math
from pathlib import Path

import keras

import qkv
from qkv.files.json import read_json_object
from qkv.model.build import build_model
from qkv.training.schedule import WarmupSchedule

DEMO = Path("runs/demo")


class StopAfter(keras.callbacks.Callback):
    """Ends `fit` after a number of updates, also within an epoch."""

    def __init__(self, updates: int) -> None:
        super().__init__()
        self.updates = updates

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) >= self.updates:
            self.model.stop_training = True


def fit_demo(seed: int) -> qkv.Run:
    """Returns the demo's run with a new model that `fit` has trained."""
    run = qkv.load(DEMO)
    batches = qkv.batches(DEMO)
    settings = run.config.training
    updates = settings.max_updates or 0
    keras.utils.set_random_seed(seed)
    model = build_model(run.config.model, batches.text.tokenizer.vocabulary_size)
    rate = WarmupSchedule(settings.schedule, settings.learning_rate, settings.warmup_updates, updates)
    adam = keras.optimizers.Adam(
        rate, settings.beta_1, settings.beta_2, settings.epsilon, global_clipnorm=settings.clip_norm
    )
    model.compile(adam, qkv.losses.TokenCrossEntropy(settings.label_smoothing))
    model.fit(
        batches, epochs=math.ceil(updates / len(batches)), shuffle=False, callbacks=[StopAfter(updates)], verbose=2
    )
    return run.with_model(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs/fitted"))
    options = parser.parse_args()
    fitted = fit_demo(options.seed).save(options.output).evaluate("test")
    metrics = {str(options.output): fitted.metrics, str(DEMO): read_json_object(DEMO / "evaluations/test/metrics.json")}
    for name, values in metrics.items():
        print(f"{name}: BLEU {values['bleu']:.2f}, AER {values['alignment']['aer']:.2f} %")


if __name__ == "__main__":
    main()
