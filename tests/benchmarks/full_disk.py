"""Trains on disks that fill up or are read-only, makes room, gives the same command again, and compares the ends.

    sudo python -m tests.benchmarks.full_disk [--sizes 12]

Each disk is in memory and smaller than the run, by as much as says its turn. On it the training must end with status 1
(2 if it can only be read) and one line that says what to do; with room, the same command must leave the same bytes as
on a large disk, and nothing else. Exit status 1 if not. Mounting needs the rights of root.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

from qkv.commands import train
from qkv.config.yaml import dump_yaml
from tests.benchmarks.kill_every_write import CHANGES, forked
from tests.support.run_contents import contents, differing
from tests.support.tiny_runs import small_settings, write_small_corpus

LARGE = "1g"


def mount(place: Path, options: str, again: bool = False) -> None:
    """Mounts a disk in memory, or changes the one that is there."""
    options = f"remount,{options}" if again else options
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


def attempt(config: Path, said: Path) -> tuple[int, list[str]]:
    """Trains in a fork; returns the status and the lines on standard error."""

    def work() -> int:
        with said.open("w") as file, contextlib.redirect_stderr(file):
            return train.main(["--config", str(config)])

    return forked(work), [line for line in said.read_text().splitlines() if line.startswith(("error", "Traceback"))]


def main(arguments: list[str] | None = None) -> int:
    """Fills, makes room, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, default=12, help="disks of as many sizes (default: 12)")
    options = parser.parse_args(arguments)
    sys.argv = ["train.py"]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        place, disk = Path(folder), Path(folder) / "disk"
        disk.mkdir()
        config = place / "small.yaml"
        config.write_text(dump_yaml(small_settings(write_small_corpus(place / "text"), disk / "runs", CHANGES)))
        run = disk / "runs" / "small"
        mount(disk, f"size={LARGE}")
        try:
            assert attempt(config, place / "said") == (0, [])
            end = contents(run)
            pages = sum(-(-path.stat().st_size // 4096) for path in disk.rglob("*") if path.is_file())
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        for turn in range(options.sizes + 1):
            small = f"size={4 * (pages * turn // options.sizes + 1)}k" if turn < options.sizes else "ro"
            mount(disk, small)
            try:
                status, lines = attempt(config, place / "said")
                mount(disk, f"size={LARGE},rw", again=True)
                again, _ = attempt(config, place / "said")
                found = contents(run)
            finally:
                subprocess.run(["umount", str(disk)], check=True)
            others = differing(found, end)
            fine = (status, len(lines), again, others) == (2 if small == "ro" else 1, 1, 0, [])
            bad += not fine
            print(f"{small}: status {status}: {' '.join(lines)}; then {again}", "" if fine else f"DIFFERS {others[:5]}")
    print(f"{options.sizes + 1} disks; {bad} end otherwise")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
