"""What takes seconds to make, such as a trained run: made once for all workers of pytest-xdist, and changed by none."""

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qkv.alignment import aligner
from qkv.config import RunConfig
from qkv.files.json import read_json_object, write_json
from qkv.files.paths import sha256
from qkv.files.run_directory import RunDirectory
from qkv.run import ensemble, train
from qkv.run.manifest import golden_logits
from qkv.run.trained_run import TrainedRun, load_run
from tests.support.layer_contract import stir
from tests.support.tiny_runs import LIVELY, small_config, write_small_corpus


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Returns a folder that all tests share, on whichever worker they run; a test that changes it takes a copy.

    Args:
        factory: the fixture `tmp_path_factory`.
        name: that of the folder.
        make: fills the folder, once.
    """
    base = factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    shared.mkdir(exist_ok=True)
    folder, digest = shared / name, shared / f"{name}.sha256"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        if not digest.exists():
            folder.mkdir()  # an attempt that failed is no run: the second says so
            make(folder)
            digest.write_text(digest_of(folder))
    return folder


@contextlib.contextmanager
def loading_once() -> Iterator[None]:
    """Within the block a run is loaded once for all commands, and its graphs are traced once for each of its settings;
    but for sampling, whose draws go on."""
    configured: dict[tuple[int, str], tuple[TrainedRun, TrainedRun]] = {}
    with_config = TrainedRun.with_config
    load_in = functools.cache(lambda folder, *arguments: load_run(*arguments))

    def load(*arguments: Any) -> TrainedRun:  # "runs/demo" is another run in another folder
        return load_in(Path.cwd(), *arguments)

    def configured_once(run: TrainedRun, config: RunConfig) -> TrainedRun:
        if config.decoding.search == "sampling":
            return with_config(run, config)
        key = id(run), config.model_dump_json()
        if key not in configured:
            configured[key] = run, with_config(run, config)  # the run, too, so that no other gets its id
        return configured[key][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligner, "load_run", load)
        patch.setattr(ensemble, "load_run", load)
        patch.setattr(TrainedRun, "with_config", configured_once)
        yield


def check_unchanged(folder: Path) -> None:
    """Fails where a test has changed what others share."""
    assert folder.with_name(f"{folder.name}.sha256").read_text() == digest_of(folder), (
        f"a test has changed {folder}, which all share; expected a copy of it"
    )


def digest_of(folder: Path) -> str:
    """Returns the SHA-256 of the names and bytes of all files below a folder."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def train_unbroken(folder: Path) -> None:
    """Trains `runs/unbroken` for eight updates, which cross the end of an epoch, on the text in `corpus`: with an empty
    line on one side, a pair that comes three times, and validation text in the training."""
    corpus = write_small_corpus(folder / "corpus")
    for suffix in ("en", "fr"):
        path = corpus / f"train.{suffix}"
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[4] = "" if suffix == "fr" else lines[4]
        lines[20] = lines[30] = lines[10]
        lines[40] = (corpus / f"validation.{suffix}").read_text(encoding="utf-8").splitlines()[2]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert train(small_config(corpus, folder / "runs", "unbroken", LIVELY)) == 0


def with_other_weights(run: Path, folder: Path) -> Path:
    """Copies a run to a folder, where it has random weights, as another seed would give it."""
    copied = RunDirectory(Path(shutil.copytree(run, folder)))
    loaded = load_run(copied.root)
    stir(loaded.model).save(copied.model)
    facts = {
        "model_sha256": sha256(copied.model),
        "golden_logits": golden_logits(loaded.model, loaded.tokenizer.vocabulary_size),
    }
    write_json(copied.manifest, read_json_object(copied.manifest) | facts)
    return copied.root
