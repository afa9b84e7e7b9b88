"""A racer's side of the race: trains, or translates with what it has trained, in a process of its own.

python -m tests.benchmarks.racers.run MODULE train FOLDER --minutes 12
python -m tests.benchmarks.racers.run MODULE translate FOLDER --set val --beam 1 --checkpoints 01 02
"""

import argparse
import importlib
import importlib.metadata
import json
import time
from pathlib import Path
from types import ModuleType

from tests.benchmarks.racers.clock import Clock

ROOT = Path(__file__).parents[3]
TEXT = ROOT / "data/multi30k/lc.norm.tok"
TRAINED = "training.json"


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a text; only a line feed ends one."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def hypotheses(folder: Path, name: str, checkpoint: str, beam: int) -> Path:
    """Returns where the translations of a set by a checkpoint lie."""
    return folder / f"{name}.{checkpoint}.beam{beam}.txt"


def train(module: ModuleType, folder: Path, text: Path, minutes: float, started: float) -> None:
    """Trains, and writes what came out last of all."""
    clock = Clock(folder, minutes, started)
    parameters = module.train(clock, text)
    trained = {
        "allowed_minutes": minutes,
        "minutes": clock.gone(),
        "parameters": parameters,
        "updates": clock.updates,
        "target_tokens": clock.target_tokens,
        "beam": module.BEAM,
        "version": ", ".join(f"{package} {_version(package)}" for package in module.PACKAGES),
    }
    (folder / TRAINED).write_text(json.dumps(trained, indent=1) + "\n", encoding="utf-8")


def translate(module: ModuleType, folder: Path, source: Path, checkpoints: list[str], beam: int) -> None:
    """Translates a text by each of the checkpoints whose translations are not there yet."""
    sentences = read_lines(source)
    for name in checkpoints:
        path = hypotheses(folder, source.stem, name, beam)
        if path.is_file():
            continue
        translations = module.translate(folder / "checkpoints" / name, sentences, beam)
        if len(translations) != len(sentences):
            raise ValueError(f"{path.name}: expected {len(sentences)} translations, found {len(translations)}")
        lines = [" ".join(translation.split()) + "\n" for translation in translations]
        partial = path.with_suffix(".partial")
        partial.write_text("".join(lines), encoding="utf-8")
        partial.rename(path)


def _version(package: str) -> str:
    if package == "qkv":
        from qkv.version import __version__

        return __version__
    return importlib.metadata.version(package)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", help="such as tests.benchmarks.racers.marian")
    parser.add_argument("task", choices=["train", "translate"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text", type=Path, default=TEXT, help="folder of the corpus (default: that of Multi30k)")
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--started", type=float, default=time.time(), help="when the clock started, in Unix seconds")
    parser.add_argument("--set", default="val", help="set to translate (default: val)")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--checkpoints", nargs="+", default=[])
    options = parser.parse_args()
    module = importlib.import_module(options.module)
    if options.task == "train":
        train(module, options.folder, options.text, options.minutes, options.started)
    else:
        source = options.text / f"{options.set}.en"
        translate(module, options.folder, source, options.checkpoints, options.beam)


if __name__ == "__main__":
    main()
