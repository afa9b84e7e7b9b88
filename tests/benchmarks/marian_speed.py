"""Seconds to import and load a Marian model of the public shape, and to write its attention over 100 sentences. Then
what `qkv doctor` measures of training it further by `configs/opus.yaml`.

`python -m tests.benchmarks.marian_speed`, in `.venv-benchmark`: 6 + 6 layers, width 512, 58,101 tokens, random weights.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.marian_folders import Shape, write_folder
from tests.benchmarks.marian_parity import ROOT, read_lines

PUBLIC = Shape("public", (6, 6), 512, 8, 2048, "swish", (500, 450), no_repeat=0)
LOAD = """
import sys, time
started = time.monotonic()
from pathlib import Path
from qkv.runtime.import_tensorflow import importing_tensorflow
with importing_tensorflow():
    from qkv.run.trained_run import load_run
imported = time.monotonic()
load_run(Path(sys.argv[1]))
print(round(imported - started, 1), round(time.monotonic() - imported, 1))
"""


def timed(*arguments: str) -> tuple[float, str]:
    """Seconds of a command, and what it printed."""
    started = time.monotonic()
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return round(time.monotonic() - started, 1), done.stdout


def main() -> None:
    """Prints the seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = read_lines("train.en", 2000), read_lines("train.fr", 2000)
        write_folder(folder / "marian", replace(PUBLIC, vocabulary_size=58_101), *lines, max_length=60)
        run = str(folder / "run")
        seconds = {"import": timed("-m", "qkv", "import_marian", str(folder / "marian"), run)[0]}
        seconds["tensorflow"], seconds["load"] = map(float, timed("-c", LOAD, run)[1].split())
        for side, suffix in (("source", "en"), ("reference", "fr")):
            text = "\n".join(read_lines(f"test.{suffix}", 100)) + "\n"
            (folder / side).write_text(text, encoding="utf-8")
        own = ["--source", str(folder / "source"), "--reference", str(folder / "reference")]
        seconds["greedy, archive"] = timed("evaluate.py", run, *own, "--beam_size", "1")[0]
        pairs = zip(read_lines("train.en", 5000), read_lines("train.fr", 5000), strict=True)
        table = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (folder / "pairs.tsv").write_text(table, encoding="utf-8")
        further = ["--training.start_from", run, "--data.train.table", str(folder / "pairs.tsv")]
        checkup = timed("-m", "qkv", "doctor", "configs/opus.yaml", *further)[1]
        print(*[line for line in checkup.splitlines() if line.startswith(("update", "memory", "training"))], sep="\n")
        print(json.dumps({**seconds, "load average": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
