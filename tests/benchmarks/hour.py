"""Runs the commands of `docs/use/hour.md` in their order, and says how long each takes.

    python -m tests.benchmarks.hour FOLDER [--pairs 100000] [--minutes 25] [--from DIRECTORY]

The page is the single source: the config, the HTML page and the commands are read from it. Everything is written into
FOLDER, but for the downloaded text, which goes to `data/manythings` of this clone. `--from` copies the text instead of
downloading it. The service is started, asked once by the page's line of curl, and ended. Prints a table of minutes in
Markdown. Exit status 1 if a command fails.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "use" / "hour.md"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVICE = "--api"
ADDRESS = b"API:"


def blocks(language: str) -> list[str]:
    """Returns the blocks of the page in a language."""
    return [code for name, code in FENCED.findall(PAGE.read_text(encoding="utf-8")) if name == language]


def prepare(folder: Path, minutes: float) -> None:
    """Writes the files that the page shows, and links the parts of the clone that its commands name."""
    folder.mkdir(parents=True, exist_ok=True)
    (config,), (page,) = blocks("yaml"), blocks("html")
    changed, count = re.subn(r"max_minutes: \d+", f"max_minutes: {minutes:g}", config)
    assert count == 1, "the page's config has no max_minutes"
    (folder / "my.yaml").write_text(changed, encoding="utf-8")
    (folder / "page.html").write_text(page, encoding="utf-8")
    if not (folder / "data").exists():
        (folder / "data").symlink_to(ROOT / "data")


def environment() -> dict[str, str]:
    """Returns an environment in which `python` and `qkv` are the ones of this process."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "pipeline")}


def run(command: str, folder: Path) -> None:
    """Runs a command in a shell, with its output on this terminal."""
    subprocess.run(command, shell=True, cwd=folder, env=environment(), check=True)


def ask_service(command: str, folder: Path) -> None:
    """Starts the service, waits for its address, asks it once, and ends it."""
    (question,) = blocks("text")
    with subprocess.Popen(
        f"exec {command}", shell=True, cwd=folder, env=environment(), stdout=subprocess.PIPE
    ) as server:
        assert server.stdout
        if not any(line.startswith(ADDRESS) for line in server.stdout):
            raise SystemExit("the service has printed no address")
        asked = subprocess.run(question, shell=True, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True)
        server.terminate()
    print(asked.stdout)
    if '"translatedText"' not in asked.stdout:
        raise SystemExit("the service has not translated")


def main() -> int:
    """Runs the page, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the commands run: a new folder")
    parser.add_argument("--pairs", type=int, default=100_000, help="the pairs to draw (100,000)")
    parser.add_argument("--minutes", type=float, default=25, help="the minutes of training (25)")
    parser.add_argument("--from", dest="copy", type=Path, metavar="DIRECTORY", help="a copy of the text")
    options = parser.parse_args()
    prepare(options.folder, options.minutes)
    rows = []
    for line in "".join(blocks("sh")).splitlines():
        command = re.sub(r"^shuf -n \d+", f"shuf -n {options.pairs}", line)
        if options.copy and command.startswith("python data/manythings/prepare.py"):
            command += f" --from {options.copy.absolute()}"
        print(f"$ {command}", flush=True)
        begun = time.perf_counter()
        (ask_service if SERVICE in command else run)(command, options.folder)
        rows.append((line, (time.perf_counter() - begun) / 60))
    print("\n| command | minutes |\n|---|---:|")
    for line, minutes in rows:
        print(f"| `{line.replace('|', chr(92) + '|')}` | {minutes:.1f} |")
    print(f"| together | {sum(minutes for _, minutes in rows):.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
