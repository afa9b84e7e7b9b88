"""Defines the paths of all files of a run and of an evaluation, and checks which version of qkv made a run."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from ..errors import InputError, invocation
from ..version import __version__
from .atomic import (
    check_run_folder,
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
SAVED = "saved by run.save"
"""The entry `weights` in the manifest of a run whose model was not trained in its folder."""
DEMO = Path("demo")
"""The name of the run that is in the package, unless there is a file or folder of this name."""
PACKAGED = Path(__file__).absolute().parents[1] / DEMO
"""The folder of that run. Nothing is ever written into it."""
DEMO_RESULTS = Path("runs") / DEMO
"""The folder for results of that run, below which `train.py` also trains a demo."""
EVALUATIONS = "evaluations"
"""The folder of a run for its evaluations."""
LIVE = "live"
"""The folder of a run for answers that were saved from the live page."""
OLDEST_VERSION = 0, 2  # major and minor number of the oldest version whose runs can be read
_CHECKPOINT = re.compile(r"(best|(update|passing)-[0-9]{8,})\.npz")
_VERSION = re.compile(r"# made by qkv (([0-9]{1,9})\.([0-9]{1,9})\S{0,40})")


def check_version(config: Path) -> None:
    """Raises an `InputError` if this version of qkv cannot read a run.

    It cannot read runs from versions before 0.2, nor from later minor or major versions. The version is in the first
    line of the config, or else in the manifest. A run without a version passes.

    Args:
        config: the config file of the run.
    """
    version_line = _VERSION.match(_made_by(config))
    if version_line is None:
        return
    run_version = version_line[1]
    major_and_minor = int(version_line[2]), int(version_line[3])
    if major_and_minor > tuple(map(int, __version__.split(".")[:2])):
        reason = "which cannot know what has changed since; upgrade qkv to use this run"
    elif major_and_minor < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        reason = f"which reads no runs from before {oldest}; train again, or use qkv {run_version}"
    else:
        return
    raise InputError(f"{config.parent}: made by qkv {run_version}, and this is qkv {__version__}, {reason}")


def _made_by(config: Path) -> str:
    """Returns the line `# made by qkv VERSION` of a run; an empty text if neither its config nor its manifest has it.

    Damaged files are reported when they are read for other purposes.
    """
    try:
        with config.open(encoding="utf-8", errors="replace") as lines:
            line = lines.readline(200)
        if _VERSION.match(line):
            return line
        return f"# made by qkv {read_json_object(config.with_name('manifest.json'))['versions']['qkv']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def find_run(path: Path) -> Path:
    """Returns the folder of a run: `PACKAGED` if `path` is `demo` and does not exist, otherwise `path`."""
    return PACKAGED if path == DEMO and not os.path.lexists(path) else path


def default_run() -> Path:
    """Returns the folder of the run that is shown if the user names none: `runs/demo` if it is a run, or `PACKAGED`."""
    return DEMO_RESULTS if _is_run(DEMO_RESULTS) else PACKAGED


def _is_run(root: Path) -> bool:
    """Returns whether a folder is that of a run."""
    return (root / "config.yaml").is_file()


class RunDirectory:
    """The folder of a run, and the paths of all files in it. The files need not exist.

    Args:
        root: the folder, usually `runs/NAME`.

    Attributes:
        written: the list of the files that qkv wrote in the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.config = self.root / "config.yaml"
        self.decoding = self.root / "decoding.yaml"  # the settings that `evaluate.py --tune` has chosen
        self.alignment = self.root / "alignment.json"  # the layer and head that word links are read from
        self.confidence = self.root / "confidence.json"  # of translations, fitted on the validation set
        self.word_statistics = self.root / "word_statistics.npz"  # of the training text, for markup
        self.manifest = self.root / "manifest.json"  # written last; a run with it is completely trained
        self.given_tokenizer = self.root / "tokenizer" / "given.json"  # of an imported run
        self.own_tokenizer = self.root / "tokenizer" / "sentencepiece.model"
        self.ancestor = self.root / "ancestor" / "manifest.json"  # of the run that training starts from
        self.ancestor_weights = self.root / "ancestor" / "weights.npz"
        self.preparation = self.root / ".preparation.json"  # while the text is being prepared
        self.corpus_report = self.root / "corpus_report.json"
        self.pairs = self.root / "pairs"  # the text of a run that was trained on pairs in memory
        self.pairs_origin = self.pairs / "origin.json"  # written last; with it, the text is whole
        self.held_out = self.root / "held_out"  # the validation and test pairs taken out of the training files
        self.source_look = self.root / "source_look.json"
        self.target_look = self.root / "target_look.json"
        self.encoded = self.root / "encoded"
        self.shards = self.encoded / "shards"  # of a large text, while it is being encoded
        self.checkpoints = self.root / "checkpoints"
        self.model = self.root / "model.keras"
        self.history = self.root / "history.csv"
        self.validation_events = self.root / "validation"  # event files of the training are in the run's folder itself
        self.projector_config = self.root / "projector_config.pbtxt"  # TensorBoard expects it here
        self.projector = self.root / "projector"
        self.probes = self.root / "probes"
        self.written = FileList(self.root)
        self._lock = self.root / ".lock"
        # The folders that training writes, and the files outside of these folders.
        folders = (self.held_out, self.encoded, self.checkpoints, self.validation_events, self.projector, self.probes)
        self._folders = self.pairs, self.own_tokenizer.parent, self.ancestor.parent, *folders
        files = (self.preparation, self.corpus_report, self.source_look, self.target_look, self.model, self.history)
        choices = self.decoding, self.alignment, self.confidence, self.word_statistics
        self._files = self.config, *choices, self.manifest, *files, self.projector_config

    @property
    def tokenizer(self) -> Path:
        """The file of the tokenizer: the given one in an imported run, otherwise the one trained on the run's text."""
        return self.given_tokenizer if self.given_tokenizer.exists() else self.own_tokenizer

    @property
    def has_imported_tokenizer(self) -> bool:
        """True if the tokenizer is that of an imported Marian model, with a SentencePiece model for each side."""
        return self.tokenizer == self.given_tokenizer

    @property
    def inputs(self) -> list[Path]:
        """The paths of all files and folders in the run that a command may read."""
        return [path for path in vars(self).values() if isinstance(path, Path) and path != self.root]

    @property
    def is_packaged(self) -> bool:
        """True if the run is the one in the package, which is read-only."""
        return self.root == PACKAGED

    @property
    def argument(self) -> Path:
        """The path by which a command names the run: that of its folder, or `demo` for the packaged run."""
        return DEMO if self.is_packaged else self.root

    def refuse_packaged(self, action: str) -> None:
        """Raises an `InputError` if the run is the one in the package.

        Args:
            action: the option or setting that would change the run, for the message.
        """
        if self.is_packaged:
            raise InputError(
                f"{action}: the run {DEMO} is in the package and is read-only; save a copy and change that one: "
                f"qkv.load('{DEMO}').save('runs/NAME') in Python"
            )

    @property
    def results(self) -> Path:
        """The folder below which commands write results: that of the run, or `runs/demo` for the packaged run.

        If `runs/demo` is another run, the packaged one has no results there, see `check_results`.
        """
        return DEMO_RESULTS if self.is_packaged and not _is_run(DEMO_RESULTS) else self.root

    def check_results(self) -> None:
        """Raises an `InputError` if results of the packaged run would be mixed with those of another run."""
        if self.is_packaged and _is_run(DEMO_RESULTS):
            raise InputError(
                f"{DEMO_RESULTS}: results of the packaged run {DEMO} are written there, and it is another run; use "
                f"that run: {invocation('evaluate', DEMO_RESULTS)}; or use {DEMO} in another folder"
            )

    def evaluation(self, name: str) -> "EvaluationDirectory":
        """Returns the folder of the run's evaluation of this name, such as `test`. It need not exist."""
        return EvaluationDirectory(self.results / EVALUATIONS / name)

    def evaluation_name_problem(self, name: str) -> str | None:
        """Returns a message if no evaluation of this name can be written in the run; None if one can."""
        if problem := name_problem(name):
            return problem
        return None if self.evaluation(name).root.exists() else new_name_problem(name)

    def copy_tokenizer(self, source: "RunDirectory") -> None:
        """Copies the files of the tokenizer of another run into the run."""
        for name in ("source.spm", "target.spm", source.tokenizer.name):  # the file that refers to the others is last
            if (path := source.tokenizer.with_name(name)).is_file():
                write_atomically(self.own_tokenizer.with_name(name), path.read_bytes())

    def write_config(self, settings: str) -> None:
        """Writes config.yaml: a line with the version of qkv, then `settings`, the YAML text of all settings."""
        write_atomically(self.config, (MADE_BY + settings).encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the run for training within the block, and adds the files that the block writes to the list `written`.

        Raises:
            InputError: another process trains the run.
        """
        with folder_locked(self._lock, "trains this run"):
            if self.config.is_file() and not self.written.exists():  # from an older version, which wrote no list
                self.written.add(*(path for path in self.checkpoints.glob("*.npz") if _CHECKPOINT.fullmatch(path.name)))
            with self.written.recording():
                yield

    def is_trained(self) -> bool:
        """Returns whether training has finished, so that the run has a model and a manifest."""
        return self.model.is_file() and self.manifest.is_file()

    def is_saved(self) -> bool:
        """Returns whether `Run.save` wrote the run, so that there is no training to continue."""
        return read_json_if_whole(self.manifest).get("weights") == SAVED

    @property
    def event_files(self) -> Sequence[Path]:
        """TensorBoard's event files of the training, sorted.

        They are directly in the run's folder, because TensorBoard shows the name of their folder.
        """
        return sorted(self.root.glob(EVENT_FILES))

    def check_writable(self) -> None:
        """Raises an `InputError` if training cannot write a file or folder of the run.

        The reason is a symbolic link, a read-only folder, a folder in the place of a file, or a file in the place of a
        folder.
        """
        for folder in self._folders:
            check_run_folder(folder)
        for path in (*self.event_files, *chain.from_iterable(folder.rglob("*") for folder in self._folders)):
            refuse_link(path)
        for file in (*self._files, *self.event_files, *self.checkpoints.glob("*.npz")):
            refuse_folder(file)

    def check_weights(self, checkpoint: str = "best") -> None:
        """Raises an `InputError` if the run does not have the weights to translate with.

        Args:
            checkpoint: `best` for the weights of the best validation, `last` for the newest checkpoint.
        """
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
        """Deletes temporary files that a killed training left behind. Call it only within `locked`.

        If the text is completely prepared, the intermediate files of its preparation are deleted too.
        """
        for file in self._files:
            delete_temporary_files(file)
        for folder in self._folders:
            delete_temporary_files_below(folder)
        if self.corpus_report.is_file():
            self.preparation.unlink(missing_ok=True)
            self.delete_shards()

    def delete_shards(self) -> None:
        """Deletes the shards, the intermediate files of encoding a large text.

        They are recognised by their names, because the processes that write them keep no list.
        """
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
        """Deletes the files of callbacks: history, TensorBoard's files and probes.

        Used if a training was killed before its first checkpoint, and so starts from the beginning.
        """
        for file in (self.history, self.projector_config):
            file.unlink(missing_ok=True)
        self._delete_event_files()
        self.written.delete(self.validation_events, self.projector, self.probes)

    def _delete_event_files(self) -> None:
        """Deletes the event files directly in the run's folder that are in the list `written`."""
        for file in self.event_files:
            if self.written.holds(file):
                file.unlink(missing_ok=True)

    def delete(self) -> None:
        """Deletes the files that training has written, and the folder if it is empty then. All other files stay.

        The config is deleted last, so that the same command can train the run even if the deletion is interrupted.
        """
        self.corpus_report.unlink(missing_ok=True)  # first: with this file, the text would count as prepared
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
        """Raises an `InputError` if the folder of a new run is not empty.

        The lock file, the list `written` and temporary files of the config may be there. A training that is killed at
        its start leaves them. In `runs/demo`, results of the packaged run may be there; an evaluation of the new run
        replaces the one of the same name.
        """
        names = {path.name for path in self.root.iterdir()} - {self._lock.name, self.written.path.name}
        if self.root.absolute() == DEMO_RESULTS.absolute() and not self.config.exists():
            names -= {EVALUATIONS, LIVE}
        unexpected = sorted(name for name in names if not is_temporary(name, self.config))
        if unexpected and not self.config.exists():
            raise InputError(
                f"{self.root}: expected a new or an empty folder, found {unexpected[0]!r} in it; choose another name "
                "for the run: --run.name NAME; or move the files away"
            )
        if unexpected:
            raise InputError(
                f"{self.root}: the run exists already. Continue it: {invocation('train', '--resume', self.root)}; "
                "start another one: --run.name NAME; or delete the folder"
            )

    @classmethod
    def create(cls, root: Path) -> "RunDirectory":
        """Creates the folder of a new run. An existing folder is used if it passes `check_unused`.

        Raises:
            InputError: the folder has files already, or cannot be created.
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
        """Opens the folder of an existing run, see `find_run`.

        Raises:
            InputError: the folder does not exist, or is not a run, or a file in it is a device or a pipe, or this
                version of qkv cannot read the run (see `check_version`).
        """
        run = cls(find_run(root))
        check_path(run.root)
        if not run.root.is_dir():
            raise InputError(
                f"{run.root}: no such run; expected a folder that train.py has created, such as {DEMO_RESULTS}, or "
                f"{DEMO}, which is in the package"
            )
        if not run.config.is_file():
            raise InputError(
                f"{run.root}: not a run, it has no config.yaml; expected a folder that train.py has created"
            )
        texts = run.tokenizer, run.corpus_report, run.source_look, run.target_look
        choices = run.decoding, run.alignment, run.confidence, run.word_statistics
        for file in (run.manifest, *choices, *texts, run.history, run.ancestor_weights):
            refuse_other_than_file(file, "what training wrote")
        check_version(run.config)
        return run


def find_evaluation(path: Path, set_name: str) -> tuple[RunDirectory | None, "EvaluationDirectory"]:
    """Finds an evaluation or an attention archive, and its run.

    Args:
        path: the folder of a run, of an evaluation, or of an attention archive.
        set_name: if `path` is a run, the name of its evaluation, such as `test`.

    Returns:
        The run, or None if the evaluation or archive is not in a run; then the folder of the evaluation. For the folder
        of a run, the evaluation need not exist.

    Raises:
        InputError: the folder is neither a run nor an evaluation nor an archive, or its run cannot be opened.
    """
    check_path(path / "sentences.jsonl")
    if (path / "sentences.jsonl").exists():
        return None, EvaluationDirectory(path, attention=path)
    if path.parent.name == EVALUATIONS:
        return RunDirectory.open(_run_of_results(path.parents[1])), EvaluationDirectory(path)
    if (path / "attention" / "sentences.jsonl").exists():  # an evaluation that was moved out of its run
        return None, EvaluationDirectory(path)
    if _run_of_results(path) != path:
        return RunDirectory.open(PACKAGED), EvaluationDirectory(path / EVALUATIONS / set_name)
    run = RunDirectory(path)
    if path.is_dir() and not run.config.is_file():
        raise InputError(
            f"{path}: neither a run, which has a config.yaml, nor an attention archive, which has a sentences.jsonl; "
            "expected a folder that train.py, evaluate.py or write_archive has created"
        )
    run = RunDirectory.open(path)
    return run, run.evaluation(set_name)


def _run_of_results(root: Path) -> Path:
    """Returns the folder of the run to which the evaluations below `root` belong.

    It is `root`, unless this is a folder `runs/demo` with results of the packaged run.
    """
    is_of_packaged = root.absolute().parts[-2:] == DEMO_RESULTS.parts and (root / EVALUATIONS).is_dir()
    return PACKAGED if is_of_packaged and not _is_run(root) else root


_MEMBER_FOLDER = re.compile(r"^members/[^/]+/")
_FILE_IN_SUBFOLDER = re.compile(
    r"attention/(manifest\.json|sentences\.jsonl|gold\.pharaoh|shard-[0-9]{5,}\.npz)"
    r"|heatmaps/(sentence|probe)-[0-9]{6,}-cross-layer-[0-9]+\.png"
    r"|parts/translations-[0-9]{5,}\.json"
)
"""The paths of files in subfolders of an evaluation."""
_METRICS_KEYS = {"name", "mode", "sentences", "search", "truncated"}
"""Keys that every `metrics.json` has, of any version."""


def inputs_of(evaluations: Iterable[tuple[RunDirectory | None, "EvaluationDirectory"]]) -> list[Path]:
    """Returns the paths of all files and folders in evaluations and their runs that a command may read.

    Args:
        evaluations: pairs of a run, or None, and an evaluation, as from `find_evaluation`.
    """
    inputs: list[Path] = []
    for run, evaluation in evaluations:
        if run is not None:
            inputs += run.inputs
        inputs += evaluation.inputs
    return inputs


class EvaluationDirectory:
    """The folder of an evaluation, and the paths of all files in it. The files need not exist.

    Args:
        root: the folder.
        attention: the folder of the attention archive; by default `attention` in the folder. For an archive without an
            evaluation, `root` and `attention` are the same.

    Attributes:
        written: the list of the files that qkv wrote in the folder.
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
        self.parts = root / "parts"  # intermediate results, until the evaluation is complete
        self.members = root / "members"  # of an ensemble: a folder for each model, with its attention archive
        self.written = FileList(root)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The subfolders that commands write."""
        return self.heatmaps, self.attention, self.parts, self.members

    @property
    def files(self) -> list[Path]:
        """The files that commands write directly in the folder, not in its subfolders."""
        paths = (path for path in vars(self).values() if isinstance(path, Path))
        return [path for path in paths if path not in (self.root, *self.folders)]

    @property
    def inputs(self) -> list[Path]:
        """The paths of all files and folders in the evaluation that a command may read: all but pictures and pages."""
        inputs = [path for path in self.files if path not in (self.viewer, self.faithfulness_figure)]
        if self.attention != self.root:
            return [*inputs, self.attention]
        archive = [path for path in self.root.glob("*") if _FILE_IN_SUBFOLDER.fullmatch(f"attention/{path.name}")]
        return inputs + archive

    def written_files(self) -> set[Path]:
        """Returns the paths of the files in the folder that commands have written, by the list `written`.

        A folder from an older version of qkv has no list. Then the files are recognised by their names.
        """
        if self.written.exists():
            return {self.written.path} | {self.root / name for name in self.written.names()}
        return set(self.evaluation_files())

    def evaluation_files(self) -> Iterator[Path]:
        """Yields the files in the folder and its subfolders whose names are those of an evaluation's files."""
        names = {file.name for file in self.files}
        for path in sorted(self.root.rglob("*")):
            name = _MEMBER_FOLDER.sub("", path.relative_to(self.root).as_posix())
            if (name in names or _FILE_IN_SUBFOLDER.fullmatch(name)) and not path.is_dir():
                yield path

    def refuse_other_files(self, paths: Iterable[Path], advice: str) -> None:
        """Raises an `InputError` if one of `paths` exists in the folder, but was not written by a command of qkv.

        Args:
            paths: files that are to be written or deleted.
            advice: an imperative clause for the message that tells the user how to avoid the conflict.
        """
        is_evaluation = self.written.exists() or read_json_if_whole(self.metrics).keys() >= _METRICS_KEYS
        written_files = self.written_files() if is_evaluation else ()
        for path in paths:
            if os.path.lexists(path) and path not in written_files:
                raise InputError(f"{path}: not written by this command; {advice}, or move the file away")

    def check_writable(self) -> None:
        """Raises an `InputError` if the folder or the folder above it is a file, a symbolic link or read-only.

        Both folders may be missing.
        """
        for folder in (self.root.parent, self.root):
            check_run_folder(folder)

    def member(self, name: str) -> "EvaluationDirectory":
        """Returns the folder for one model of an ensemble, by the name of the model."""
        return EvaluationDirectory(self.members / name)
