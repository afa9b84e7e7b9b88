"""Times what an evaluation does around its model: the archive and its tables, with a model that costs nothing.

    python -m tests.benchmarks.archive_speed RUN [--layers 6] [--heads 8] [--repeat 1] [--turns 3]

The teacher-forced pass is replaced by random weights of so many layers and heads at the three sites of attention. The
texts are the references of RUN's test set, `--repeat` times. It prints processor seconds of each stage, the median of
the turns, and megabytes of weights a second, beside `numpy.save` of the same bytes.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np

import qkv
from qkv.decoding.forced import TeacherForced
from qkv.evaluation.tables import SetTables
from qkv.inspection.archive import ArchiveWriter, AttentionArchive
from qkv.inspection.viewer.data import ViewerRun
from qkv.run.trained_run import load_run

SITES = ("cross", "encoder", "decoder")


class Free:
    """A result of a graph: an array with the method `numpy` of a tensor."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def numpy(self) -> np.ndarray:
        return self._array


def free_graph(layers: int, heads: int):
    """Returns a teacher-forced pass that gives random weights, drawn once for each shape."""
    pool: dict[tuple[int, ...], np.ndarray] = {}

    def make(*shape: int) -> Free:
        if shape not in pool:
            weights = np.random.default_rng(1).random(shape, np.float32)
            pool[shape] = weights / (weights.sum(-1, keepdims=True) + 1e-6)
        return Free(pool[shape])

    def read(source, target_input, target_output):
        (rows, S), T, outputs = source.shape, target_input.shape[1], target_output.shape
        lengths = {"cross": (T, S), "encoder": (S, S), "decoder": (T, T)}
        attention = {site: make(rows, layers, heads, *lengths[site]) for site in SITES}
        zeros = np.zeros(outputs, np.float32)
        return TeacherForced(Free(zeros), Free(zeros.astype(np.int32)), attention, {})

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    for name, default in (("layers", 6), ("heads", 8), ("repeat", 1), ("turns", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    run = load_run(options.run)
    test = run.config.data.test
    sources, references = (Path(path).read_text(encoding="utf-8").splitlines() for path in (test.source, test.target))
    sources, references = sources * options.repeat, references * options.repeat
    recorder = run.recorder(SITES)
    recorder.forced_graph = free_graph(options.layers, options.heads)
    list(recorder.record_references(sources, references))  # the free model's weights are drawn before the turns
    seconds: dict[str, list[float]] = {}

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        began = time.process_time()
        yield
        seconds.setdefault(stage, []).append(time.process_time() - began)

    for _ in range(options.turns):
        with tempfile.TemporaryDirectory(dir=".") as folder:
            archive = Path(folder, "archive")
            with timed("record"):
                records = list(recorder.record_references(sources, references))
            with timed("write the archive"), ArchiveWriter(archive, manifest={}) as writer:
                for record in records:
                    writer.append(record)
            arrays = [array for record in records for array in record.attention.values()]
            size = sum(array.nbytes for array in arrays)
            flat = np.concatenate([array.ravel() for array in arrays])
            del records, arrays
            with timed("numpy.save"), Path(folder, "all.npy").open("wb") as file:
                np.save(file, flat)
                file.flush()
                os.fsync(file.fileno())
            with timed("read the archive"):
                records = list(AttentionArchive(archive).records(SITES))
            with timed("tables"):
                tables = SetTables(None, None)
                rows = [tables.add(record) for record in records]
            with timed("page"):
                viewer = ViewerRun("run")
                for record, row in zip(records, rows, strict=True):
                    viewer.add(record, row)
    print(f"{len(sources)} sentences, {size / 1e6:.1f} MB, qkv {qkv.__version__}")
    for stage, turns in seconds.items():
        value = median(turns)
        print(
            f"{stage:20} {value:7.2f} s {1e3 * value / len(sources):7.2f} ms a sentence {size / value / 1e6:8.0f} MB/s"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
