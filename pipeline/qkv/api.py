"""Runs from Python: loaded or trained, they translate, align, evaluate and export, as the commands do."""

import gc
import html
import io
import logging
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TextIO, overload
from weakref import ref

from .config.choices.inspection import SYMMETRISATIONS
from .config.run import dotted_settings, with_decoding, with_decoding_values
from .errors import InputError, did_you_mean
from .exchange.export import BEAM, ExportRequest, write_export
from .files.atomic import new_folder
from .files.paths import as_path, check_path, check_text
from .inspection.archive import AttentionArchive
from .inspection.record import Record
from .run import train as train_run
from .run.start import check_config_paths, load_training, refuse_imported
from .runtime.import_tensorflow import importing_tensorflow, refuse_after_fork
from .runtime.streams import Control
from .text.corpora.word_links import Link
from .text.lines.line import list_sentences

if TYPE_CHECKING:
    import keras
    import pandas as pd

    from .alignment.linking import Linking
    from .alignment.readout import AlignmentReadout
    from .decoding.translator import Translation
    from .inspection.experiments.activations import Inside, Pair, SentenceOrPair
    from .inspection.experiments.score_parts import ScoreParts
    from .run.trained_run import TrainedRun

SETS = ("test", "validation")
MOST_VARIANTS = 8
"""The settings of decoding whose readers and translators a `Run` keeps."""
MOST_DRAWS = 1000
"""The settings of decoding, seeds among them, whose draws a `Run` goes on with."""


def load(path: str | Path, checkpoint: str = "best") -> "Run":
    """Loads a run.

    Args:
        path: its folder, such as `runs/demo`.
        checkpoint: `best` for the weights that were best on validation, `last` for the newest; also during training.

    Raises:
        InputError: the folder is no run, has no weights yet, or its files do not fit together; or the process was
            forked after TensorFlow had computed.
    """
    path = as_path(path, "path", "the folder of a run, such as 'runs/demo'")
    if checkpoint not in ("best", "last"):
        raise InputError(f"checkpoint: expected best or last, found {checkpoint!r:.60}")
    with importing_tensorflow():
        from .run.trained_run import load_run
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # it warns of graphs that are traced for other shapes
    _free_models()
    run = Run(load_run(path, checkpoint))
    _loaded.append((ref(run), ref(run.model)))
    return run


_loaded: "list[tuple[ref[Run], ref[Any]]]" = []


def _free_models() -> None:
    """Frees the models of runs that are gone: a model is a cycle, and Python may look for those after many loads."""
    if any(run() is None and model() is not None for run, model in _loaded):
        gc.collect()
    _loaded[:] = [(run, model) for run, model in _loaded if model() is not None]


def train(
    config: str | Path,
    settings: Mapping[str, Any] | None = None,
    *,
    verbose: int = 1,
    callbacks: "Sequence[keras.callbacks.Callback] | None" = None,
) -> "Run":
    """Trains a new run, as `train.py` does. The same call continues a run that was interrupted.

    Args:
        config: a config file, such as `configs/demo.yaml`, or the folder of a run to continue.
        settings: values that replace the file's, by dotted key, such as `{"model.d_model": 64}`, or nested as in the
            file, such as `{"model": {"d_model": 64}}`. All other settings of a section stay as they are.
        verbose: 0 shows no progress and no advice, only warnings.
        callbacks: further `keras.callbacks.Callback` objects, or None; `qkv.training.loop` says what they are given,
            and the table in docs/use/keras.md which of Keras' own are taken.

    Raises:
        InputError: a setting is wrong, the text cannot be read, a run of this name has other settings, a callback
            cannot be called here, or another thread trains.
        KeyboardInterrupt: the training was interrupted; its last line says whether the same call continues it.
    """
    path = as_path(config, "config", "the path of a config file, or the folder of a run")
    changes = {} if settings is None else dotted_settings(settings)
    if not isinstance(verbose, int):
        raise InputError(f"verbose: expected 0 or 1, found {verbose!r:.60}")
    values, resumed = load_training(path, changes, "settings", resumes=path.is_dir())
    refuse_imported(values, path)
    if resumed is None:
        check_config_paths(values)
    run = resumed or values.run.directory / str(values.run.name)
    if not _training.acquire(blocking=False):
        raise InputError(
            f"{run}: another training runs in this process, and both would share random numbers and settings of "
            "TensorFlow; wait for its end, or train in a process of its own"
        )
    try:
        with _shown(verbose) as stream:
            interrupted = bool(train_run(values, resumed, callbacks, stream))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        _training.release()
    if interrupted:  # raised here, so that its traceback is short
        saved = "the same call continues it" if run.exists() else "nothing is saved, since no checkpoint was written"
        raise KeyboardInterrupt(f"{run}: training was interrupted; {saved}")
    return load(run)


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
    folder = as_path(folder, "folder", "the folder of a Marian model")
    path = as_path(path, "path", "the folder of the run to make")
    _check_name(source_language, "source_language", "the code of a language, such as 'en'")
    _check_name(target_language, "target_language", "the code of a language, such as 'en'")
    with importing_tensorflow():
        from .exchange import marian_import

    languages = {"source": source_language or "", "target": target_language or ""}
    marian_import.import_marian(folder, path, languages)
    return load(path)


