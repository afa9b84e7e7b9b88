"""Translate a config's training text both ways, so that a model learns from these translations too.

    python data/diversify.py my.yaml [--teacher configs/multi30k_en_de_small.yaml --training.max_updates 7400]

The config's `data.train` lists three corpora: the text; its source with the file of its translations; and the file of
back-translations with its target. This command writes the two files. It trains a model of either direction on the text
alone, as the teacher's config says, and translates the text by it. The same command goes on with what was stopped.

Source: X.-P. Nguyen et al., "Data Diversification: A Simple Strategy For Neural Machine Translation", 2020, with one
model a direction and one round.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "pipeline")]

from qkv.commands.cli import ArgumentParser, exit_cleanly
from qkv.config import RunConfig, load_run_config
from qkv.config.yaml import dump_yaml, read_yaml
from qkv.errors import InputError
from qkv.files.atomic import output_when_done
from qkv.text.lines.text_file import read_lines

ROOT = Path(__file__).resolve().parents[1]


class Translation(NamedTuple):
    """A direction, and what it translates.

    Attributes:
        name: `forward`, or `backward` for a model that reads the target language.
        text: the file of the sentences.
        output: the file of their translations.
    """

    name: str
    text: Path
    output: Path


@exit_cleanly
def main(arguments: list[str]) -> int:
    """Trains a model of either direction and translates the training text by it."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.epilog = "Other options are those of train.py, for both models."
    parser.add_argument("config", type=Path, metavar="CONFIG", help="config whose data.train lists the three corpora")
    parser.add_argument(
        "--teacher", type=Path, metavar="FILE", help="config of the two models, but for their data (default: CONFIG)"
    )
    options, others = parser.parse_known_args(arguments)
    config = load_run_config(options.config)
    for translation in translations_of(config, options.config):
        run = config.run.directory / f"{options.config.stem}_{translation.name}"
        values = teacher_settings(options.teacher or options.config, options.config, translation.name)
        if status := train(run, values, others):  # it has said what is wrong
            return status
        translate(run, translation)
    return 0


def translations_of(config: RunConfig, path: Path) -> tuple[Translation, Translation]:
    """Returns what is translated in either direction.

    Raises:
        InputError: `data.train` are not three such corpora, or the validation set is held out from them.
    """
    files = [(corpus.source, corpus.target) for corpus in config.data.training_corpora]
    validation = config.data.validation
    if len(files) == 3 and validation is not None and validation.source is not None:
        (source, target), (first, translated), (back, second) = files
        if source and target and translated and back and (first, second) == (source, target):
            return Translation("forward", source, translated), Translation("backward", target, back)
    raise InputError(
        f"{path}: expected three corpora of files in data.train (the text, its source with the file of translations to "
        "write, and the file of back-translations to write with its target) and a validation set in files of its own, "
        f"since what is held out would be translated too; found {len(files)} in data.train"
    )


def teacher_settings(teacher: Path, config: Path, name: str) -> dict[str, Any]:
    """Returns the config of a model that is trained on the text alone.

    Args:
        teacher: the config file of its model and training.
        config: the config file of its data.
        name: that of the `Translation`.
    """
    values, data = read_yaml(teacher)[0], dict(read_yaml(config)[0]["data"])
    for corpus in ("train", "validation"):
        files = data[corpus][0] if corpus == "train" else data[corpus]
        data[corpus] = {side: files[side] for side in ("source", "target")}
    data.pop("test", None)
    probes: list[Any] = []  # those of the config are sentences of one direction
    return {**values, "data": turned(data) if name == "backward" else data, "inspection": {"probes": probes}}


def turned(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns settings of data for the opposite direction: `source` and `target` change places in every key."""
    opposite = {"source": "target", "target": "source"}
    found = {}
    for key, value in settings.items():
        turned_key = re.sub("source|target", lambda side: opposite[side[0]], key)
        found[turned_key] = turned(value) if isinstance(value, dict) else value
    return found


def train(run: Path, values: dict[str, Any], options: Sequence[str]) -> int:
    """Trains a model, or goes on with it, and returns the status of the command."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{run.name}.yaml"
        path.write_text(dump_yaml(values), encoding="utf-8")
        place = ["--run.name", run.name, "--run.directory", str(run.parent)]
        command = [sys.executable, str(ROOT / "train.py"), "--config", str(path), *options, *place]
        return subprocess.run(command, check=False).returncode


def translate(run: Path, translation: Translation) -> None:
    """Translates the text, unless that has been done.

    Raises:
        InputError: there is no such text, or the command failed.
    """
    if translation.output.is_file():
        print(f"{translation.output} is there")
        return
    command = [sys.executable, "-m", "qkv", "translate", str(run.resolve()), "--no_normalize"]
    with output_when_done(translation.output) as temporary:
        sentences = "".join(f"{line}\n" for line in read_lines(translation.text)).encode()
        with temporary.open("wb") as file:
            translated = subprocess.run(command, input=sentences, stdout=file, cwd=ROOT, check=False)
        if translated.returncode:
            raise InputError(f"{run}: its translations of {translation.text} failed; see above")
    print(f"{translation.text} translated: {translation.output}")


if __name__ == "__main__":
    sys.exit(main())
