"""Prepares and trains on a corpus of millions of generated pairs, and on one of few, and says what that costs.

    python -m tests.benchmarks.large_corpus [--pairs 10000000] [--few 100000] [--folder FOLDER]

Sentences are drawn from a vocabulary with Zipf's distribution, and each word has one translation; the validation set is
drawn apart. Each phase is a process of its own: preparing, starting a second time up to the first update, training, and
going from one epoch to the next. Memory is the highest that a process holds of its own (anonymous pages, sampled), with
its helpers apart. Times are seconds of the clock and of all processors.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np

WORDS, LONGEST = 60_000, 14
PART = 200_000
UPDATES = 150
ROOT = Path(__file__).parents[2]


def main() -> None:
    """Runs a phase, or all of them, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10_000_000, help="of the large corpus (default: 10000000)")
    parser.add_argument("--few", type=int, default=100_000, help="of the small one (default: 100000)")
    parser.add_argument("--folder", type=Path, help="where the text and the runs are made (default: a temporary one)")
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=list(PHASES), help="(default: all)")
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.phase:
        measured(PHASES[options.phase], options.folder, options.pairs)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for pairs in (options.few, options.pairs):
            work = Path(folder) / str(pairs)
            print(f"-- {pairs:,} pairs", flush=True)
            write_text(work, pairs)
            for phase in options.phases:
                command = [sys.executable, "-m", "tests.benchmarks.large_corpus", "--phase", phase]
                command += ["--folder", str(work), "--pairs", str(pairs)]
                done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
                print(done.stdout.decode().strip(), flush=True)


def write_text(folder: Path, pairs: int) -> None:
    """Writes `train.en`, `train.fr`, `validation.en` and `validation.fr`."""
    folder.mkdir()
    random = np.random.default_rng(1)
    sides = [make_words(random, "aeioubdfgklmnprst"), make_words(random, "aeiouàéèêbcdfgjlmnpqrstv")]
    for name, count in (("validation", 200), ("train", pairs)):
        with (folder / f"{name}.en").open("w") as source, (folder / f"{name}.fr").open("w") as target:
            for first in range(0, count, PART):
                lengths = random.integers(3, LONGEST, size=min(PART, count - first))
                drawn = np.minimum(random.zipf(1.15, size=int(lengths.sum())) - 1, 10**9) % WORDS
                for file, words in zip((source, target), sides, strict=True):
                    texts = iter(words[drawn].tolist())
                    file.writelines(" ".join(islice(texts, length)) + "\n" for length in lengths.tolist())


def make_words(random: np.random.Generator, letters: str) -> np.ndarray:
    """Draws words, of which frequent ones are short."""
    lengths = np.sort(random.integers(2, 11, size=WORDS))
    return np.array(["".join(random.choice(list(letters), length)) for length in lengths], object)


def settings(folder: Path):
    """The config of the run."""
    from qkv.config.run import make_run_config

    files = {
        name: {"source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.fr")}
        for name in ("train", "validation")
    }
    model = {"d_model": 32, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "num_heads": 2}
    values = {
        "run": {"name": "run", "directory": str(folder)},
        "data": {"source_language": "en", "target_language": "fr"} | files,
        "tokenizer": {"vocabulary_size": 8000},
        "batches": {"batch_tokens": 2048, "length_multiple": 8},
        "model": model,
        "training": {"max_updates": UPDATES, "validate_every_updates": 10**6, "warmup_updates": 10},
        "inspection": {"probes": []},
    }
    return make_run_config(values, {}, "run")


def prepare(folder: Path) -> str:
    """Prepares the run."""
    from qkv.files.run_directory import RunDirectory
    from qkv.text.prepare import prepare_text

    prepare_text(settings(folder), RunDirectory.create(folder / "run"))
    return "prepared"


def load(folder: Path):
    """The run's text, the batches and the update, as a start makes them."""
    from qkv.files.run_directory import RunDirectory
    from qkv.runtime.devices import make_strategy
    from qkv.text.training_text import load_text
    from qkv.training.build import build_batches_and_step, build_model_and_optimizer, build_schedule
    from qkv.training.progress import Progress

    config, strategy = settings(folder), make_strategy()
    text = load_text(config, RunDirectory(folder / "run"))
    model, optimizer = build_model_and_optimizer(
        config, text.tokenizer.vocabulary_size, build_schedule(config, strategy), strategy
    )
    return build_batches_and_step(config, text, model, optimizer, strategy, Progress())


def start(folder: Path) -> str:
    """Starts a second time, up to the first update."""
    batches, step = load(folder)
    count = batches.plan(0).count
    step(next(batches.epoch(0)))
    return f"second start, {count:,} batches an epoch, first update"


def train(folder: Path) -> str:
    """Makes some updates."""
    batches, step = load(folder)
    stream = batches.epoch(0)
    for batch in islice(stream, 20):  # traces what there is to trace
        step(batch)
    started, used, tokens = time.monotonic(), time.process_time(), 0.0
    for batch in islice(stream, UPDATES):
        tokens += float(step(batch).tokens)
    elapsed, used = time.monotonic() - started, time.process_time() - used
    return f"{UPDATES} updates: {tokens / elapsed:,.0f} tokens/s, {tokens / used:,.0f} per second of processor"


def turn(folder: Path) -> str:
    """Goes from one epoch to the next, as the loop does, without updates."""
    from qkv.files.run_directory import RunDirectory
    from qkv.runtime.devices import make_strategy
    from qkv.text.training_text import load_text
    from qkv.training.build import build_batches

    config = settings(folder)
    text = load_text(config, RunDirectory(folder / "run"))
    batches = build_batches(config, text, make_strategy(), config.batches.batch_tokens)
    count = batches.plan(0).count
    gaps, last = [], (time.monotonic(), time.process_time())
    for epoch, first in ((0, count - 30), (1, 0)):
        for _ in islice(batches.epoch(epoch, first), 30):
            now = time.monotonic(), time.process_time()
            gaps.append((now[0] - last[0], now[1] - last[1]))
            last = now
    waited, used = max(gaps[1:])
    return f"the longest wait at the end of an epoch {waited:.2f} s, {used:.2f} s of processors"


PHASES = {"prepare": prepare, "start": start, "train": train, "turn": turn}


def measured(phase, folder: Path, pairs: int) -> None:
    """Runs a phase in this process, and prints what it took."""
    highest = Highest()
    started = time.monotonic()
    said = phase(folder)
    elapsed = time.monotonic() - started
    used = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    print(f"{said}: {elapsed:.1f} s, {used:.1f} s of processors, {highest.stop():,.0f} MB")


class Highest:
    """Watches this process' own memory."""

    def __init__(self) -> None:
        self._most, self._done = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Megabytes at the highest."""
        self._done.set()
        self._thread.join()
        return self._most

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            status = Path(f"/proc/{os.getpid()}/status").read_text()
            own = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
            self._most = max(self._most, int(own.split()[1]) / 1024)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
