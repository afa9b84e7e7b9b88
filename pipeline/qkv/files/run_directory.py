"""Every path of a run and of an evaluation, named once, and the version that made a run."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from ..errors import InputError, invocation
from ..version import __version__
from .atomic import (
    check_own_folder,
    delete_temporary_files,
    delete_temporary_files_below,
    is_temporary,
    refuse_folder,
    refuse_link,
    write_atomically,
)
from .json import read_json_if_whole, read_json_object
from .lock import folder_locked
from .paths import check_path, name_problem, new_name_problem, refuse_other_than_file
from .written import EVENT_FILES, FileList, delete_if_empty

MADE_BY = f"# made by qkv {__version__}\n"
OLDEST = 0, 2  # the version whose runs are read, and all since
_CHECKPOINT = re.compile(r"(best|(update|passing)-[0-9]{8,})\.npz")
_VERSION = re.compile(r"# made by qkv (([0-9]{1,9})\.([0-9]{1,9})\S{0,40})")


def check_version(config: Path) -> None:
    """Raises an `InputError` for the run of a version whose runs this one cannot read: one before 0.2, or a later minor
    or major one. The first line of the config names it, or else the manifest."""
    if (made := _VERSION.match(_made_by(config))) is None:
        return
    version = int(made[2]), int(made[3])
    if version > tuple(map(int, __version__.split(".")[:2])):
        why = "which cannot know what has changed since; upgrade qkv to use this run"
    elif version < OLDEST:
        why = f"which reads no runs from before {OLDEST[0]}.{OLDEST[1]}; train anew, or use qkv {made[1]}"
    else:
        return
    raise InputError(f"{config.parent}: made by qkv {made[1]}, and this is qkv {__version__}, {why}")


def _made_by(config: Path) -> str:
    """Returns a line that names the version, if a file of the run has one; whoever reads these says what is wrong with
    them."""
    try:
        with config.open(encoding="utf-8", errors="replace") as lines:
            line = lines.readline(200)
        if _VERSION.match(line):
            return line
        return f"# made by qkv {read_json_object(config.with_name('manifest.json'))['versions']['qkv']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


class RunDirectory:
    """The folder of one run, and the path of everything in it.

    Args:
        root: the folder, `runs/NAME`.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.config = self.root / "config.yaml"
        self.decoding = self.root / "decoding.yaml"  # what `evaluate.py --tune` has chosen
        self.alignment = self.root / "alignment.json"  # where word links are read, as gold alignments have chosen it
        self.manifest = self.root / "manifest.json"  # written last: with it, the training is complete
        self.given_tokenizer = self.root / "tokenizer" / "given.json"  # of an imported run
        self.own_tokenizer = self.root / "tokenizer" / "sentencepiece.model"
        self.ancestor = self.root / "ancestor" / "manifest.json"  # of the run that training starts from
        self.ancestor_weights = self.root / "ancestor" / "weights.npz"
        self.preparation = self.root / ".preparation.json"  # while the text is being prepared
        self.corpus_report = self.root / "corpus_report.json"
        self.held_out = self.root / "held_out"  # the sets that were taken from the training files
        self.source_look = self.root / "source_look.json"
        self.target_look = self.root / "target_look.json"
        self.encoded = self.root / "encoded"
        self.shards = self.encoded / "shards"  # of a large text, while it is being encoded
        self.checkpoints = self.root / "checkpoints"
        self.model = self.root / "model.keras"
        self.history = self.root / "history.csv"
        self.validation_events = self.root / "validation"  # the training's lie in the run's own folder
        self.projector_config = self.root / "projector_config.pbtxt"  # where TensorBoard looks for it
        self.projector = self.root / "projector"
        self.probes = self.root / "probes"
        self.written = FileList(self.root)
        self._lock = self.root / ".lock"
        # What training writes: folders, and the files beside them.
        folders = (self.held_out, self.encoded, self.checkpoints, self.validation_events, self.projector, self.probes)
        self._folders = self.own_tokenizer.parent, self.ancestor.parent, *folders
        files = (self.preparation, self.corpus_report, self.source_look, self.target_look, self.model, self.history)
        self._files = self.config, self.decoding, self.alignment, self.manifest, *files, self.projector_config

    @property
    def tokenizer(self) -> Path:
        """The file of the tokenizer."""
        return self.given_tokenizer if self.given_tokenizer.exists() else self.own_tokenizer

    @property
    def inputs(self) -> list[Path]:
        """The files and folders that commands read."""
        return [path for path in vars(self).values() if isinstance(path, Path) and path != self.root]

    def evaluation(self, name: str) -> "EvaluationDirectory":
        """Returns the folder of the evaluation on the set of that name."""
        return EvaluationDirectory(self.root / "evaluations" / name)

    def evaluation_name_problem(self, name: str) -> str | None:
        """Returns what is wrong with the name of an evaluation that is to be written, or None."""
        if problem := name_problem(name):
            return problem
        return None if self.evaluation(name).root.exists() else new_name_problem(name)

    def write_config(self, settings: str) -> None:
        """Writes the text of all settings, below the version that made the run."""
        write_atomically(self.config, (MADE_BY + settings).encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training the run within the block, and lists the files that this one writes;
        raises an `InputError` if another process trains it."""
        with folder_locked(self._lock, "trains this run"):
            if self.config.is_file() and not self.written.exists():  # an older version's, which wrote no list
                self.written.add(*(path for path in self.checkpoints.glob("*.npz") if _CHECKPOINT.fullmatch(path.name)))
            with self.written.recording():
                yield

    def is_trained(self) -> bool:
        """Returns whether training has come to its end."""
        return self.model.is_file() and self.manifest.is_file()

    @property
    def event_files(self) -> Sequence[Path]:
        """TensorBoard's files of the training, which name the run as its folder."""
        return sorted(self.root.glob(EVENT_FILES))

    def check_writable(self) -> None:
        """Raises an `InputError` unless what training writes lies in the run itself: a folder is no link and holds
        none, nor is an event file one, and no folder is in the place of a file."""
        for folder in self._folders:
            check_own_folder(folder)
        for path in (*self.event_files, *chain.from_iterable(folder.rglob("*") for folder in self._folders)):
            refuse_link(path)
        for file in (*self._files, *self.event_files, *self.checkpoints.glob("*.npz")):
            refuse_folder(file)

    def check_weights(self, checkpoint: str = "best") -> None:
        """Raises an `InputError` unless the run has weights to translate with: the `best`, or the `last` for the newest
        checkpoint."""
        has_best = self.model.is_file() or (self.checkpoints / "best.npz").is_file()
        has_last = any(self.checkpoints.glob("update-*.npz")) or any(self.checkpoints.glob("passing-*.npz"))
        if has_last if checkpoint == "last" else has_best:
            return
        train = invocation("train", "--resume", self.root)
        if has_best:
            raise InputError(f"{self.checkpoints}: no checkpoint is left here; leave out --checkpoint last")
        if self.given_tokenizer.is_file() or self.manifest.is_file():
            raise InputError(f"{self.model}: missing, so there are no weights to translate with; restore the file")
        if has_last:
            raise InputError(
                f"{self.checkpoints / 'best.npz'}: missing, since the training ended before its first validation; "
                f"continue it: {train}; or translate with the weights as they are: --checkpoint last, which evaluate, "
                "translate, export and live take"
            )
        raise InputError(
            f"{self.checkpoints}: no weights to translate with yet; begin or continue the training: {train}"
        )

    def delete_leftovers(self) -> None:
        """Deletes what a killed training has left half-written; only for the process that holds the lock."""
        for file in self._files:
            delete_temporary_files(file)
        for folder in self._folders:
            delete_temporary_files_below(folder)
        if self.corpus_report.is_file():
            self.preparation.unlink(missing_ok=True)
            self.delete_shards()

    def delete_shards(self) -> None:
        """Deletes the shards of a text that has been encoded, which other processes wrote, without a list."""
        if self.shards.is_symlink() or not self.shards.is_dir():
            return
        for folder in self.shards.iterdir():
            if re.fullmatch("[0-9a-f]{32}", folder.name) and folder.is_dir() and not folder.is_symlink():
                for file in folder.iterdir():
                    if re.fullmatch(r"[0-9]{6,}\.npz", file.name) or is_temporary(file.name):
                        file.unlink(missing_ok=True)
                delete_if_empty(folder)
        delete_if_empty(self.shards)

    def delete_records(self) -> None:
        """Deletes what callbacks wrote in a training that was killed before its first checkpoint."""
        for file in (self.history, self.projector_config):
            file.unlink(missing_ok=True)
        self._delete_event_files()
        self.written.delete(self.validation_events, self.projector, self.probes)

    def _delete_event_files(self) -> None:
        for file in self.event_files:
            if self.written.holds(file):
                file.unlink(missing_ok=True)

    def delete(self) -> None:
        """Deletes what training has written, the config last: whenever this is interrupted, the same command trains the
        run. What others have put into the folder stays."""
        self.corpus_report.unlink(missing_ok=True)  # first: with it, the text would count as prepared
        for folder in self._folders:
            if not folder.is_symlink():
                delete_temporary_files_below(folder)
        self.delete_shards()
        self.written.delete(*self._folders)
        self._delete_event_files()
        for file in (*self._files[::-1], self.written.path, self._lock):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.root.rmdir()

    def check_unused(self) -> None:
        """Raises an `InputError` if anything is in the folder but the rest of a training that was killed at its very
        start."""
        names = {path.name for path in self.root.iterdir()} - {self._lock.name, self.written.path.name}
        others = sorted(name for name in names if not is_temporary(name, self.config))
        if others and not self.config.exists():
            raise InputError(
                f"{self.root}: expected a new or an empty folder, found {others[0]!r} in it; name the run otherwise: "
                "--run.name NAME; or move away what is there"
            )
        if others:
            raise InputError(
                f"{self.root}: the run exists already. Continue it: {invocation('train', '--resume', self.root)}; "
                "start another one: --run.name NAME; or delete the folder"
            )

    @classmethod
    def create(cls, root: Path) -> "RunDirectory":
        """Creates the folder of a new run; one in which nothing has been written yet is taken.

        Raises:
            InputError: it exists already, or cannot be created.
        """
        run = cls(root)
        try:
            run.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{run.root}: the run's folder cannot be created: {error.strerror}") from None
        run.check_unused()
        return run

    @classmethod
    def open(cls, root: Path) -> "RunDirectory":
        """Opens the folder of a run that was started before.

        Raises:
            InputError: it does not exist, is not a run, or was made by a version whose runs are not read.
        """
        run = cls(root)
        check_path(run.root)
        if not run.root.is_dir():
            raise InputError(f"{run.root}: no such run; expected a folder that train.py has created, such as runs/demo")
        if not run.config.is_file():
            raise InputError(
                f"{run.root}: not a run, it has no config.yaml; expected a folder that train.py has created"
            )
        texts = run.tokenizer, run.corpus_report, run.source_look, run.target_look
        for file in (run.manifest, run.decoding, run.alignment, *texts, run.history, run.ancestor_weights):
            refuse_other_than_file(file, "what training wrote")
        check_version(run.config)
        return run


def find_evaluation(path: Path, set_name: str) -> tuple[RunDirectory | None, "EvaluationDirectory"]:
    """Finds what was evaluated.

    Args:
        path: the folder of a run, of one of its evaluations, or of an attention archive, which needs no run.
        set_name: the name of the evaluation, where `path` is a run.

    Returns:
        The run, None for an archive without one; the folder of the evaluation.

    Raises:
        InputError: there is no such run or archive.
    """
    check_path(path / "sentences.jsonl")
    if (path / "sentences.jsonl").exists():
        return None, EvaluationDirectory(path, attention=path)
    if path.parent.name == "evaluations":
        return RunDirectory.open(path.parents[1]), EvaluationDirectory(path)
    if (path / "attention" / "sentences.jsonl").exists():  # an evaluation that was moved out of its run
        return None, EvaluationDirectory(path)
    run = RunDirectory(path)
    if path.is_dir() and not run.config.is_file():
        raise InputError(
            f"{path}: neither a run, which has a config.yaml, nor an attention archive, which has a sentences.jsonl; "
            "expected a folder that train.py, evaluate.py or write_archive has created"
        )
    return RunDirectory.open(path), run.evaluation(set_name)


_OF_A_MEMBER = re.compile(r"^members/[^/]+/")
_IN_A_FOLDER = re.compile(
    r"attention/(manifest\.json|sentences\.jsonl|gold\.pharaoh|shard-[0-9]{5,}\.npz)"
    r"|heatmaps/(sentence|probe)-[0-9]{6,}-cross-layer-[0-9]+\.png"
    r"|parts/translations-[0-9]{5,}\.json"
)
"""The files in the folders of an evaluation."""
_MARKS = {"name", "mode", "sentences", "search", "truncated"}
"""Keys of every `metrics.json`."""


def inputs_of(evaluated: Iterable[tuple[RunDirectory | None, "EvaluationDirectory"]]) -> list[Path]:
    """Returns the files and folders that commands read of what `find_evaluation` has found."""
    return [path for pair in evaluated for directory in pair if directory for path in directory.inputs]


class EvaluationDirectory:
    """The folder of one evaluation, and the path of everything in it.

    Args:
        root: the folder.
        attention: the folder of the archive; `root`, where there is nothing but an archive.
    """

    def __init__(self, root: Path, attention: Path | None = None) -> None:
        self.root = root
        self.metrics = root / "metrics.json"
        self.translations = root / "translations.tsv"
        self.heads = root / "heads.csv"
        self.sentence_heads = root / "sentence_heads.csv"
        self.head_types = root / "head_types.csv"
        self.sentences = root / "sentences.csv"
        self.spectra = root / "spectra.csv"
        self.perturbation = root / "perturbation.csv"
        self.perturbation_sentences = root / "perturbation_sentences.csv"
        self.faithfulness = root / "faithfulness.csv"
        self.faithfulness_sentences = root / "faithfulness_sentences.csv"
        self.faithfulness_figure = root / "faithfulness.png"
        self.head_alignment = root / "head_alignment.csv"
        self.sentence_alignment = root / "sentence_alignment.csv"
        self.alignments = root / "alignments.pharaoh"
        self.link_probabilities = root / "link_probabilities.pharaoh"
        self.link_calibration = root / "link_calibration.json"
        self.link_reliability = root / "link_reliability.csv"
        self.heatmaps = root / "heatmaps"
        self.viewer = root / "viewer.html"
        self.attention = root / "attention" if attention is None else attention
        self.parts = root / "parts"  # while it is being evaluated
        self.members = root / "members"  # of an ensemble, which has no archive of its own
        self.written = FileList(root)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that commands write into the folder."""
        return self.heatmaps, self.attention, self.parts, self.members

    @property
    def files(self) -> list[Path]:
        """The files that commands write into the folder, beside its folders."""
        paths = (path for path in vars(self).values() if isinstance(path, Path))
        return [path for path in paths if path not in (self.root, *self.folders)]

    @property
    def inputs(self) -> list[Path]:
        """The files and folders that commands read, without those that are only shown to people."""
        read = [path for path in self.files if path not in (self.viewer, self.faithfulness_figure)]
        if self.attention != self.root:
            return [*read, self.attention]
        return read + [path for path in self.root.glob("*") if _IN_A_FOLDER.fullmatch(f"attention/{path.name}")]

    def own_files(self) -> set[Path]:
        """Returns the files in the folder that commands have written: those in its list or, in a folder of a version
        that wrote no list, all that have names of an evaluation."""
        if self.written.exists():
            return {self.written.path} | {self.root / name for name in self.written.names()}
        return set(self.named_files())

    def named_files(self) -> Iterator[Path]:
        """Yields the files in the folder that have names of an evaluation."""
        names = {file.name for file in self.files}
        for path in sorted(self.root.rglob("*")):
            name = _OF_A_MEMBER.sub("", path.relative_to(self.root).as_posix())
            if (name in names or _IN_A_FOLDER.fullmatch(name)) and not path.is_dir():
                yield path

    def check_own(self, paths: Iterable[Path], advice: str) -> None:
        """Raises an `InputError` with advice if one of these files of the folder is there, and no command wrote it."""
        is_ours = self.written.exists() or read_json_if_whole(self.metrics).keys() >= _MARKS
        own = self.own_files() if is_ours else ()
        for path in paths:
            if os.path.lexists(path) and path not in own:
                raise InputError(f"{path}: not written by this command; {advice}, or move the file away")

    def check_writable(self) -> None:
        """Raises an `InputError` if a file or a link is in the place of the folder, or of the folder of all
        evaluations."""
        for folder in (self.root.parent, self.root):
            check_own_folder(folder)

    def member(self, name: str) -> "EvaluationDirectory":
        """Returns the folder of what is written of one model of an ensemble."""
        return EvaluationDirectory(self.members / name)
