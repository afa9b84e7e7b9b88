"""Kills evaluate.py with SIGKILL at random moments, starts it again, and compares the end with one left alone.

    python -m tests.benchmarks.kill_evaluation RUN --source FILE --reference FILE [--kills 20] [--kills_per_set 4]

Everything that is written must be the same, byte for byte, but for the seconds in metrics.json. Exit status 1 if not.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.support.run_contents import differing

ROOT = Path(__file__).parents[2]


def start(run: Path, options: argparse.Namespace, name: str) -> subprocess.Popen[bytes]:
    """Starts an evaluation of that name."""
    command = [sys.executable, "evaluate.py", run, "--source", options.source, "--reference", options.reference]
    return subprocess.Popen([*map(str, command), "--name", name], cwd=ROOT, stdout=subprocess.DEVNULL)


def state_of(folder: Path, name: str) -> dict[str, object]:
    """All files by their bytes, and metrics without times; the set's own name is replaced."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    state: dict[str, object] = {key: path.read_bytes().replace(name.encode(), b"NAME") for key, path in files.items()}
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in metrics.items() if "seconds" not in key and key not in ("set", "name")}
    return state | {"metrics.json": kept}


def main() -> int:
    """Kills, starts again, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate")
    parser.add_argument("--reference", type=Path, required=True, help="their translations")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kills_per_set", type=int, default=4, help="the same evaluation is killed so often")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    options = parser.parse_args()
    generator, bad, kills = random.Random(options.seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / options.run.name
        shutil.copytree(options.run, run, ignore=shutil.ignore_patterns("evaluations", "*tfevents*"))
        started = time.monotonic()
        assert start(run, options, "unbroken").wait() == 0
        seconds = time.monotonic() - started
        print(f"an evaluation left alone takes {seconds:.0f} s", flush=True)
        unbroken = state_of(run / "evaluations" / "unbroken", "unbroken")
        for number in count():
            name, before = f"killed-{number}", kills
            while kills < min(options.kills, before + options.kills_per_set):
                process = start(run, options, name)
                moment = generator.uniform(0.1, 1) * seconds
                try:
                    process.wait(moment)
                    break  # it ended before
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                left = [path for path in (run / "evaluations").glob(f".{name}.*") if path.is_dir()]
                parts = sum(len(list(path.glob("parts/*"))) for path in left)
                shards = sum(len(list(path.glob("attention/*.npz"))) for path in left)
                print(f"{name}: killed after {moment:.1f} s with {parts} parts, {shards} shards", flush=True)
                kills += 1
            assert start(run, options, name).wait() == 0
            found = state_of(run / "evaluations" / name, name)
            others = differing(found, unbroken)
            bad += bool(others)
            print(f"{name}: {'DIFFERS: ' + ', '.join(others[:5]) if others else 'ends as the other'}", flush=True)
            if kills >= options.kills:
                break
        leftovers = [path.name for path in (run / "evaluations").glob(".*")]
    print(f"{kills} kills; {bad} evaluations end otherwise; {len(leftovers)} leftovers")
    return 1 if bad or leftovers else 0


if __name__ == "__main__":
    sys.exit(main())