_training = Lock()


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
        from .runtime.graphs import LastUsed  # not at the top: it imports TensorFlow

        self.trained = trained
        self.path = trained.directory.root
        self.config = trained.config
        self.model: Any = trained.model
        self._variants = LastUsed(MOST_VARIANTS)
        self._draws = LastUsed(MOST_DRAWS)
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
        """Translates one sentence, or a list of them.

        A search that is new to the run takes some seconds, because its graph is traced. The run keeps the 8 graphs
        that were used last. Searches that differ in seed, temperature, `top_p`, penalties or `min_length` share one.

        Args:
            sentences: a sentence, or several in a list, an array or a pandas Series without missing values;
                `data.normalize` of the run acts on them.
            n_best: how many translations of each sentence are returned, the best first; by default only the best.
            split: whether each is a text of sentences, which are translated one by one; needs sentencex.
            decoding: settings of the config's section `decoding` in the place of the run's, such as `beam_size=1`; with
                `search="sampling"` also the `seed` of the draws, which go on from call to call for the last 1,000
                choices of settings.

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
            run = self._with(decoding)
            for text in list_sentences(sentences, "sentences"):
                paragraph = run.reader.split(text)
                translations = self.translate(paragraph.sentences, **decoding)
                joined = paragraph.join([translation.text for translation in translations])
                texts.append(TranslatedText(translations, joined))
            return texts[0] if isinstance(sentences, str) else texts
        run = self._with(decoding if n_best is None else {**decoding, "n_best": n_best})
        sources, ids = run.reader.read(list_sentences(sentences, "sentences"))
        n_bests = []
        for source, translations in zip(sources, run.translator.translate_ids(ids), strict=True):
            n_bests.append([Translated._of(source, translation, run) for translation in translations])
        results = [translations[0] for translations in n_bests] if n_best is None else n_bests
        return results[0] if isinstance(sentences, str) else results

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
            sources: a sentence, or several, see `translate`.
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
        from .alignment.linking import Direction, Linking, iterate_links
        from .alignment.readout_selection import find_readout

        refuse_after_fork()
        _check_name(at, "at", "text such as '1,mean,output'")
        text = AlignedText(list_sentences(sources, "sources"), list_sentences(targets, "targets"))
        if len(text.source) != len(text.target) or isinstance(sources, str) != isinstance(targets, str):
            raise InputError(
                f"targets: expected one for each of {len(text.source)} sources, found {len(text.target)}; give two "
                "sentences, or two lists of them"
            )
        readout, linking = self._linkings.get(at, (None, None))
        readout = readout or find_readout(self.trained, at)
        directions = choose_readouts([Direction(self.trained, text, readout, normalizes=True)])
        for side, lines in (("source", text.source), ("target", text.target)):
            self.trained.reader.read(lines, side)  # warns if they are unlike the training text
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
            for links in iterate_links(directions, linking, subwords=False)
        ]
        return found[0] if isinstance(sources, str) else found

    def evaluate(
        self,
        set_name: str | None = None,
        *,
        source: str | Path | None = None,
        reference: str | Path | None = None,
        alignments: str | Path | None = None,
        first_index: int = 0,
        name: str | None = None,
        **decoding: Any,
    ) -> "Evaluation":
        """Translates and scores a set, and writes scores and attention into the run, as `evaluate.py` does.

        Args:
            set_name: `test`, the default, or `validation`: a set of the run's config.
            source: a file of sentences of your own instead, one a line.
            reference: the file of their translations.
            alignments: the file of gold alignments between `source` and `reference`, in Pharaoh format.
            first_index: the number of the first word in that file, 0 or 1.
            name: of the results' folder in `evaluations`; by default the set, or the name of the source file.
            decoding: see `translate`.

        Raises:
            InputError: there is no such set, a file cannot be read, or as for `translate`.
        """
        from .evaluation.evaluate_set import evaluate_set
        from .evaluation.request import EvaluationRequest, read_configured_set, read_own_set
        from .metrics.bleu import check_bleu_tokenizer

        given = {"source": source, "reference": reference}
        a_file = "the path of a text file with one sentence a line (translate takes the sentences themselves)"
        texts = [None if path is None else as_path(path, key, a_file) for key, path in given.items()]
        links = None if alignments is None else as_path(alignments, "alignments", "the path of a file of word links")
        if links is not None and reference is None:
            raise InputError("alignments: needs source and reference, whose words it links")
        if first_index not in (0, 1):
            raise InputError(f"first_index: expected 0 or 1, found {first_index!r:.60}")
        _check_name(set_name, "set_name", f"{' or '.join(SETS)} (text of your own is given as source=)")
        _check_name(name, "name", "the name of a folder")
        if source is None:
            set_name = SETS[0] if set_name is None else set_name
            if set_name not in SETS or reference is not None:
                wrong = "reference: needs source, the text that it belongs to" if reference is not None else ""
                hint = f"{did_you_mean(set_name, SETS)}; give text of your own as source="
                raise InputError(wrong or f"set_name: expected {' or '.join(SETS)}, found {set_name!r:.60}{hint}")
        elif set_name is not None:
            raise InputError(f"set_name: expected no name of a set beside source, found {set_name!r:.60}")
        for path in filter(None, (*texts, links)):
            check_text(path)
        if name is None:
            name = set_name or Path(source or "").name
        if problem := self.trained.directory.evaluation_name_problem(name):
            raise InputError(f"name: {problem}")
        run = self._with(decoding)
        check_bleu_tokenizer(run.config.data.scoring_tokenizer)
        if texts[0] is None:
            data = read_configured_set(run, name, str(set_name))
        else:
            data = read_own_set(run, name, texts[0], texts[1], links, first_index)
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
        refuse_after_fork()
        if not isinstance(format, str):
            raise InputError(f"format: expected the name of a format, such as 'saved_model', found {format!r:.60}")
        written = as_path(folder, "folder", "the folder to write")
        _check_name(at, "at", "text such as '1,mean,output'")
        wishes = ExportRequest(format, quantization, at)
        check_path(written / "manifest.json")
        config = with_decoding(self.config, BEAM)
        wishes.check(config, self.path, written)
        with new_folder(written, "writes this folder") as temporary:
            write_export(self.trained.with_config(config), temporary, wishes)
        return written

    def cache(self, sentences: "Sequence[SentenceOrPair]", names: Sequence[str] = ("*",)) -> "list[Inside]":
        """Reads sentences and returns values that the model computes, by name.

        The values are scores, weights, queries, keys, values, each head's part of the output, the residual stream (in a
        recurrent model the states) and the logits.

        Args:
            sentences: sources, whose translations are searched and then read; or pairs of source and target.
            names: the names or globs of the values, such as `decoder.0.cross.scores` or `*.residual`; see
                docs/learn/inside.md.

        Returns:
            An `Inside` for each sentence: `source_tokens`, `target_input_tokens`, `target_output_tokens`,
            `log_probabilities`, `logits` and `arrays`, the values by name.

        Raises:
            InputError: an argument has another type, or a name or glob matches no value, such as the scores of a
                mechanism that does not score each pair.
        """
        from .inspection.experiments.activations import cache_sentences

        return cache_sentences(self.trained.translator, sentences, names)

    def patch(self, clean: "SentenceOrPair", corrupted: "SentenceOrPair", names: Sequence[str]) -> "Inside":
        """Reads a sentence with some values of another sentence (activation patching).

        Args:
            clean: the sentence that the values are taken from.
            corrupted: the sentence that is read. The sides that are patched have as many tokens as in `clean`.
            names: the names or globs of the values, see `cache`.

        Returns:
            An `Inside` of the corrupted sentence, without arrays.

        Raises:
            InputError: as for `cache`, or a value has another shape in the corrupted sentence.
        """
        from .inspection.experiments.activations import patch_sentence

        return patch_sentence(self.trained.translator, clean, corrupted, names)

    def explain_score(self, sentence: "SentenceOrPair", layer: str, *, head: int, row: int) -> "ScoreParts":
        """Splits the scores of one row of one head into parts of the query and the key.

        The parts come from the token, its position and each sublayer below; the scales of normalisations are fixed.

        Args:
            sentence: a source or a pair, see `cache`.
            layer: the name of the attention layer, such as `decoder.0.cross`.
            head: the index of the head.
            row: the position of the query. In the decoder, row t predicts output token t.

        Returns:
            A `ScoreParts`, see docs/learn/why.md.

        Raises:
            InputError: the model is not a Transformer, its score is not a product, or there is no such layer, head or
                row.
        """
        from .inspection.experiments.score_parts import explain_score

        return explain_score(self.trained.translator, sentence, layer, head=head, row=row)

    def read_ids(self, sentence: "SentenceOrPair") -> "tuple[Pair, list[int]]":
        """Returns the ids of a sentence and its translation.

        Args:
            sentence: a source or a pair, see `cache`.

        Returns:
            `((source, target), predicted)`: the source ids up to EOS, the target ids from BOS on, and the ids that the
            model predicts, up to EOS.

        Raises:
            InputError: the sentence is neither text nor a pair of texts, or it has several lines.
        """
        from .inspection.experiments.activations import read_ids

        return read_ids(self.trained.translator, sentence)

    @property
    def float64_model(self) -> Any:
        """A copy of the model, with its present weights, that computes in float64 except for the softmax."""
        from .inspection.experiments.score_parts import shared_float64

        return shared_float64(self.model, self.trained.graphs)

    def _with(self, decoding: Mapping[str, Any]) -> "TrainedRun":
        """Returns the run with other settings of decoding, the same one for the same settings."""
        refuse_after_fork()
        if not decoding:
            return self.trained
        config = with_decoding_values(self.config, decoding)
        settings = repr((config.decoding, config.run.seed))
        run = self._variants.get(settings, lambda: self.trained.with_config(config))
        if config.decoding.kind == "sampling":
            from .decoding.translator import Draws

            run.translator.draws = self._draws.get(settings, Draws)
        return run


def _check_name(text: Any, name: str, expected: str) -> None:
    """Raises an `InputError` unless an argument is text or None."""
    if not isinstance(text, str | None):
        raise InputError(f"{name}: expected {expected}, found {text!r:.60}")


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
            first asked for; see its `to_frame` and `to_numpy`. A pickle holds it only if it was read before, since
            reading it needs the run; afterwards an `InputError` says so.
    """

    source: str
    text: str
    tokens: list[str]
    log_probabilities: list[float]
    log_probability: float
    score: float
    truncated: bool

    @classmethod
    def _of(cls, source: str, found: "Translation", run: "TrainedRun") -> "Translated":
        tokens, each = run.tokenizer.pieces(found.ids), found.log_probabilities
        translated = cls(source, found.text, tokens, each, sum(each), found.score, found.truncated)
        vars(translated)["_origin"] = _Origin(found, run)  # not a field, which `dataclasses.asdict` would copy
        return translated

    @cached_property
    def _origin(self) -> "_Origin":
        return _Origin()  # made by hand, or by `dataclasses.replace`

    @cached_property
    def attention(self) -> Record:
        from .inspection.recorder import pair_translations

        run = self._origin.run
        if run is None:
            raise InputError(
                "attention: this translation has no run to read it with, since it comes from a pickle or was made by "
                "hand; ask for it before pickling, or translate the sentence again"
            )
        pairs = pair_translations([self.source], None, [self._origin.translation], run.config.decoding.kind)
        return next(run.recorder(["cross", *run.config.inspection.attention]).record(pairs))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Translated {self.text!r}, log-probability {self.log_probability:.3f}>"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows: the translation, and below it `Record`'s heat map."""
        title = f"<b>{html.escape(self.text)}</b> (log-probability {self.log_probability:.2f})"
        if "attention" not in vars(self) and self._origin.run is None:
            return f"<p>{title}</p>"
        return f'<p>{title}</p><div style="overflow-x: auto">{self.attention._repr_html_()}</div>'


class _Origin:
    """The search that found a translation, and its run. A pickle leaves both out, and a deep copy shares them."""

    def __init__(self, translation: Any = None, run: "TrainedRun | None" = None) -> None:
        self.translation, self.run = translation, run

    def __reduce__(self) -> Any:
        return _Origin, ()

    def __deepcopy__(self, memo: Any) -> "_Origin":
        return self


@dataclass(frozen=True, eq=False, repr=False)
class TranslatedText:
    """A translation of a text, sentence by sentence.

    Attributes:
        sentences: the translations of its sentences, and of its empty lines.
        text: these as one text, with the spaces and line feeds of the source between them; spaces at the ends of its
            lines are left out.
    """

    sentences: list[Translated]
    text: str

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
