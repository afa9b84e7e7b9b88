"""Says whether memory stays flat: training and translating with a text, and with one of twenty times the lines.

    python -m tests.benchmarks.memory [--lines 29000] [--times 20]

The text is that of the demo, again and again, with a number behind each sentence so that no pair stands there twice.
Both processes are watched while they run: their own memory (anonymous pages), and all that they hold, in which pages of
mapped files count that the system may take back at any time.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = {"own": "RssAnon", "all": "VmRSS"}


def write_text(folder: Path, lines: int) -> None:
    """Writes `text.en` and `text.fr`."""
    folder.mkdir()
    for language in ("en", "fr"):
        sentences = (ROOT / "data" / "demo" / f"train.{language}").read_text(encoding="utf-8").splitlines()
        with (folder / f"text.{language}").open("w", encoding="utf-8") as file:
            file.writelines(f"{line} {n // len(sentences)}\n" for n, line in enumerate(islice(cycle(sentences), lines)))


def peaks(command: Sequence[str], source: Path | None = None) -> dict[str, float]:
    """Megabytes at the highest, of a process while it runs."""
    highest = dict.fromkeys(KINDS, 0.0)
    with (
        (source or Path("/dev/null")).open("rb") as given,
        subprocess.Popen(
            command, cwd=ROOT, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process,
    ):
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                break
            for name, kind in KINDS.items():
                for line in status.splitlines():
                    if line.startswith(f"{kind}:"):
                        highest[name] = max(highest[name], int(line.split()[1]) / 1024)
            time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: ended with {process.returncode}")
    return highest


def main() -> None:
    """Measures both, with few lines and with many, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=29_000, help="of the shorter text (default: 29,000)")
    parser.add_argument("--times", type=int, default=20, help="how much longer the other is (default: 20)")
    parser.add_argument("--translated", type=int, default=1000, help="of them are translated (default: 1,000)")
    parser.add_argument("--updates", type=int, default=60, help="of each training (default: 60)")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for times in (1, options.times):
            text = Path(folder) / str(times)
            write_text(text, times * options.lines)
            settings = {
                "run.name": "run",
                "run.directory": text,
                "data.train.source": text / "text.en",
                "data.train.target": text / "text.fr",
                "tokenizer.vocabulary_size": 1000,
                "training.max_updates": options.updates,
                "training.validate_every_updates": options.updates,
            }
            train = [sys.executable, "train.py", "--config", "configs/tiny.yaml"]
            train += [part for key, value in settings.items() for part in (f"--{key}", str(value))]
            found["training", times] = peaks(train)
            with (text / "text.en").open("rb") as lines, (text / "given").open("wb") as given:
                given.writelines(islice(lines, times * options.translated))
            translate = [sys.executable, "-m", "qkv", "translate", str(text / "run"), "--beam_size", "1"]
            found["translating", times] = peaks(translate, text / "given")
    for work, lines in (("training", options.lines), ("translating", options.translated)):
        for kind in KINDS:
            few, many = (found[work, times][kind] for times in (1, options.times))
            print(
                f"{work}, {kind} memory: {few:,.0f} MB with {lines:,} lines, {many:,.0f} MB with "
                f"{options.times} times as many ({100 * (many / few - 1):+.1f} %)"
            )


if __name__ == "__main__":
    main()
