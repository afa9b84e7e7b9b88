"""Times what the attention archive adds to a translation: every layer's and head's matrix of every sentence.

    python -m tests.benchmarks.dump RUN --source FILE [--turns 5]

Each turn translates the file as the run's config says, and then reads and writes the attention over what was found,
into a folder that is removed. Building the graphs, which happens once, is not counted.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from qkv.runtime.import_tensorflow import importing_tensorflow

with importing_tensorflow():
    from qkv.evaluation.resumable import record_resumably
    from qkv.inspection.archive import ArchiveWriter
    from qkv.inspection.recorder import pair_translations
    from qkv.run.trained_run import TrainedRun, load_run
from tests.benchmarks.contest import machine


def turn(run: TrainedRun, sentences: list[str]) -> tuple[float, float, int]:
    """Seconds of translating and of the archive, and the bytes of the latter."""
    started = time.perf_counter()
    translations = run.translator.translate(sentences)
    translated = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attention"
        with ArchiveWriter(path, manifest={}) as archive:
            recorder = run.recorder(run.config.inspection.attention)
            pairs = list(pair_translations(sentences, None, translations, run.config.decoding.kind))
            record_resumably(archive, recorder, pairs, recorder.sites)
        written = time.perf_counter()
        size = sum(file.stat().st_size for file in path.iterdir())
    return translated - started, written - translated, size


def main() -> None:
    """Times both, prints medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="a trained run")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate")
    parser.add_argument("--turns", type=int, default=5, help="(default: 5)")
    options = parser.parse_args()
    run = load_run(options.run)
    sentences = options.source.read_text(encoding="utf-8").splitlines()
    turn(run, sentences)
    turns = [turn(run, sentences) for _ in range(options.turns)]
    translating, dumping = (statistics.median(column) for column in list(zip(*turns, strict=True))[:2])
    print(f"translating {len(sentences)} sentences: {translating:.2f} s")
    print(f"the archive of {turns[0][2] / 1e6:.1f} MB: {dumping:.2f} s, {100 * dumping / translating:.0f} % of it")
    print(f"{machine()}; medians of {options.turns} turns")


if __name__ == "__main__":
    main()
