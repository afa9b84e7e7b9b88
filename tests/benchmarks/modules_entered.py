"""Lists the modules of the package that one piece of work enters, in order.

    python -m tests.benchmarks.modules_entered evaluate|update|translate RUN

- `evaluate`: the way of the data through `evaluate_set`, on RUN's test set. The first call counts of each public
  function that stands in `evaluation/` or is called from there, but for the foundation (files, runtime, config, text,
  run). Consecutive calls of one module are one stay; a stay in a module that was entered before is a return.
- `update`: the first batch of RUN's text, from the plan of its epoch through an update; the first call of every
  function.
- `translate`: a sentence through RUN's translator, which has translated before; the first call of every function.
"""

import argparse
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import FrameType

import qkv
from qkv.runtime.import_tensorflow import importing_tensorflow

PACKAGE = Path(qkv.__file__).parent
FOUNDATION = {"files", "runtime", "config", "text", "run"}


@dataclass
class Walk:
    """The module of each call that counts, as its path in the package."""

    calls: list[str] = field(default_factory=list)

    @property
    def stays(self) -> list[str]:
        """The modules, one stay after the other."""
        return [module for module, _ in groupby(self.calls)]

    @property
    def modules(self) -> list[str]:
        """The modules, each once."""
        return list(dict.fromkeys(self.calls))

    @property
    def returns(self) -> int:
        """The number of stays in modules that were entered before."""
        return len(self.stays) - len(self.modules)


def module_of(frame: FrameType | None) -> str:
    """Returns the path in the package of a frame's module; empty outside the package."""
    name = frame.f_code.co_filename if frame else ""
    return str(Path(name).relative_to(PACKAGE)) if name.startswith(f"{PACKAGE}/") else ""


def counts_always(module: str, frame: FrameType) -> bool:
    """Counts every function."""
    return True


def counts_step_of_evaluation(module: str, frame: FrameType) -> bool:
    """Counts public functions of `evaluation/` or called from there, but for the foundation."""
    if frame.f_code.co_name.startswith(("_", "<")) or module.split("/")[0] in FOUNDATION:
        return False
    return module.startswith("evaluation/") or module_of(frame.f_back).startswith("evaluation/")


@contextmanager
def walking(counts: Callable[[str, FrameType], bool] = counts_always) -> Iterator[Walk]:
    """Notes the first call of each function that counts, on this thread and on those that it starts."""
    walk, seen = Walk(), set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code not in seen and (module := module_of(frame)) and counts(module, frame):
            seen.add(frame.f_code)
            walk.calls.append(module)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def walk_evaluate(root: Path) -> Walk:
    """Evaluates a run on its test set; the results are in its evaluation `modules_entered`."""
    from qkv.evaluation.evaluate_set import evaluate_set
    from qkv.evaluation.request import EvaluationRequest, read_configured_set
    from qkv.run.trained_run import load_run

    run = load_run(root)
    request = EvaluationRequest(run, read_configured_set(run, "modules_entered", "test"))
    with walking(counts_step_of_evaluation) as walk:
        evaluate_set(request)
    return walk


def walk_update(root: Path) -> Walk:
    """Takes the first batch of a run's text through an update of an untrained model."""
    import tensorflow as tf

    from qkv.run.trained_run import load_run
    from qkv.text.training_text import load_text
    from qkv.training.build import build_batches_and_step, build_model_and_optimizer, build_schedule
    from qkv.training.progress import Progress

    run, strategy = load_run(root), tf.distribute.get_strategy()
    config, text = run.config, load_text(run.config, run.directory)
    schedule = build_schedule(config, strategy)
    model, optimizer = build_model_and_optimizer(config, text.tokenizer.vocabulary_size, schedule, strategy)
    batches, step = build_batches_and_step(config, text, model, optimizer, strategy, Progress())
    with walking() as walk:
        step(next(iter(batches.epoch(0))))
    return walk


def walk_translate(root: Path) -> Walk:
    """Translates a sentence."""
    from qkv.run.trained_run import load_run

    translator = load_run(root).translator
    translator.translate(["Two dogs play in the snow."])
    with walking() as walk:
        translator.translate(["A man is here."])
    return walk


WALKS = {"evaluate": walk_evaluate, "update": walk_update, "translate": walk_translate}


def main() -> None:
    """Prints the stays, and how many modules and returns they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=WALKS)
    parser.add_argument("run", type=Path, metavar="RUN")
    options = parser.parse_args()
    with importing_tensorflow():
        import keras  # noqa: F401 - loads TensorFlow quietly
    walk = WALKS[options.work](options.run)
    print("\n".join(walk.stays))
    print(f"{len(walk.stays)} stays, {len(walk.modules)} modules, {walk.returns} returns")


if __name__ == "__main__":
    main()
