"""The race: toolkits that train the same 29,000 pairs of Multi30k for the same minutes on the same cores.

    python data/multi30k/prepare.py
    make race                                       # makes the environments, then runs everybody: two hours
    python -m tests.benchmarks.race --only marian eole
    python -m tests.benchmarks.race --minutes 30 --folder runs/race30 --only qkv eole

Each racer trains in a process of its own, for minutes that count from the start of that process: imports, tokenizer and
compiling are within them. It saves checkpoints on the way; later ones do not count. After its time each of them
translates the validation set greedily, which the curves show, and the best of them translates the validation and the
test set with the search that the toolkit documents. All is scored here, by sacreBLEU on the tokenised lines as they
are. The same command goes on with what was stopped or has failed. `racers/` says what each is and how it was set.

The folder gets `results.csv`, `results.md`, `curve.csv`, `race.svg` and `race.png`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import sacrebleu

from tests.benchmarks.contest import ROOT, TENSORFLOW, THREADS
from tests.benchmarks.race_results import write_results
from tests.benchmarks.racers.clock import read_checkpoints
from tests.benchmarks.racers.run import TEXT, TRAINED, hypotheses, read_lines

VALIDATION, TEST = "val", "test_2016_flickr"
GRACE = 1.01  # of the minutes: the last checkpoint is written when they are over
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}  # PyTorch's threads stand still when anything else runs, if they wait actively


class RacerError(Exception):
    """A racer's process has failed."""


class Racer(NamedTuple):
    """Who races.

    - title: what table and picture call it.
    - module: its module, see `racers/__init__.py`.
    - environment: the folder of the virtual environment that it runs in; empty for this one.
    """

    title: str
    module: str
    environment: str = ""


TORCH, KERAS = ".venv-race", ".venv-race-keras"
RACERS = {
    "qkv": Racer("qkv", "tests.benchmarks.racers.qkv"),
    "marian": Racer("Hugging Face Marian", "tests.benchmarks.racers.marian", TORCH),
    "eole": Racer("eole", "tests.benchmarks.racers.eole", TORCH),
    "joeynmt": Racer("JoeyNMT", "tests.benchmarks.racers.joeynmt", TORCH),
    "keras_hub": Racer("KerasHub's example", "tests.benchmarks.racers.keras_hub", KERAS),
    "tutorial_transformer": Racer(
        "TensorFlow tutorial, Transformer", "tests.benchmarks.racers.tutorial_transformer", KERAS
    ),
    "tutorial_gru": Racer("TensorFlow tutorial, GRU", "tests.benchmarks.racers.tutorial_gru", KERAS),
}


def race(racers: Mapping[str, Racer], folder: Path, text: Path, minutes: float, threads: int) -> list[dict[str, Any]]:
    """Lets the racers run one after another; returns a row of the table, with its curve, for each that did not fail."""
    rows = []
    for name, racer in racers.items():
        try:
            trained = _train(racer, folder / name, text, minutes, threads)
            rows.append(_result(name, racer, folder / name, text, trained, threads))
        except RacerError as error:
            print(error, file=sys.stderr, flush=True)
        else:
            print("{racer}: {validation BLEU:.2f}, test {test BLEU:.2f}".format(**rows[-1]), flush=True)
    return rows


def _train(racer: Racer, folder: Path, text: Path, minutes: float, threads: int) -> dict[str, Any]:
    if not (folder / TRAINED).is_file():
        shutil.rmtree(folder, ignore_errors=True)  # of a training that was stopped
        folder.mkdir(parents=True)
        print(f"{racer.title}: trains for {minutes:g} minutes", flush=True)
        _run(racer, "train", folder, text, threads, "--minutes", str(minutes), "--started", str(time.time()))
    trained = json.loads((folder / TRAINED).read_text(encoding="utf-8"))
    if trained["allowed_minutes"] != minutes:
        raise SystemExit(f"{folder}: trained for {trained['allowed_minutes']:g} minutes; name another --folder")
    return trained


