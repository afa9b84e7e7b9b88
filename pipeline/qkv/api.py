"""Runs from Python: loaded or trained, they translate, align, evaluate and export, as the commands do."""

import html
import io
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, overload

from .config.names.inspection import SYMMETRISATIONS
from .config.run import with_decoding, with_decoding_values
from .errors import InputError, did_you_mean
from .exchange.export import BEAM, ExportWishes, write_export
from .files.atomic import new_folder
from .files.paths import check_path, check_text
from .inspection.archive import AttentionArchive
from .inspection.record import Record
from .run import train as train_run
from .run.start import check_config_paths, load_training, refuse_imported
from .runtime.import_tensorflow import importing_tensorflow
from .runtime.streams import Control
from .text.corpora.word_links import Link

if TYPE_CHECKING:
    import pandas as pd

    from .alignment.linking import Linking
    from .alignment.readout import AlignmentReadout
    from .decoding.translator import Translation
    from .run.trained_run import TrainedRun
    from .text.lines.sentences import Paragraph

SETS = ("test", "validation")


def load(path: str | Path, checkpoint: str = "best") -> "Run":
    """Loads a run.

    Args:
        path: its folder, such as `runs/demo`.
        checkpoint: `best` for the weights that were best on validation, `last` for the newest; also during training.

    Raises:
        InputError: the folder is no run, has no weights yet, or its files do not fit together.
    """
    if checkpoint not in ("best", "last"):
        raise InputError(f"checkpoint: expected best or last, found {checkpoint!r}")
    with importing_tensorflow():
        from .run.trained_run import load_run
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # it warns of graphs that are traced for other shapes
    return Run(load_run(Path(path), checkpoint))


def train(
    config: str | Path, settings: Mapping[str, Any] | None = None, *, verbose: int = 1, callbacks: Sequence[Any] = ()
) -> "Run":
    """Trains a new run, as `train.py` does. The same call continues a run that was interrupted.

    Args:
        config: a config file, such as `configs/demo.yaml`, or the folder of a run to continue.
        settings: values by dotted key, such as `{"model.d_model": 64}`, which replace the file's.
        verbose: 0 shows no progress, only warnings.
        callbacks: further `keras.callbacks.Callback` objects; `qkv.training.loop` says what they are given.

    Raises:
        InputError: a setting is wrong, the text cannot be read, or a run of this name has other settings.
        KeyboardInterrupt: the training was interrupted, and its state is saved.
    """
    check_path(path := Path(config))
    values, resumed = load_training(path, settings or {}, "settings", resumes=path.is_dir())
    refuse_imported(values, path)
    if resumed is None:
        check_config_paths(values)
    with _shown(verbose) as stream:
        if train_run(values, resumed, callbacks, stream):
            raise KeyboardInterrupt
    return load(resumed or values.run.directory / str(values.run.name))


def import_marian(
    folder: str | Path, path: str | Path, *, source_language: str | None = None, target_language: str | None = None
) -> "Run":
    """Makes a run of a Marian or OPUS-MT model, as `qkv import_marian` does.

    Args:
        folder: what `save_pretrained` of a MarianMTModel and its tokenizer wrote.
        path: the run's folder, which must not exist yet.
        source_language: the code of the source language; by default the tokenizer's.
        target_language: the code of the target language; by default the tokenizer's.

    Raises:
        InputError: the folder is damaged, or another model; or the run exists already.
    """
    check_path(Path(folder))
    with importing_tensorflow():
        from .exchange import marian_import

    languages = {"source": source_language or "", "target": target_language or ""}
    marian_import.import_marian(Path(folder), Path(path), languages)
    return load(path)


@contextmanager
def _shown(verbose: int) -> Iterator[TextIO]:
    """Yields the stream of a training's progress, in which the package's messages stand as well within the block."""
    shell = sys.modules["IPython"].get_ipython() if sys.modules.get("IPython") else None
    if not verbose:
        yield io.StringIO()
        return
    stream = _CellOutput() if getattr(shell, "kernel", None) else sys.stdout
    log, handler = logging.getLogger("qkv"), logging.StreamHandler(stream)
    before = log.level, log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(handler)
    try:
        yield stream
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before


