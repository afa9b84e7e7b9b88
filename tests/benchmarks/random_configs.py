"""Trains runs with random settings, kills and resumes them, evaluates them, and looks at what they wrote.

    python -m tests.benchmarks.random_configs [--configs 100] [--killed_processes 20] [--seed 1]

Settings are drawn from the schema itself, so that a new key is drawn without being listed: every key changes with some
probability, to a name of its list or a small number within its bounds, and keeps its value where the schema refuses the
change. Each run is trained for three updates, and again under another name, where it is killed at a random write and
continued by the same command: as an exception in this process, or, for the first `--killed_processes`, with SIGKILL.
Weights, history and files must be those of the first. A test set is then evaluated, every record of the archive is
read, and a page is written. Whatever is raised is a finding; `--seed N --configs 1` makes it again (exit status 1).
"""

import argparse
import gc
import itertools
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import typing
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

from pydantic.fields import FieldInfo

from qkv.config import RunConfig
from qkv.config.choices.model import ARCHITECTURES
from qkv.config.choices.translation import BLEU_TOKENIZERS
from qkv.config.corpus import CorpusSettings, LinkedTextSettings, ListedCorpusSettings, SetSettings
from qkv.config.inspection import Probe
from qkv.config.run import dump, make_run_config
from qkv.config.schema import OneOf, Settings
from qkv.errors import InputError
from tests.support import ROOT
from tests.support.failing_files import Killed, failing
from tests.support.tiny_runs import small_settings, write_small_corpus

UPDATES = 3
WRITES = 40
"""Of a short training, about; a kill that comes later than its last write kills nothing."""

KEPT = {"run.name", "run.directory", "run.devices", "training.max_updates", "model.architecture", "training.callbacks"}
"""What is not drawn like the rest: the property or the machine's GPUs decide it, each architecture comes in its turn,
or a file that a callback writes goes on where a killed one has ended."""

SIZES = {
    "tokenizer.vocabulary_size": (80, 120),
    "data.max_source_tokens": (40, 62),
    "data.max_target_tokens": (40, 62),
    "data.max_length_ratio": (3, 9),
    "batches.batch_tokens": (100, 1200),
    "batches.length_multiple": (32, 64),
    "model.max_positions": (62, 90),
    "model.encoder_layers": (1, 2),
    "model.decoder_layers": (1, 2),
    "model.layers": (1, 2),
    "training.max_minutes": (60, 90),
    "decoding.batch_sentences": (9, 64),
}
"""Numbers that are drawn between two others: smaller ones would leave no text, and larger ones take long."""

SCRIPT = {"source_script": "Latin", "target_script": "Latin"}
"""The script of the text: another one would leave none of it."""

SPARE = {name for name, row in BLEU_TOKENIZERS.items() if row.modules or row.downloads} | {"given"}
"""Names that need packages, downloads or an imported run."""

UNFORESEEN = ("is left", "diverged", "has no weights in this model")
"""In what stops a run that no schema can foresee: drawn rules that leave no pair of a corpus, numbers of the optimizer
with which it diverges, and a frozen part in which nothing is learnt."""

TURNS = 33
"""Of so many configs of an architecture, which come in turn, each name of a list is in one; the rest is drawn."""

SENTENCES = ["the cat sleeps .", "le chat dort .", "a * star | and [brackets]", "x"]


def corpora(folder: Path, name: str) -> list[dict[str, Any]]:
    """Every kind of settings of one corpus, with the same text where it has files of its own."""
    files = {"source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.fr")}
    links = {"alignments": str(folder / f"{name}.align")}
    table = {"table": str(folder / f"{name}.tsv")}
    named = {"header": True, "source_column": "english", "target_column": "french"}
    return [files, files | links, table | named, table | links | named, {"pairs": 12}, {"share": 0.1}]