def _result(
    name: str, racer: Racer, folder: Path, text: Path, trained: Mapping[str, Any], threads: int
) -> dict[str, Any]:
    within = GRACE * float(trained["allowed_minutes"])
    checkpoints = [checkpoint for checkpoint in read_checkpoints(folder) if checkpoint["minutes"] <= within]
    names, beam = [checkpoint["name"] for checkpoint in checkpoints], int(trained["beam"])
    _translate(racer, folder, text, VALIDATION, names, 1, threads)
    curve = [
        {"racer": racer.title, **checkpoint, "validation BLEU": score(folder, text, VALIDATION, checkpoint["name"], 1)}
        for checkpoint in checkpoints
    ]
    best = best_checkpoint(curve)
    for which in (VALIDATION, TEST):
        _translate(racer, folder, text, which, [best], beam, threads)
    return {
        "racer": racer.title,
        "version": trained["version"],
        "command": f"python -m tests.benchmarks.race --only {name} --minutes {trained['allowed_minutes']:g} "
        f"--folder {os.path.relpath(folder.parent, ROOT)}",
        "minutes": next(checkpoint["minutes"] for checkpoint in checkpoints if checkpoint["name"] == best),
        "validation BLEU": score(folder, text, VALIDATION, best, beam),
        "test BLEU": score(folder, text, TEST, best, beam),
        "search": f"beam of {beam}" if beam > 1 else "greedy",
        "target tokens/s": trained["target_tokens"] / (60 * trained["minutes"]),
        "parameters": trained["parameters"],
        "checkpoint": f"{best} of {', '.join(names)}",
        "curve": curve,
    }


def best_checkpoint(curve: list[dict[str, Any]]) -> str:
    """Returns the checkpoint that is best on validation, of equal ones the last."""
    return max(reversed(curve), key=lambda point: point["validation BLEU"])["name"]


def score(folder: Path, text: Path, name: str, checkpoint: str, beam: int) -> float:
    """Returns the BLEU of the translations of a set, of words as the text has them."""
    references = read_lines(text / f"{name}.de")
    found = read_lines(hypotheses(folder, name, checkpoint, beam))
    return sacrebleu.corpus_bleu(found, [references], tokenize="none", force=True).score


def _translate(
    racer: Racer, folder: Path, text: Path, name: str, checkpoints: list[str], beam: int, threads: int
) -> None:
    if all(hypotheses(folder, name, checkpoint, beam).is_file() for checkpoint in checkpoints):
        return
    _run(racer, "translate", folder, text, threads, "--set", name, "--beam", str(beam), "--checkpoints", *checkpoints)


def _run(racer: Racer, task: str, folder: Path, text: Path, threads: int, *options: str) -> None:
    """Runs a task in the racer's environment; what it prints goes to a file of its folder."""
    python = str(ROOT / racer.environment / "bin/python") if racer.environment else sys.executable
    command = [
        python,
        "-m",
        "tests.benchmarks.racers.run",
        racer.module,
        task,
        str(folder),
        "--text",
        str(text),
        *options,
    ]
    environment = {**TENSORFLOW, **PASSIVE, **os.environ, **dict.fromkeys(THREADS, str(threads))}
    log = folder / f"{task}.log"
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads]),
            check=False,
        )
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        raise RacerError("\n".join([*lines, f"{racer.title} could not {task}; see {log}"]))


def main() -> None:
    """Runs, prints, draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=12, help="that each trains for (default: 12)")
    parser.add_argument("--only", nargs="+", choices=RACERS, default=list(RACERS), metavar="NAME", help="some of them")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs/race", help="(default: runs/race)")
    parser.add_argument("--text", type=Path, default=TEXT, help="folder of the corpus (default: that of Multi30k)")
    parser.add_argument("--threads", type=int, default=2, help="cores and threads of each (default: 2)")
    options = parser.parse_args()
    chosen = {name: RACERS[name] for name in options.only}
    rows = race(chosen, options.folder, options.text, options.minutes, options.threads)
    if rows:
        write_results(rows, options.folder)
    if len(rows) < len(chosen):
        raise SystemExit(f"{len(chosen) - len(rows)} of {len(chosen)} failed; see above")


if __name__ == "__main__":
    main()