class _CellOutput(io.StringIO):
    """The output of a notebook's cell, whose last line is rewritten as on a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self._display = sys.modules["IPython"].display.display({"text/plain": ""}, raw=True, display_id=True)

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._text = self._text[: self._text.rfind("\n") + 1] if isinstance(text, Control) else self._text + text
        return len(text)

    def flush(self) -> None:
        self._display.update({"text/plain": self._text}, raw=True)


class Run:
    """A trained run.

    Args:
        trained: the parts of the run, for whatever has no method here.

    Attributes:
        path: the run's folder.
        config: the run's settings.
        model: the Keras model.
    """

    def __init__(self, trained: "TrainedRun") -> None:
        self.trained = trained
        self.path = trained.directory.root
        self.config = trained.config
        self.model: Any = trained.model
        self._variants: dict[str, TrainedRun] = {}
        self._linkings: dict[str | None, tuple[AlignmentReadout, Linking]] = {}

    @property
    def history(self) -> "pd.DataFrame":
        """A row for each validation of the training, with the losses and scores; empty for an imported run."""
        import pandas as pd

        file = self.trained.directory.history
        return pd.read_csv(file) if file.is_file() else pd.DataFrame()

    def __repr__(self) -> str:
        data = self.config.data
        languages = f"{data.source_language} to {data.target_language}"
        return f"<Run {self.path}: {languages}, {self.model.count_params():,} parameters>"

    @overload
    def translate(self, sentences: str, *, n_best: None = None, **decoding: Any) -> "Translated": ...
    @overload
    def translate(self, sentences: Sequence[str], *, n_best: None = None, **decoding: Any) -> "list[Translated]": ...
    @overload
    def translate(self, sentences: str, *, n_best: int, **decoding: Any) -> "list[Translated]": ...
    @overload
    def translate(self, sentences: Sequence[str], *, n_best: int, **decoding: Any) -> "list[list[Translated]]": ...
    @overload
    def translate(self, sentences: str, *, split: Literal[True], **decoding: Any) -> "TranslatedText": ...
    @overload
    def translate(
        self, sentences: Sequence[str], *, split: Literal[True], **decoding: Any
    ) -> "list[TranslatedText]": ...
    def translate(
        self, sentences: str | Sequence[str], *, n_best: int | None = None, split: bool = False, **decoding: Any
    ) -> Any:
        """Translates one sentence, or a list of them. The first call with each choice of settings takes some seconds.

        Args:
            sentences: a sentence, or several; `data.normalize` of the run acts on them.
            n_best: how many translations of each sentence are returned, the best first; by default only the best.
            split: whether each is a text of sentences, which are translated one by one; needs sentencex.
            decoding: settings of the config's section `decoding` in the place of the run's, such as `beam_size=1`; with
                `search="sampling"` also the `seed` of the draws, which go on from call to call.

        Returns:
            A `Translated`, a list of them for a list, and with `n_best` a list of them in the place of each; with
            `split` a `TranslatedText` in the place of each.

        Raises:
            InputError: there is no such setting, a value is wrong, a sentence is several lines or no text, or
                sentencex is not installed.
        """
        if split:
            if n_best is not None:
                raise InputError("n_best: a text is put together of the best translations; expected none with split")
            texts = []
            for text in _listed(sentences, "sentences"):
                if not isinstance(text, str):
                    raise InputError(f"sentences: expected text, found {text!r:.60}")
                paragraph = self._with(decoding).splitter.divide_lines(text)
                texts.append(TranslatedText(self.translate(paragraph.sentences, **decoding), paragraph))
            return texts[0] if isinstance(sentences, str) else texts
        run = self._with(decoding if n_best is None else {**decoding, "n_best": n_best})
        given, ids = run.given_sentences["source"].read(_listed(sentences, "sentences"))
        translations = run.translator.translate_ids(ids)
        found = [
            [Translated._of(text, one, run) for one in some] for text, some in zip(given, translations, strict=True)
        ]
        shown = [some[0] for some in found] if n_best is None else found
        return shown[0] if isinstance(sentences, str) else shown

    @overload  # a text is also a sequence of texts, but a sentence is meant
    def align(  # type: ignore[overload-overlap]
        self, sources: str, targets: str, *, at: str | None = None
    ) -> dict[Link, float]: ...
    @overload
    def align(
        self, sources: Sequence[str], targets: Sequence[str], *, at: str | None = None
    ) -> list[dict[Link, float]]: ...
    def align(self, sources: str | Sequence[str], targets: str | Sequence[str], *, at: str | None = None) -> Any:
        """Links the words of sentences and their translations by the run's attention.

        Args:
            sources: a sentence, or several.
            targets: the translation of each.
            at: the place where links are read, as `LAYER,HEAD,SIDE[,LINKS[,SITE]]`, such as `"1,mean,output"`; by
                default chosen on the gold alignments that the run's config names, or else the last layer.

        Returns:
            For each pair its links (source word, target word), counted from 0, with their probabilities, which are
            calibrated on the gold alignments; not-a-number where the config names too few, or none.

        Raises:
            InputError: the run has no such layer or head, or no cross-attention; or there are fewer or more targets.
        """
        from .alignment.aligned_text import AlignedText
        from .alignment.aligner import choose_readouts, link_calibration
        from .alignment.linking import Direction, Linking, read_links
        from .alignment.readout_choice import find_readout

        text = AlignedText(_listed(sources, "sources"), _listed(targets, "targets"))
        if len(text.source) != len(text.target) or isinstance(sources, str) != isinstance(targets, str):
            raise InputError(
                f"targets: expected one for each of {len(text.source)} sources, found {len(text.target)}; give two "
                "sentences, or two lists of them"
            )
        readout, linking = self._linkings.get(at, (None, None))
        readout = readout or find_readout(self.trained, at)
        directions = choose_readouts([Direction(self.trained, text, readout, normalizes=True)])
        for side, lines in (("source", text.source), ("target", text.target)):
            self.trained.given_sentences[side].read(lines)  # which warns once of what is unlike the training text
        if linking is None:
            try:
                calibration = link_calibration(directions)
            except InputError:  # too few gold alignments, or none
                calibration = None
            linking = Linking(SYMMETRISATIONS[0], calibration, calibration is not None)
            assert directions[0].readout is not None
            self._linkings[at] = directions[0].readout, linking
        found = [
            links if isinstance(links, dict) else dict.fromkeys(sorted(links), math.nan)
            for links in read_links(directions, linking, subwords=False)
        ]
        return found[0] if isinstance(sources, str) else found

    def evaluate(
        self,
        set_name: str | None = None,
        *,
        source: str | Path | None = None,
        reference: str | Path | None = None,
        name: str | None = None,
        **decoding: Any,
    ) -> "Evaluation":
        """Translates and scores a set, and writes scores and attention into the run, as `evaluate.py` does.

        Args:
            set_name: `test`, the default, or `validation`: a set of the run's config.
            source: a file of sentences of your own instead, one a line.
            reference: the file of their translations.
            name: of the results' folder in `evaluations`; by default the set, or the name of the source file.
            decoding: see `translate`.

        Raises:
            InputError: there is no such set, a file cannot be read, or as for `translate`.
        """
        from .evaluation.evaluate_set import evaluate_set
        from .evaluation.request import EvaluationRequest, read_configured_set, read_own_set
        from .metrics.bleu import check_bleu_tokenizer

        texts = [None if path is None else Path(path) for path in (source, reference)]
        if source is None:
            set_name = set_name or SETS[0]
            if set_name not in SETS or reference is not None:
                wrong = "reference: needs source, the text that it belongs to" if reference is not None else ""
                hint = f"{did_you_mean(set_name, SETS)}; give text of your own as source="
                raise InputError(wrong or f"set_name: expected {' or '.join(SETS)}, found {set_name!r}{hint}")
        elif set_name is not None:
            raise InputError(f"set_name: expected no name of a set beside source, found {set_name!r}")
        for path in filter(None, texts):
            check_text(path)
        name = name or set_name or Path(source or "").name
        if problem := self.trained.directory.evaluation_name_problem(name):
            raise InputError(f"name: {problem}")
        run = self._with(decoding)
        check_bleu_tokenizer(run.config.data.scoring_tokenizer)
        if texts[0] is None:
            data = read_configured_set(run, name, str(set_name))
        else:
            data = read_own_set(run, name, texts[0], texts[1])
        metrics = evaluate_set(EvaluationRequest(run, data))
        return Evaluation(run.directory.evaluation(name).root, metrics)

    def export(
        self,
        format: str,  # noqa: A002
        folder: str | Path,
        *,
        quantization: str | None = None,
        at: str | None = None,
    ) -> Path:
        """Writes the run for another program, as `qkv export` does, and checks it on the validation set.

        Args:
            format: `saved_model`, `ctranslate2` or `marian`.
            folder: the folder to write, which must not exist yet.
            quantization: with `ctranslate2`, the number format of the weights; by default `float32`.
            at: with `saved_model`, where the links of its function `align` are read; see `align`.

        Returns:
            The folder.

        Raises:
            InputError: the format cannot follow a setting, or needs a package that is not installed.
        """
        wishes, written = ExportWishes(format, quantization, at), Path(folder)
        check_path(written / "manifest.json")
        config = with_decoding(self.config, BEAM)
        wishes.check(config, self.path, written)
        with new_folder(written, "writes this folder") as temporary:
            write_export(self.trained.with_config(config), temporary, wishes)
        return written

    def _with(self, decoding: Mapping[str, Any]) -> "TrainedRun":
        """Returns the run with other settings of decoding: one for each, since tracing a search takes seconds."""
        if not decoding:
            return self.trained
        config = with_decoding_values(self.config, decoding)
        settings = repr((config.decoding, config.run.seed))
        if settings not in self._variants:
            self._variants[settings] = self.trained.with_config(config)
        return self._variants[settings]


def _listed(sentences: str | Iterable[str], name: str) -> list[str]:
    if not isinstance(sentences, Iterable):
        raise InputError(f"{name}: expected a sentence or a list of sentences, found {sentences!r:.60}")
    return [sentences] if isinstance(sentences, str) else list(sentences)


@dataclass(frozen=True, eq=False, repr=False)
class Translated:
    """A translation of a sentence.

    Attributes:
        source: the sentence, as the run has read it.
        text: its translation.
        tokens: the subwords of the translation, with EOS unless it was cut.
        log_probabilities: of the tokens, in nats.
        log_probability: their sum.
        score: the score with which the search ranked it.
        truncated: whether the sentence or its translation was cut.
        attention: a `Record` with the weights of the sites in the config's `inspection.attention`, read when it is
            first asked for; see its `to_frame` and `to_numpy`.
    """

    source: str
    text: str
    tokens: list[str]
    log_probabilities: list[float]
    log_probability: float
    score: float
    truncated: bool
    _found: "Translation"
    _run: "TrainedRun"

    @classmethod
    def _of(cls, source: str, found: "Translation", run: "TrainedRun") -> "Translated":
        tokens, each = run.tokenizer.pieces(found.ids), found.log_probabilities
        return cls(source, found.text, tokens, each, sum(each), found.score, found.truncated, found, run)

    @cached_property
    def attention(self) -> Record:
        from .inspection.recorder import pair_translations

        decoding, inspection = self._run.config.decoding, self._run.config.inspection
        pairs = pair_translations([self.source], None, [self._found], decoding.kind)
        return next(self._run.recorder(["cross", *inspection.attention]).record(pairs))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Translated {self.text!r}, log-probability {self.log_probability:.3f}>"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows: the translation, and below it `Record`'s heat map."""
        title = f"<b>{html.escape(self.text)}</b> (log-probability {self.log_probability:.2f})"
        return f'<p>{title}</p><div style="overflow-x: auto">{self.attention._repr_html_()}</div>'


