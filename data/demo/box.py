"""Makes the run that is in the package, `qkv.load("demo")`: `python data/demo/box.py`.

It trains `configs/demo.yaml`, rounds the weights to float16, and compares the translations of both. The sets, the
choice of head for word links, the confidence of translations, and the scores are in the folder as well, so that it
needs no other file.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]  # Python adds only the folder of the script

import qkv
from qkv.commands.cli import exit_cleanly, log_to_output
from qkv.config.run import dump, load_run_config
from qkv.errors import InputError
from qkv.evaluation.confidence import find_confidence
from qkv.files.json import read_json_object, write_json
from qkv.files.run_directory import PACKAGED, RunDirectory
from qkv.text.lines.text_file import read_lines

CONFIG = Path("configs/demo.yaml")
SETS = ("test", "validation")
CHOICES = ("alignment.json", "confidence.json")
FILES = ("config.yaml", "model.keras", *CHOICES, "history.csv", "source_look.json", "target_look.json")
FOLDERS = ("tokenizer", "held_out")
LEAST_BLEU = 99.0
LARGEST_AER = 2.0


def round_run(trained: qkv.Run, root: Path) -> qkv.Run:
    """Writes a run with the weights of another in float16, the sets of its config, and the config as it is in the file.

    Args:
        trained: a run of `configs/demo.yaml`.
        root: the folder to write.

    Raises:
        InputError: the training of the run has ended before its last update.
    """
    config = load_run_config(CONFIG)
    if trained.history["update"].max() != config.training.max_updates:
        raise InputError(
            f"{trained.path}: trained up to update {trained.history['update'].max()}, expected "
            f"{config.training.max_updates}; a busy machine has reached max_minutes, so train again when it is idle"
        )
    trained.save(root, dtype="float16")
    directory = RunDirectory(root)
    directory.write_config(dump(config))
    directory.held_out.mkdir()
    for name in SETS:
        for side in ("source", "target", "alignments"):
            shutil.copyfile(getattr(getattr(config.data, name), side), directory.held_out / f"{name}.{side}")
    shutil.copyfile(trained.trained.directory.history, directory.history)
    return qkv.load(root)


def score(trained: qkv.Run, rounded: qkv.Run) -> dict[str, Any]:
    """Evaluates a rounded run on its sets, by name of the set.

    Raises:
        InputError: a translation differs from that of the run before rounding, or a score is too low.
    """
    scores: dict[str, Any] = {}
    for name in ("validation", "test"):  # the head is chosen on the first one
        sentences = read_lines(rounded.trained.directory.held_out / f"{name}.source")
        pairs = zip(_texts(trained.translate(sentences)), _texts(rounded.translate(sentences)), strict=True)
        differing = sum(before != after for before, after in pairs)
        metrics = rounded.evaluate(name).metrics
        scores[name] = {"bleu": metrics["bleu"], "aer": metrics["alignment"]["aer"], "sentences": len(sentences)}
        if differing:
            raise InputError(f"{name}: {differing} translations differ in float16; expected none")
    if scores["test"]["bleu"] < LEAST_BLEU or scores["test"]["aer"] > LARGEST_AER:
        raise InputError(f"expected BLEU >= {LEAST_BLEU} and AER <= {LARGEST_AER} on the test set, found {scores}")
    return scores


def _texts(translations: Any) -> Iterable[str]:
    """Returns the text of each translation."""
    return [translation.text for translation in translations]


def finish_manifest(trained: qkv.Run, rounded: qkv.Run, scores: dict[str, Any]) -> None:
    """Writes the origin and the scores of a rounded run into its manifest, without paths of this machine."""
    directory = rounded.trained.directory
    training = read_json_object(trained.trained.directory.manifest)
    origin = {name: training[name] for name in ("seed", "precision", "weights", "validation", "model_sha256")}
    entries = {
        **read_json_object(directory.manifest),
        "command_line": ["python", f"data/demo/{Path(__file__).name}"],
        "saved_from": {"config": CONFIG.as_posix(), **origin},
        "scores": scores,
    }
    write_json(directory.manifest, entries)


@exit_cleanly
def main(arguments: list[str]) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description="Make the run of the demo that is in the package.")
    parser.add_argument("--run", type=Path, help=f"take this run of {CONFIG} (default: train one, in minutes)")
    options = parser.parse_args(arguments)

    log_to_output()
    with TemporaryDirectory() as folder:
        trained = qkv.load(options.run) if options.run else qkv.train(CONFIG, {"run.directory": folder})
        rounded = round_run(trained, Path(folder) / "rounded" / PACKAGED.name)
        scores = score(trained, rounded)
        find_confidence(rounded.trained)
        finish_manifest(trained, rounded, scores)
        shutil.rmtree(PACKAGED, ignore_errors=True)
        PACKAGED.mkdir()
        for name in (*FILES, "manifest.json"):
            shutil.copyfile(rounded.path / name, PACKAGED / name)
        for name in FOLDERS:
            shutil.copytree(rounded.path / name, PACKAGED / name)
    print(json.dumps(scores, indent=2))
    megabytes = sum(path.stat().st_size for path in PACKAGED.rglob("*") if path.is_file()) / 1e6
    print(f"{megabytes:.1f} MB, in {PACKAGED}")


if __name__ == "__main__":
    sys.exit(main())
