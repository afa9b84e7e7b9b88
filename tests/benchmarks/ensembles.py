"""Compares an ensemble with its members: BLEU and seconds, greedily and by the beam of the first run's config.

    python -m tests.benchmarks.ensembles RUN RUN2 ... [--set validation] [--turns 2]

Every run, and the ensembles of the first two, three, ... of them, translate the set in turn, so that what else the
machine does slows them alike. Building the graphs is not counted.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from qkv.runtime.import_tensorflow import importing_tensorflow

with importing_tensorflow():
    from qkv.config.run import settings_of_set
    from qkv.metrics.bleu import make_bleu
    from qkv.run.ensemble import load_runs
    from qkv.run.trained_run import TrainedRun
    from qkv.text.corpora.formats import read_corpus
from tests.benchmarks.contest import machine


def searched(run: TrainedRun, beam_size: int, like: TrainedRun) -> TrainedRun:
    """The run with the search of another, but for the size of the beam."""
    decoding = like.config.decoding.model_copy(update={"beam_size": beam_size})
    return replace(run, config=run.config.model_copy(update={"decoding": decoding}))


def main() -> None:
    """Translates, prints a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="trained runs of one tokenizer")
    parser.add_argument("--set", choices=("validation", "test"), default="validation")
    parser.add_argument("--turns", type=int, default=2, help="(default: 2)")
    options = parser.parse_args()
    systems = {root.name: load_runs([root]) for root in options.runs}
    first = next(iter(systems.values()))
    for count in range(2, len(options.runs) + 1):
        systems[f"ensemble of the first {count}"] = load_runs(options.runs[:count])
    corpus = read_corpus(settings_of_set(first.config, options.set, first.directory.config)).in_memory()
    bleu = make_bleu(first.config.data.scoring_tokenizer)
    sizes = (1, first.config.decoding.beam_size)
    runs = {(name, size): searched(run, size, first) for name, run in systems.items() for size in sizes}
    scores, seconds = {}, {key: [] for key in runs}
    for key, run in runs.items():
        texts = [one.text for one in run.translator.translate(corpus.source)]
        scores[key] = bleu.corpus_score(texts, [list(corpus.target)]).score
    for _ in range(options.turns):
        for key, run in runs.items():
            started = time.perf_counter()
            run.translator.translate(corpus.source)
            seconds[key].append(time.perf_counter() - started)
    print(f"{options.set}: {len(corpus)} sentences; {bleu.get_signature()}")
    for name in systems:
        columns = (f"{scores[name, size]:6.2f} BLEU {min(seconds[name, size]):6.1f} s" for size in sizes)
        print(f"{name:28}  greedy {next(columns)}  beam of {sizes[1]} {next(columns)}")
    print(f"{machine()}; seconds: the best of {options.turns} turns")


if __name__ == "__main__":
    main()