@dataclass(frozen=True, eq=False, repr=False)
class TranslatedText:
    """A translation of a text, sentence by sentence.

    Attributes:
        sentences: the translations of its sentences, and of its empty lines.
        text: these as one text, with the spaces and line feeds of the source between them.
    """

    sentences: list[Translated]
    _source: "Paragraph"

    @property
    def text(self) -> str:
        return self._source.join([one.text for one in self.sentences])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<TranslatedText {self.text!r}, {len(self.sentences)} sentences>"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An evaluation that was written.

    Args:
        path: its folder, in which `viewer.html` shows the attention.
        metrics: the contents of its `metrics.json`.
    """

    path: Path
    metrics: dict[str, Any] = field(repr=False)

    @cached_property
    def scores(self) -> "pd.DataFrame":
        """BLEU, chrF and, where there are gold alignments, AER: column `value`, and in `±` half the width of the 95 %
        interval over sentences, by bootstrap. Empty without references."""
        import pandas as pd

        from .evaluation.comparison import compare
        from .evaluation.systems import find_evaluated
        from .statistics.resampling import SAMPLES

        rows = compare([find_evaluated(self.path, "")], SAMPLES)[0] if "bleu" in self.metrics else pd.DataFrame()
        names = [name for name in ("BLEU", "chrF", "AER") if name in rows and rows[name].notna().all()]
        values = [[float(rows[column][0]) for column in (name, f"{name} ±")] for name in names]
        return pd.DataFrame(values, names, ["value", "±"])

    @cached_property
    def archive(self) -> AttentionArchive:
        """The attention of every sentence."""
        return AttentionArchive(self.path)

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows: the scores."""
        return f"<p>{html.escape(str(self.path))}</p>{self.scores.round(2).to_html(notebook=True)}"
