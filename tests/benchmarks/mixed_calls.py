"""Memory of one process over 500 mixed calls on a run: `python -m tests.benchmarks.mixed_calls runs/demo`.

Each call is drawn from `CALLS` with a fixed seed: translations with several settings, alignments, evaluations of small
files, values inside the model, patches, pictures, batches, and the loading of the run. The resident memory is printed
every 50 calls, and at the end its means over the first and the last hundred calls.
"""

import argparse
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import qkv

CALLS_IN_ALL = 500
PRINTED_EVERY = 50
SEED = 1


class MixedCalls:
    """A run, sentences to translate, and the calls that are made on them.

    Args:
        folder: the folder of the run, which is copied, since evaluations are written into it.
        scratch: a folder for files.
    """

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = shutil.copytree(folder, scratch / "run", ignore=shutil.ignore_patterns("*tfevents*"))
        self.scratch = scratch
        self.run = qkv.load(self.folder)
        self.random = random.Random(SEED)
        validation = self.run.trained.config.data.validation
        self.sources, self.targets = (
            Path(path).read_text(encoding="utf-8").splitlines()[:200]
            for path in (validation.source, validation.target)  # of one file each, as in the demo
        )

    def draw(self) -> list[int]:
        """Returns the numbers of 1 to 8 sentences."""
        return self.random.sample(range(len(self.sources)), self.random.randint(1, 8))

    def draw_sources(self) -> list[str]:
        return [self.sources[row] for row in self.draw()]

    def translate(self) -> None:
        settings = {"beam_size": self.random.choice([1, 2, 5]), "length_penalty": self.random.random()}
        self.run.translate(self.draw_sources(), **settings)

    def translate_n_best(self) -> None:
        size = self.random.randint(2, 4)
        self.run.translate(self.draw_sources(), beam_size=size, n_best=size)

    def sample(self) -> None:
        settings = {"temperature": 0.5 + self.random.random(), "top_k": self.random.choice([5, 10, 20])}
        self.run.translate(self.draw_sources(), search="sampling", seed=self.random.randint(1, 99), **settings)

    def align(self) -> None:
        rows = self.draw()
        at = self.random.choice([None, "0,0,output", "0,mean,output"])
        self.run.align([self.sources[row] for row in rows], [self.targets[row] for row in rows], at=at)

    def evaluate(self) -> None:
        rows = self.draw()
        files = {"source": self.sources, "reference": self.targets}
        for name, lines in files.items():
            (self.scratch / name).write_text("".join(f"{lines[row]}\n" for row in rows), encoding="utf-8")
        evaluation = self.run.evaluate(**{name: self.scratch / name for name in files}, name="mixed", beam_size=1)
        assert len(evaluation.archive) == len(rows) and len(evaluation.scores)
        shutil.rmtree(evaluation.path)

    def cache(self) -> None:
        self.run.cache(self.draw_sources()[:2], self.random.choice([("*",), ("decoder.*.scores",), ("*.residual",)]))

    def patch(self) -> None:
        source = self.random.choice(self.sources)
        self.run.patch(source, source, ("decoder.0.cross.weights",))

    def explain(self) -> None:
        self.run.explain(self.random.choice(self.sources), "decoder.0.cross", head=0, row=0)

    def show_attention(self) -> None:
        assert self.run.translate(self.random.choice(self.sources))._repr_html_()

    def picture(self) -> None:
        axes = self.run.translate(self.random.choice(self.sources)).attention.plot(ax=Figure().add_subplot())
        assert axes.images or axes.collections

    def show(self) -> None:
        assert "<iframe" in self.run.show(self.draw_sources()[:2])._repr_html_()

    def weigh(self) -> None:
        assert len(self.run.weights())

    def generate(self) -> None:
        ids = self.run.read_ids(self.random.choice(self.sources))[0][0]
        assert self.run.model.generate([list(ids)], self.random.choice(["greedy", "beam"])).shape[0] == 1

    def translate_series(self) -> None:
        assert self.run.translate(pd.Series([*self.draw_sources(), None])).isna().sum() == 1

    def make_and_save(self) -> None:
        path = self.scratch / "saved"
        self.run.with_model(self.run.model).save(path)
        shutil.rmtree(path)

    def load(self) -> None:
        self.run = qkv.load(self.folder, self.random.choice(["best", "last"]))

    def read_batches(self) -> None:
        batches = qkv.batches(self.folder, self.random.choice(["train", "validation"]))
        assert len(batches[0][0][0])


CALLS: dict[str, int] = {
    "translate": 8,
    "translate_n_best": 3,
    "sample": 3,
    "align": 3,
    "evaluate": 1,
    "cache": 3,
    "patch": 2,
    "explain": 1,
    "show_attention": 2,
    "picture": 2,
    "show": 1,
    "weigh": 1,
    "generate": 2,
    "translate_series": 1,
    "make_and_save": 1,
    "load": 1,
    "read_batches": 1,
}
"""The methods of `MixedCalls` with their shares."""


def resident_megabytes() -> float:
    """Returns the resident memory of this process, from Linux' /proc."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--calls", type=int, default=CALLS_IN_ALL)
    parser.add_argument("--only", choices=CALLS, help="make this call alone, to find what grows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        calls = MixedCalls(options.run, Path(scratch))
        order = random.Random(SEED)
        sizes, counts = [], Counter()
        for number in range(1, options.calls + 1):
            name = options.only or order.choices(list(CALLS), list(CALLS.values()))[0]
            counts[name] += 1
            getattr(calls, name)()
            sizes.append(resident_megabytes())
            if number % PRINTED_EVERY == 0:
                print(f"{number:5} calls  {sizes[-1]:8.0f} MB", flush=True)
    first, last = (np.mean(part) for part in (sizes[:100], sizes[-100:]))
    print(", ".join(f"{count} {name}" for name, count in counts.most_common()))
    print(f"mean of the first 100 calls {first:.0f} MB, of the last 100 {last:.0f} MB")


if __name__ == "__main__":
    main()