def write_corpora(folder: Path) -> Path:
    """Writes small files and tables of every set."""
    write_small_corpus(folder)
    for name in ("train", "validation", "test"):
        sides = [(folder / f"{name}.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "fr")]
        rows = [("english", "french"), *zip(*sides, strict=True)]
        (folder / f"{name}.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    return folder


class Draw:
    """Draws a config.

    Args:
        seed: gives the same config again.
        text: the folder of `write_corpora`.
        runs: where its run goes.

    Attributes:
        refused: what the schema said to changes that it refused.
    """

    def __init__(self, seed: int, text: Path, runs: Path) -> None:
        self.seed = seed
        self.refused: list[str] = []
        self._random = random.Random(seed)
        self._text = text
        changes = {"training.max_updates": UPDATES, "training.max_minutes": 60.0}
        self._values = small_settings(text, runs, changes)

    def config(self) -> RunConfig:
        """The config, which differs from a tiny run's in about half of its keys; some names come in turn."""
        turn, which = divmod(self.seed, len(ARCHITECTURES))
        config = self._try(changed(self._values, "model.architecture", list(ARCHITECTURES)[which]))
        assert config
        kept = set(KEPT)
        names = [(key, name) for key, field in fields_of(config) for name in names_of(field)]
        for key, name in names[turn % TURNS :: TURNS]:
            if key not in kept and (chosen := self._try(changed(self._values, key, name))):
                config, kept = chosen, kept | {key}
        for _ in range(3):  # some keys can only change once others have
            for key, field in sorted(fields_of(config), key=lambda _: self._random.random()):
                if key not in kept and self._random.random() < 0.3:
                    drawn = self._field(key, field)
                    if drawn is not None:
                        config = self._try(changed(self._values, key, drawn[0])) or config
        return config

    def _try(self, values: dict[str, Any]) -> RunConfig | None:
        try:
            config = make_run_config(values, {}, default_name=f"drawn-{self.seed}")
        except InputError as error:
            assert str(error).strip()
            self.refused.append(str(error))
            return None
        self._values = values
        return config

    def _field(self, key: str, field: FieldInfo) -> tuple[Any] | None:
        if key in SIZES:
            return (self._random.randint(*SIZES[key]),)
        if script := SCRIPT.get(key.rpartition(".")[2]):
            return (script,)
        return self._type(key, field.annotation, field.metadata)

    def _type(self, key: str, kind: Any, metadata: list[Any]) -> tuple[Any] | None:
        """A value of a type in a tuple, or None where none can be drawn."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        names = [entry for entry in metadata if isinstance(entry, OneOf)]
        if origin is typing.Annotated:
            drawn = self._type(key, arguments[0], [*arguments[1:], *metadata])
        elif names:
            drawn = (self._random.choice([name for name in names[0].names if name not in SPARE]),)
        elif origin is typing.Literal:
            drawn = (self._random.choice([name for name in arguments if name not in SPARE]),)
        elif origin in (typing.Union, types.UnionType):
            one = self._random.choice(arguments)
            drawn = (None,) if one is type(None) else self._type(key, one, metadata)
        elif origin is tuple:
            items = [self._type(key, arguments[0], []) for _ in range(self._random.randint(0, 2))]
            drawn = ([item[0] for item in items if item],)
        elif kind is bool:
            drawn = (self._random.random() < 0.5,)
        elif kind in (int, float):
            drawn = (self._number(kind, metadata),)
        elif kind is CorpusSettings or kind is SetSettings:
            drawn = (
                self._random.choice(corpora(self._text, key.rpartition(".")[2])[: None if kind is SetSettings else 4]),
            )
        elif kind is LinkedTextSettings:
            drawn = (corpora(self._text, "validation")[1],)
        elif kind is ListedCorpusSettings:
            tag = {"tag": "<drawn>"} if self._random.random() < 0.5 else {}
            drawn = (self._random.choice(corpora(self._text, "train")[:4]) | {"weight": self._random.random()} | tag,)
        elif kind is Probe:
            drawn = ({"source": self._random.choice(SENTENCES), "reference": self._random.choice([None, *SENTENCES])},)
        elif isinstance(kind, type) and issubclass(kind, Settings):
            inner = {name: self._field(f"{key}.{name}", field) for name, field in kind.model_fields.items()}
            drawn = ({name: one[0] for name, one in inner.items() if one and self._random.random() < 0.5},)
        else:
            drawn = None  # names, languages and paths stay
        return drawn

    def _number(self, kind: type, metadata: list[Any]) -> float:
        """A small number within bounds, which may be its lowest."""
        bounds = {
            name: getattr(entry, name)
            for entry in flat(metadata)
            for name in ("gt", "ge", "lt", "le")
            if getattr(entry, name, None) is not None
        }
        low = bounds.get("ge", bounds.get("gt", 0))
        high = bounds.get("le", bounds.get("lt", float("inf")))
        steps = (0, 1, 2, 3, 7) if kind is int else (0.0, 0.001, 0.1, 0.5, 1.0, 3.0)
        fitting = [low + step for step in steps if low + step < high or (low + step == high and "le" in bounds)]
        if "gt" in bounds:
            fitting.remove(low)
        return kind(self._random.choice(fitting))


def names_of(field: FieldInfo) -> list[Any]:
    """The names among which a key chooses."""
    listed = [entry for entry in flat(field.metadata) if isinstance(entry, OneOf)]
    if listed:
        return [name for name in listed[0].names if name not in SPARE]
    if typing.get_origin(field.annotation) is typing.Literal:
        return [name for name in typing.get_args(field.annotation) if name not in SPARE]
    return [False, True] if field.annotation is bool else []


def flat(metadata: list[Any]) -> Iterator[Any]:
    """The constraints of a field, also those that stand in a `Field` of their own."""
    for entry in metadata:
        yield from flat(entry.metadata) if isinstance(entry, FieldInfo) else (entry,)


def fields_of(settings: Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """The keys of a config, with those of the sections that it has, but for the insides of a corpus."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if name == "alignments_first_index":
            continue  # the files of links count from 0
        if not isinstance(value, Settings) or isinstance(value, CorpusSettings):
            yield f"{prefix}{name}", field
        else:
            if type(None) in typing.get_args(field.annotation):
                yield f"{prefix}{name}", field
            yield from fields_of(value, f"{prefix}{name}.")


def changed(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of nested settings with another value; a model of another architecture has its own keys."""
    if key == "model.architecture" and value != values["model"].get("architecture", "transformer"):
        value = {"architecture": value, "max_positions": values["model"]["max_positions"]} | SMALL[value]
        key = "model"
    section, _, rest = key.partition(".")
    if not rest:
        return values | {key: value}
    inner = values.get(section)
    return values | {section: changed(inner if isinstance(inner, dict) else {}, rest, value)}


SMALL = {
    "transformer": {"d_model": 8, "num_heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1},
    "decoder_only": {"d_model": 8, "num_heads": 2, "d_ff": 8, "layers": 1},
    "recurrent": {"embedding_dim": 8, "hidden_dim": 8, "attention_dim": 8, "decoder": "luong"},
}
"""Defaults are sizes of real models."""


def train(path: Path, name: str) -> None:
    """The command that trains, and goes on with what it finds.

    Raises:
        InputError: it was refused.
        AssertionError: it ended with another exit status.
    """
    from qkv.commands import train as command

    status = command.main(["--config", str(path), "--run.name", name, "--debug"])
    assert status == 0, f"training {name} ended with {status}"


def train_killed(path: Path, root: Path, number: int) -> bool:
    """Trains until something is written for the `number`-th time; says whether that came to pass."""
    remove = shutil.rmtree

    def remove_unless_dead(folder: Path, *arguments: Any, **named: Any) -> None:
        if killed:
            raise Killed
        remove(folder, *arguments, **named)

    with failing(root, number, "killed") as killed, mock.patch.object(shutil, "rmtree", remove_unless_dead):
        try:
            train(path, root.name)
        except Killed:
            assert killed
    return bool(killed)


def train_in_killed_process(path: Path, root: Path, seconds: float) -> bool:
    """Trains in another process, which is killed some time after its run folder is there."""
    command = [sys.executable, "train.py", "--config", str(path), "--run.name", root.name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not root.exists():
            time.sleep(0.01)
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    return process.returncode == -signal.SIGKILL


def check_run(config: RunConfig, folder: Path, generator: random.Random, kill_process: bool = False) -> str:
    """Trains, kills, resumes, evaluates, reads and shows a run.

    Returns:
        What was done with it.

    Raises:
        Exception: something does not hold.
    """
    import evaluate
    from qkv.commands import view
    from qkv.inspection import AttentionArchive
    from tests.support.run_contents import contents_but_names, differing

    path = folder / "drawn.yaml"
    path.write_text(dump(config), encoding="utf-8")
    straight, broken = (config.run.directory / name for name in ("straight", "broken"))
    train(path, straight.name)
    number, seconds = generator.randint(1, WRITES), generator.uniform(0, 8)
    if kill_process:
        killed, when = train_in_killed_process(path, broken, seconds), f"with SIGKILL after {seconds:.1f} s"
    else:
        killed, when = train_killed(path, broken, number), f"at write {number}"
    train(path, broken.name)
    found = differing(contents_but_names(broken), contents_but_names(straight))
    assert not found, f"killed {when}, it differs: {found}"
    name = "test" if config.data.test else "validation"
    assert evaluate.main([str(broken), "--set", name, "--debug"]) == 0
    with closing(AttentionArchive(broken / "evaluations" / name / "attention")) as archive:
        records = list(archive)
        rows = len(archive.to_frame())
    assert len(records) == rows > 0
    assert view.main([str(broken), "--set", name, "--output", str(folder / "page.html"), "--debug"]) == 0
    return f"killed {when}" if killed else "ended before it was killed"


def outcome(config: RunConfig, folder: Path, seed: int, kill_process: bool) -> str:
    """What `check_run` says, or what it has found."""
    try:
        return check_run(config, folder, random.Random(seed), kill_process)
    except InputError as error:
        foreseen = not any(reason in str(error) for reason in UNFORESEEN)
        return f"REFUSED LATE: {error}" if foreseen else f"not counted: {error}"
    except Exception:
        kept = Path(tempfile.mkdtemp(prefix=f"drawn-{seed}-"))
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        return f"FINDING: {traceback.format_exc()}\nkept in {kept}"


def main() -> int:
    """Draws, checks, counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", type=int, default=100, help="(default: 100)")
    parser.add_argument("--killed_processes", type=int, default=20, help="how many are killed with SIGKILL")
    parser.add_argument("--seed", type=int, default=1, help="of the first config; the others follow (default: 1)")
    options = parser.parse_args()
    import keras

    findings, refused, done = 0, 0, 0
    seeds = itertools.count(options.seed)
    while done < options.configs:
        seed = next(seeds)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            draw = Draw(seed, write_corpora(folder / "text"), folder / "runs")
            config = draw.config()
            refused += len(draw.refused)
            what = outcome(config, folder, seed, kill_process=done < options.killed_processes)
        findings += what.startswith(("REFUSED LATE", "FINDING"))
        done += not what.startswith("not counted")
        print(f"== {seed}: {config.model.architecture}, {what}", flush=True)
        keras.backend.clear_session()
        gc.collect()  # graphs hold themselves
    print(f"{options.configs} configs, {refused:,} changes refused by the schema; {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
