"""The Python interface to runs: loads, trains and imports runs, which translate, align, evaluate and export."""

import gc
import io
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import chain, compress, repeat
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TextIO, overload
from weakref import ref

from .config.choices.inspection import SYMMETRISATIONS
from .config.choices.translation import MARKUPS, Markup
from .config.run import dotted_settings, with_decoding, with_decoding_values
from .errors import InputError, did_you_mean, quoted
from .exchange.export import BEAM, ExportRequest, write_export
from .files.atomic import new_folder
from .files.paths import as_path, check_path, check_text
from .files.run_directory import find_run
from .results import Evaluation, Translated, TranslatedText
from .run import train as train_run
from .run.start import check_config_paths, load_given_training, load_training, load_training_on_pairs, refuse_imported
from .runtime.import_tensorflow import importing_tensorflow, refuse_after_fork
from .runtime.streams import Control
from .text.corpora.word_links import Link
from .text.lines.line import is_missing, is_series, list_sentences

if TYPE_CHECKING:
    import keras
    import numpy as np
    import pandas as pd

    from .alignment.linking import Linking
    from .alignment.readout import AlignmentReadout
    from .decoding.translator import Translation
    from .inspection.experiments.activations import Inside, Pair, SentenceOrPair
    from .inspection.experiments.score_parts import ScoreParts
    from .inspection.viewer.page import InlinePage
    from .markup.translation import MarkedTranslations
    from .run.trained_run import TrainedRun

    Sentences = Sequence[str] | np.ndarray | pd.Series  # several sentences; a str, also a sequence, is one sentence

SETS = ("test", "validation")
"""The sets of a config that `Run.evaluate` evaluates, the default first."""
MOST_VARIANTS = 8
"""The number of settings of decoding for which a `Run` keeps reader and translator."""
MOST_DRAWS = 1000
"""The number of settings of decoding, seed included, for which a `Run` continues the draws of earlier calls."""


def load(path: str | Path, checkpoint: str = "best") -> "Run":
    """Loads a run.

    Args:
        path: the folder of the run, such as `runs/demo`. `demo` is a run that is in the package, unless there is a path
            of this name.
        checkpoint: `best` for the weights that were best on validation, `last` for the newest weights. Both can be
            loaded during training.

    Raises:
        InputError: the folder is not a run, has no weights yet, or its files do not fit together; or the process was
            forked after TensorFlow had computed.
    """
    path = as_path(path, "path", "the folder of a run, such as 'runs/demo'")
    if checkpoint not in ("best", "last"):
        raise InputError(f"checkpoint: expected best or last, found {checkpoint!r:.60}")
    with importing_tensorflow():
        from .run.trained_run import load_run
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TensorFlow warns if a graph is traced for other shapes
    _free_models()
    return _new_run(load_run(path, checkpoint))


def _new_run(trained: "TrainedRun") -> "Run":
    """Returns a run of parts that were just loaded or made, and lists it in `_loaded`."""
    run = Run(trained)
    _loaded.append((ref(run), ref(run.model)))
    return run


_loaded: "list[tuple[ref[Run], ref[Any]]]" = []
"""The loaded runs and their models, without keeping them in memory."""


def _free_models() -> None:
    """Frees the models of runs that are not used any more.

    A model is a reference cycle. Python alone may collect it only after many loads.
    """
    if any(run() is None and model() is not None for run, model in _loaded):
        gc.collect()
    _loaded[:] = [(run, model) for run, model in _loaded if model() is not None]


def train(
    config: str | Path | Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    *,
    pairs: Any = None,
    verbose: int = 1,
    callbacks: "Sequence[keras.callbacks.Callback] | None" = None,
) -> "Run":
    """Trains a new run, as `train.py` does, and loads it. The same call continues a run that was interrupted.

    Args:
        config: a config file, such as `configs/demo.yaml`; the folder of a run to continue; or a dictionary with the
            settings of a config file, nested or by dotted key. With `pairs` it needs only the two languages, such as
            `{"data.source_language": "en", "data.target_language": "de"}`: the size of the model follows the number of
            pairs, and training ends after 5 minutes. Without `run.name` the run is then named en_de.
        settings: values that replace those of the file, by dotted key, such as `{"model.d_model": 64}`, or nested as in
            the file, such as `{"model": {"d_model": 64}}`. All other settings of a section are kept.
        pairs: the sentence pairs to train on, or None for the files that the config names. They are a DataFrame; a
            list, an array or an iterator of `(source, target)`; a tuple of columns, `(sources, targets)`; or a
            `datasets.Dataset`. A third value or column has word links, text such as `0-0 1-2` or a list of `(i, j)`.

            The columns of a table are chosen by `data.train.source_column` and `target_column`. By default, they are
            those with the codes of the languages as names, or `source` and `target`, or the first two.

            The files that the config names are not read. Validation and test sets are held out from the pairs, unless
            `settings` have `data.validation` and `data.test`. The run keeps the pairs, so `qkv.train(run.path)`
            continues it.
        verbose: 0 shows only warnings; 1 also shows progress and advice.
        callbacks: further `keras.callbacks.Callback` objects, or None. `qkv.training.loop` lists the arguments of their
            methods, and docs/use/keras.md the callbacks of Keras that can be used.

    Raises:
        InputError: a setting is wrong, the text cannot be read, a run of this name has other settings, the training
            loop cannot call a callback, or another training runs in this process.
        KeyboardInterrupt: the user interrupted the training. The message tells whether the same call continues it.
        LostWorkerError: another worker of the same training has ended, hangs, or has not started.
    """
    changes = {} if settings is None else dotted_settings(settings)
    if not isinstance(verbose, int):
        raise InputError(f"verbose: expected 0 or 1, found {verbose!r:.60}")
    is_file_or_run = not isinstance(config, Mapping)
    expected = "the path of a config file, the folder of a run, or a dictionary of settings"
    start: Any = find_run(as_path(config, "config", expected)) if is_file_or_run else dotted_settings(config, "config")
    with ExitStack() as stack:
        spooled = None
        if pairs is not None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="qkv-pairs-")))
            values, resumed, spooled = load_training_on_pairs(start, changes, pairs, folder)
        elif is_file_or_run:
            values, resumed = load_training(start, changes, "settings", resumes=start.is_dir())
        else:
            values, resumed = load_given_training({**start, **changes})
        refuse_imported(values, start if is_file_or_run else "config")
        if resumed is None:
            check_config_paths(values, spooled)
        run = resumed or values.run.directory / str(values.run.name)
        if not _training.acquire(blocking=False):
            raise InputError(
                f"{run}: another training runs in this process, and both would share random numbers and settings of "
                "TensorFlow; wait for its end, or train in another process"
            )
        try:
            with _progress_stream(verbose) as stream:
                interrupted = bool(train_run(values, resumed, callbacks, stream, spooled))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            _training.release()
    if interrupted:  # raised here, so that its traceback is short
        outcome = "the same call continues it" if run.exists() else "nothing is saved, since no checkpoint was written"
        raise KeyboardInterrupt(f"{run}: training was interrupted; {outcome}")
    return load(run)


def import_marian(
    folder: str | Path, path: str | Path, *, source_language: str | None = None, target_language: str | None = None
) -> "Run":
    """Makes a run of a Marian or OPUS-MT model, as `qkv import_marian` does, and loads it.

    Args:
        folder: the folder that `save_pretrained` of a MarianMTModel and its tokenizer has written.
        path: the folder of the run, which must not exist yet.
        source_language: the code of the source language; by default that of the tokenizer.
        target_language: the code of the target language; by default that of the tokenizer.

    Raises:
        InputError: the folder is damaged or has another kind of model; or the run exists already.
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
def _progress_stream(verbose: int) -> Iterator[TextIO]:
    """Yields the stream for the progress of a training, which a notebook cell or standard output shows.

    Until the block ends, the log messages of the package are written to the same stream.

    Args:
        verbose: 0 for a stream that nobody sees, without the log messages.
    """
    shell = sys.modules["IPython"].get_ipython() if sys.modules.get("IPython") else None
    if not verbose:
        yield io.StringIO()
        return
    stream = _CellOutput() if getattr(shell, "kernel", None) else sys.stdout
    log = logging.getLogger("qkv")
    handler = logging.StreamHandler(stream)
    level_before = log.level
    propagate_before = log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(handler)
    try:
        yield stream
    finally:
        log.removeHandler(handler)
        log.level = level_before
        log.propagate = propagate_before


class _CellOutput(io.StringIO):
    """The output of a notebook cell. Its last line can be rewritten, as on a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self._display = sys.modules["IPython"].display.display({"text/plain": ""}, raw=True, display_id=True)

    def isatty(self) -> bool:
        """Returns True, so that progress is shown on one line, as on a terminal."""
        return True

    def write(self, text: str) -> int:
        """Adds a text to the output, or erases the last line if it is a `Control`. Returns the length of the text."""
        self._text = self._text[: self._text.rfind("\n") + 1] if isinstance(text, Control) else self._text + text
        return len(text)

    def flush(self) -> None:
        """Shows the output in the cell."""
        self._display.update({"text/plain": self._text}, raw=True)


class Run:
    """A trained run. `qkv.load`, `qkv.train`, `qkv.import_marian` and `from_model` return one.

    Args:
        trained: the parts of the run.

    Attributes:
        trained: the parts of the run, a `run.trained_run.TrainedRun`, for work that no method of this class does.
        path: the folder of the run.
        config: the settings of the run.
        model: the Keras model of the run.
    """

    def __init__(self, trained: "TrainedRun") -> None:
        from .runtime.graphs import LastUsed  # not at the top: it imports TensorFlow

        self.trained = trained
        self.path = trained.directory.root
        self.config = trained.config
        self.model: Any = trained.model
        self._variants = LastUsed(MOST_VARIANTS)
        self._draws = LastUsed(MOST_DRAWS)
        self._linkings: dict[str | None, tuple[str, AlignmentReadout, Linking]] = {}

    @classmethod
    def from_model(cls, model: "keras.Model", tokenizer: Any, config: Any = None) -> "Run":
        """Makes a run of a model that was trained without `train.py`, for example by `fit`.

        The run translates, aligns and evaluates as others do. It is in memory: `save` writes its folder. Until then its
        `path` is a temporary folder, which is deleted when the process ends.

        Args:
            model: a trained `Transformer`, `Recurrent` or `DecoderOnly`, or a subclass.
            tokenizer: the tokenizer of the training text: `qkv.batches`, a `Run` or the folder of one; or a tokenizer,
                as the text of batches has one; or the path of a SentencePiece model of source and target together, with
                the ids 0 for padding, 1 for unknown text, 2 for BOS and 3 for EOS.
            config: the settings: a config file, a dictionary as in `qkv.train`, or the config of a run. By default
                those of the batches or of the run. At least the languages are needed:
                `{"data": {"source_language": "en", "target_language": "fr"}}`. The section `model` is derived from the
                model; if the config has it, it is checked.

        Raises:
            InputError: an argument is of another kind, a setting is wrong, or model, tokenizer and config do not fit
                together.
        """
        refuse_after_fork()
        with importing_tensorflow():
            from .run.saving import run_of_model

        if isinstance(tokenizer, str | PathLike):
            tokenizer = as_path(tokenizer, "tokenizer", "the folder of a run, or a SentencePiece model")
            check_path(tokenizer)
        elif isinstance(tokenizer, Run):
            tokenizer = tokenizer.trained
        if isinstance(config, str | PathLike):
            config = as_path(config, "config", "the path of a config file, or settings")
        elif isinstance(config, Run):
            config = config.config
        return _new_run(run_of_model(model, tokenizer, config))

    def with_model(self, model: "keras.Model") -> "Run":
        """Returns a run in memory with the config, the tokenizer and the text of this run, and another model.

        Args:
            model: a built model that the section `model` of the run's config describes. For a model of other sizes, see
                `from_model`.

        Raises:
            InputError: the model does not fit the config or the vocabulary.
        """
        from .run.saving import with_model

        refuse_after_fork()
        return _new_run(with_model(self.trained, model))

    def save(self, path: str | Path, dtype: Literal["float32", "float16"] = "float32") -> "Run":
        """Writes the folder of a new run with the present weights of `model`, and loads it.

        Every command takes the folder. No training can continue it; a new one can start from it, by
        `training.start_from`. LoRA matrices are added to the weights. `manifest.json` tells the origin of the weights.

        Args:
            path: the folder, which must not exist yet. It appears whole or not at all.
            dtype: the type of the weights in the file, `float32` or `float16`, which has half the size and rounds them
                to 11 bits. Every command computes in float32.

        Returns:
            The run of the folder. This run stays as it is.

        Raises:
            InputError: `dtype` is neither, or a weight is too large for float16; the folder exists or cannot be
                written; the config does not describe the model, as after its layers were replaced; or the class of the
                model is not one that commands can load.
        """
        from .run.saving import save_run

        refuse_after_fork()
        path = as_path(path, "path", "the folder of the run to write")
        check_path(path / "manifest.json")
        return _new_run(save_run(self.trained, path, dtype))

    @property
    def history(self) -> "pd.DataFrame":
        """A table with a row for each validation of the training: losses and scores. Empty for an imported run."""
        import pandas as pd

        file = self.trained.directory.history
        return pd.read_csv(file) if file.is_file() else pd.DataFrame()

    def __repr__(self) -> str:
        """Returns folder, languages, architecture and number of parameters."""
        data = self.config.data
        languages = f"{data.source_language} to {data.target_language}"
        model = f"{type(self.model).__name__} of {self.model.count_params():,} parameters"
        return f"<Run {self.trained.directory.argument}: {languages}, {model}>"

    @overload
    def translate(
        self,
        sentences: "pd.Series[Any]",
        *,
        n_best: int | None = None,
        split: bool = False,
        markup: Markup | None = None,
        **decoding: Any,
    ) -> "pd.Series[Any]": ...
    @overload
    def translate(
        self,
        sentences: str,
        *,
        n_best: None = None,
        split: Literal[False] = False,
        markup: Markup | None = None,
        **decoding: Any,
    ) -> "Translated": ...
    @overload
    def translate(
        self,
        sentences: "Sentences",
        *,
        n_best: None = None,
        split: Literal[False] = False,
        markup: Markup | None = None,
        **decoding: Any,
    ) -> "list[Translated]": ...
    @overload
    def translate(
        self,
        sentences: str,
        *,
        n_best: int,
        split: Literal[False] = False,
        markup: Markup | None = None,
        **decoding: Any,
    ) -> "list[Translated]": ...
    @overload
    def translate(
        self,
        sentences: "Sentences",
        *,
        n_best: int,
        split: Literal[False] = False,
        markup: Markup | None = None,
        **decoding: Any,
    ) -> "list[list[Translated]]": ...
    @overload
    def translate(
        self,
        sentences: str,
        *,
        n_best: None = None,
        split: Literal[True],
        markup: Markup | None = None,
        **decoding: Any,
    ) -> "TranslatedText": ...
    @overload
    def translate(
        self,
        sentences: "Sentences",
        *,
        n_best: None = None,
        split: Literal[True],
        markup: Markup | None = None,
        **decoding: Any,
    ) -> "list[TranslatedText]": ...
    def translate(
        self,
        sentences: Any,
        *,
        n_best: int | None = None,
        split: bool = False,
        markup: Markup | None = None,
        **decoding: Any,
    ) -> Any:
        """Translates one sentence, or a list of them.

        The first call of a search takes some seconds, because its graph is traced. The run keeps the 8 graphs that were
        used last. Searches that differ only in seed, temperature, `top_p`, penalties or `min_length` share a graph.

        Args:
            sentences: a sentence; or several in a list, an array or a pandas Series. `data.normalize` of the run is
                applied to them. A Series may have missing values.
            n_best: the number of translations of each sentence, the best first; None for the best translation alone.
            split: if True, each element is a text of several sentences, which are translated one by one. It needs
                sentencex, and excludes `n_best`.
            markup: `html`, `placeholders` or `html-page` if the texts have markup, see docs/use/markup.md; None for
                plain text. The `text` of the results then has the markup, and is detokenised. A page, an HTML document
                of several lines, is always split, if sentencex is installed.
            decoding: settings of the section `decoding` that replace those of the run, such as `beam_size=1`. With
                `search="sampling"` also `seed`, the seed of the draws. Calls with equal settings continue the draws of
                earlier calls. The run remembers this for the last 1,000 choices of settings.

        Returns:
            For a sentence, a `Translated`; with `n_best` a list of `Translated`, and with `split`, or for a page, a
            `TranslatedText`.
            For several sentences, a list with such a result for each. For a Series, a Series of the same index and
            name; a missing value stays as it is, and `.astype("string")` makes text of the other results.

        Raises:
            InputError: there is no such setting, a value is wrong, a sentence has several lines or is not text, both
                `n_best` and `split` are set, sentencex is not installed, the model gives NaN, no translation meets
                all constraints of the settings, or there is markup and the model has no cross-attention.
        """
        if is_series(sentences):
            has_text = [not is_missing(sentence) for sentence in sentences]
            filled = [sentence if present else "" for sentence, present in zip(sentences, has_text, strict=True)]
            texts: Any = list(compress(list_sentences(filled, "sentences"), has_text))
            translated = iter(self.translate(texts, n_best=n_best, split=split, markup=markup, **decoding))
            pairs = zip(sentences, has_text, strict=True)
            values = [next(translated) if present else missing for missing, present in pairs]
            return type(sentences)(values, sentences.index, object, sentences.name)
        if n_best is not None and (split or markup == "html-page"):
            given = "split" if split else "markup='html-page'"
            raise InputError(f"n_best: a text is joined from the best translations; leave out n_best or {given}")
        if markup is not None:
            run = self._with(decoding if n_best is None else {**decoding, "n_best": n_best})
            marked = _translate_with_markup(run, list_sentences(sentences, "sentences"), markup, split)
            bests = [result[0] if isinstance(result, list) and n_best is None else result for result in marked]
            return bests[0] if isinstance(sentences, str) else bests
        if split:
            joined_texts = []
            run = self._with(decoding)
            for text in list_sentences(sentences, "sentences"):
                paragraph = run.reader.split(text)
                translations = self.translate(paragraph.sentences, **decoding)
                joined = paragraph.join([translation.text for translation in translations])
                joined_texts.append(TranslatedText(translations, joined))
            return joined_texts[0] if isinstance(sentences, str) else joined_texts
        run = self._with(decoding if n_best is None else {**decoding, "n_best": n_best})
        sources, ids = run.reader.read(list_sentences(sentences, "sentences"))
        n_bests = _with_ratings(run, sources, ids, run.translator.translate_ids(ids))
        results = [translations[0] for translations in n_bests] if n_best is None else n_bests
        return results[0] if isinstance(sentences, str) else results

    def show(
        self,
        sentences: str | Sequence[str],
        target: str | Sequence[str] | None = None,
        *,
        height: int = 900,
        **decoding: Any,
    ) -> "InlinePage":
        """Shows the attention on one sentence, or a list of them, in the viewer's page, which a notebook displays.

        The page needs no network. It shows cross-attention and the sites in `inspection.attention` of the config.

        Args:
            sentences: a sentence, or several sentences, see `translate`. Each sentence adds to the page's size.
            target: the translation of the sentence, or a list of translations, which the model is forced to read. None
                to show the model's own translations.
            height: the height of the page in the notebook, in pixels.
            decoding: see `translate`.

        Returns:
            An `InlinePage`; its `save` writes an HTML file.

        Raises:
            InputError: as for `translate`; or there are no sentences, the numbers of sentences and targets differ, or
                `height` is not a whole number above 0.
        """
        from .evaluation.page import page_facts
        from .inspection.recorder import pair_translations
        from .inspection.viewer.data import ViewerRun
        from .inspection.viewer.page import inline_page

        if not isinstance(height, int) or isinstance(height, bool) or height < 1:
            raise InputError(f"height: expected a number of pixels above 0, found {quoted(height)}")
        run = self._with(decoding)
        sources, ids = run.reader.read(list_sentences(sentences, "sentences"))
        if not sources:
            raise InputError("sentences: expected at least one, found none")
        sites = ["cross", *run.config.inspection.attention]
        if target is None:
            translations = [n_best[0] for n_best in run.translator.translate_ids(ids)]
            units = run.reader.segmenter.units(sources, [translation.text for translation in translations])
            pairs = pair_translations(sources, None, translations, run.config.decoding.kind)
            records = run.recorder(sites, units).record(pairs)
        else:
            targets = _list_targets(sentences, sources, target, "target")
            targets, _ = run.reader.read(targets, "target")
            units = run.reader.segmenter.units(sources, targets)
            forced = run.recorder(sites, units).record_references(sources, targets)
            records = (replace(record, reference=None) for record in forced)
        name = self.path.absolute().name
        shown = ViewerRun(
            name,
            plain=run.reader.detokenize if run.config.data.tokenized else None,
            facts=page_facts(run.config, self.model.count_params(), {}),
        )
        return inline_page(name, shown.add_all(records), height)

    @overload  # a str is also a sequence of str, but here it is one sentence
    def align(  # type: ignore[overload-overlap]
        self, sources: str, targets: str, *, at: str | None = None
    ) -> dict[Link, float]: ...
    @overload
    def align(
        self, sources: "Sentences", targets: "Sentences", *, at: str | None = None
    ) -> list[dict[Link, float]]: ...
    def align(self, sources: "str | Sentences", targets: "str | Sentences", *, at: str | None = None) -> Any:
        """Links the words of sentences and their translations by the attention of the run.

        Args:
            sources: a sentence, or several sentences, see `translate`.
            targets: the translation of each sentence.
            at: the readout from which links are extracted, as `LAYER,HEAD,SIDE[,LINKS[,SITE]]`, such as
                `"1,mean,output"`. By default, the readout with the lowest error on the gold alignments in the config
                of the run; without gold alignments, the guided head; without one, the last layer.

        Returns:
            For each pair, a dict from the links `(source word, target word)`, counted from 0, to their probabilities.
            The probabilities are calibrated on the gold alignments in the config. They are NaN if the config has none
            or too few.

        Raises:
            InputError: the run has no such layer or head, or no cross-attention; or the numbers of sources and targets
                differ.
        """
        from .alignment.aligned_text import AlignedText
        from .alignment.aligner import choose_readouts, link_calibration
        from .alignment.linking import Direction, Linking, link_pairs
        from .alignment.readout_selection import find_readout
        from .run.trained_run import digest_weights

        refuse_after_fork()
        _check_name(at, "at", "text such as '1,mean,output'")
        listed = list_sentences(sources, "sources")
        text = AlignedText(listed, _list_targets(sources, listed, targets, "targets"))
        weights = digest_weights(self.model)  # the choice and the probabilities are those of these weights
        chosen_for, readout, linking = self._linkings.get(at, (None, None, None))
        if chosen_for != weights:
            readout = linking = None
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
            self._linkings[at] = weights, directions[0].readout, linking
        results = [
            links if isinstance(links, dict) else dict.fromkeys(sorted(links), math.nan)
            for links in link_pairs(directions, linking, subwords=False)
        ]
        return results[0] if isinstance(sources, str) else results

    def evaluate(
        self,
        set_name: str | None = None,
        *,
        source: str | Path | Sequence[str] | None = None,
        reference: str | Path | Sequence[str] | None = None,
        alignments: str | Path | Sequence[Any] | None = None,
        first_index: int = 0,
        name: str | None = None,
        **decoding: Any,
    ) -> "Evaluation":
        """Translates and scores a set, and writes scores and attention into the run, as `evaluate.py` does.

        Args:
            set_name: a set of the config, `test` or `validation`; by default `test`, unless there is a `source`.
            source: a text file with a sentence on each line, which is evaluated instead of a set of the config; or the
                sentences themselves, in a list, an array or a pandas Series.
            reference: the text file with the translations of `source`, or the translations themselves.
            alignments: the file of gold alignments between `source` and `reference`, in Pharaoh format; or for each
                pair its links, text in this format or a list of `(i, j)`.
            first_index: the number of the first word in `alignments`, 0 or 1.
            name: the name of the results' folder in `evaluations`; by default `set_name`, or the name of the
                file `source`, or `memory` for sentences. Results of the same name are replaced.
            decoding: see `translate`.

        Returns:
            The evaluation, as it was written.

        Raises:
            InputError: there is no such set, a file cannot be read or does not fit the others, a sentence is missing,
                is not text or has several lines, the name cannot be a folder, or a setting of decoding is wrong.
        """
        from .evaluation.evaluate_set import evaluate_set
        from .evaluation.request import IN_MEMORY, EvaluationRequest, read_configured_set, read_own_set
        from .metrics.bleu import check_bleu_tokenizer

        texts = [_text_argument(text, key) for key, text in (("source", source), ("reference", reference))]
        links = _links_argument(alignments)
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
        for text in (*texts, links):
            if isinstance(text, Path):
                check_text(text)
        if name is None:
            name = set_name or (texts[0].name if isinstance(texts[0], Path) else IN_MEMORY)
        if problem := self.trained.directory.evaluation_name_problem(name):
            raise InputError(f"name: {problem}")
        self.trained.directory.check_results()
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

        The folder has a model card, `README.md`: languages, training text, scores, use and limits.

        Args:
            format: `saved_model`, `ctranslate2`, `marian` or `argos`.
            folder: the folder to write, which must not exist yet.
            quantization: with `ctranslate2` and `argos`, the number format of the weights; by default `float32`.
            at: with `saved_model`, the readout of its function `align`; see `align`.

        Returns:
            The folder.

        Raises:
            InputError: there is no such format, the format does not support a setting of the run or needs a package
                that is not installed, or the folder exists already.
        """
        refuse_after_fork()
        if not isinstance(format, str):
            raise InputError(f"format: expected the name of a format, such as 'saved_model', found {format!r:.60}")
        written = as_path(folder, "folder", "the folder to write")
        _check_name(at, "at", "text such as '1,mean,output'")
        request = ExportRequest(format, quantization, at)
        check_path(written / "manifest.json")
        config = with_decoding(self.config, BEAM)
        request.check(config, self.path, written)
        with new_folder(written, "writes this folder") as temporary:
            write_export(self.trained.with_config(config), temporary, request)
        return written

    @overload  # a tuple of two texts is a pair, and a list of them two sources
    def cache(  # type: ignore[overload-overlap]
        self, sentences: "SentenceOrPair", names: str | Sequence[str] = "*"
    ) -> "Inside": ...
    @overload
    def cache(self, sentences: "Sequence[SentenceOrPair]", names: str | Sequence[str] = "*") -> "list[Inside]": ...
    def cache(self, sentences: Any, names: str | Sequence[str] = "*") -> Any:
        """Reads a sentence, or a list of them, and returns values that the model computes, by name.

        The values are scores, weights, queries, keys, values, each head's part of the output, the residual stream (in a
        recurrent model the states) and the logits.

        Args:
            sentences: a source, whose translation is searched and then read; a pair `(source, target)`; or a list of
                sources and pairs.
            names: a name or glob of values, or a list of them, such as `decoder.0.cross.scores` or `*.residual`; see
                docs/learn/inside.md.

        Returns:
            For a sentence, an `Inside`: `source_tokens`, `target_input_tokens`, `target_output_tokens`,
            `log_probabilities`, `logits` and `arrays`, the values by name. For a list, a list of them.

        Raises:
            InputError: an argument has another type, or a name or glob matches no value, such as the scores of a
                mechanism that does not score each pair.
        """
        from .inspection.experiments.activations import cache_sentences

        return cache_sentences(self.trained.translator, sentences, names)

    def patch(self, clean: "SentenceOrPair", corrupted: "SentenceOrPair", names: str | Sequence[str]) -> "Inside":
        """Reads a sentence with some values of another sentence (activation patching).

        Args:
            clean: the sentence that the values are taken from.
            corrupted: the sentence that is read. The sides that are patched have as many tokens as in `clean`.
            names: a name or glob of values, or a list of them, see `cache`.

        Returns:
            An `Inside` of the corrupted sentence, without arrays.

        Raises:
            InputError: as for `cache`, or a value has another shape in the corrupted sentence.
        """
        from .inspection.experiments.activations import patch_sentence

        return patch_sentence(self.trained.translator, clean, corrupted, names)

    def explain(self, sentence: "SentenceOrPair", layer: str, *, head: int, row: int) -> "ScoreParts":
        """Explains why one row of one head attends where it does, by splitting its scores into parts.

        A score is a sum over pairs of a part of the query and a part of the key. The parts come from the token, its
        position and each sublayer below. The scales of normalisations are fixed.

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

    def explain_logit(self, sentence: "SentenceOrPair", *, row: int) -> "pd.DataFrame":
        """Explains why the model gives one output token its logit, by splitting the logit into parts.

        The parts come from the token just read, its position, biases, each sublayer of the decoder, and each source
        token that a head of cross-attention reads. The scales of normalisations are fixed.

        Args:
            sentence: a source or a pair, see `cache`.
            row: the position of the output token, from 0.

        Returns:
            A table with a row for each part and the columns `part`, `layer`, `head`, `source`, `logit` and
            `difference`, see docs/learn/why.md. The sum of `logit` is the logit of the token.

        Raises:
            InputError: the model is not a Transformer, or there is no such row.
        """
        from .inspection.experiments.activations import check_index
        from .inspection.experiments.logit_parts import split_logit

        pair, predicted = self.read_ids(sentence)
        check_index("row", row, len(predicted))
        return split_logit(self.float64_model, pair, row, predicted[row])

    def weights(self) -> "pd.DataFrame":
        """Measures the matrices of every attention head.

        Returns:
            A table with a row for each head: its site, layer and index, its sizes, and the norms of its matrices; see
            docs/use/python.md for the columns. It is empty if the model has no attention.
        """
        from .inspection.experiments.head_weights import head_weights

        return head_weights(self.model)

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
        """A copy of the model with its present weights. It computes in float64, except for the softmax."""
        from .inspection.experiments.score_parts import shared_float64

        return shared_float64(self.model, self.trained.graphs)

    def _with(self, decoding: Mapping[str, Any]) -> "TrainedRun":
        """Returns the run with other settings of decoding.

        The runs of the last settings are remembered, so that equal settings give the same object and its graphs.

        Args:
            decoding: settings of the section `decoding`, and `seed`.

        Raises:
            InputError: there is no such setting, a value is wrong, or the process was forked after TensorFlow had
                computed.
        """
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


def _rate(run: "TrainedRun", source_ids: Sequence[list[int]]) -> list[float]:
    """Returns the confidence of the best translation of each sentence, which is given as ids."""
    from .evaluation.confidence import rate

    return rate(run, source_ids)


def _list_targets(sources: Any, listed: list[str], targets: Any, name: str) -> list[str]:
    """Returns the targets of sentences as a list.

    Args:
        sources: the sources as the user has given them.
        listed: the same as a list.
        targets: the targets as the user has given them.
        name: the name of the argument, for the message.

    Raises:
        InputError: the targets are not sentences, their number is not that of the sources, or only one of both is a
            list.
    """
    texts = list_sentences(targets, name)
    if len(texts) != len(listed) or isinstance(sources, str) != isinstance(targets, str):
        raise InputError(
            f"{name}: expected one for each of {len(listed)} sources, found {len(texts)}; give two sentences, or two "
            "lists of them"
        )
    return texts


def _translate_with_markup(
    run: "TrainedRun", texts: Sequence[str], markup: str, split: bool
) -> Sequence[list[Translated] | TranslatedText]:
    """Translates texts with markup, see `Run.translate`.

    Returns:
        For each text the n-best list of its translations; a `TranslatedText` if it is split, or is a page.

    Raises:
        InputError: see `Run.translate`.
    """
    from .markup.translation import read_marked_lines, translate_page, translate_window

    if markup not in MARKUPS:
        raise InputError(f"markup: expected one of {', '.join(MARKUPS)}, or None, found {quoted(markup)}")
    if not run.config.model.has_cross_attention:
        raise InputError(f"markup: the model of {run.directory.root} has no cross-attention; leave it out")
    if markup == "html-page":
        pages = [translate_page(run, text, f"page {number}") for number, text in enumerate(texts, 1)]
        return [TranslatedText(_best_of_sentences(run, marked), text) for text, marked in pages]
    reader = run.reader.typed_text("sentence", splits=True) if split else run.reader.sentences["source"]
    marked = translate_window(run, read_marked_lines(run, reader, markup, texts, range(1, len(texts) + 1)))
    if split:
        sentences = iter(_best_of_sentences(run, marked))
        return [
            TranslatedText([next(sentences) for _ in paragraph.sentences], lines[0])
            for paragraph, lines in zip(marked.read.paragraphs, marked.texts, strict=True)
        ]
    n_bests = [
        [replace(translation, text=line) for translation, line in zip(n_best, lines, strict=True)]
        for n_best, lines in zip(marked.n_bests, marked.texts, strict=True)
    ]
    return _with_ratings(run, marked.read.texts, marked.read.ids, n_bests)


def _best_of_sentences(run: "TrainedRun", marked: "MarkedTranslations") -> list[Translated]:
    """Returns the best translation of each sentence, without markup."""
    n_bests = [n_best[:1] for n_best in marked.n_bests]
    return [best for (best,) in _with_ratings(run, marked.read.texts, marked.read.ids, n_bests)]


def _with_ratings(
    run: "TrainedRun", sources: Sequence[str], ids: "list[list[int]]", n_bests: "Sequence[Sequence[Translation]]"
) -> list[list[Translated]]:
    """Returns the n-best lists of sentences. The best translation of each sentence has a confidence.

    Args:
        run: the run.
        sources: the sentences as the model has read them.
        ids: their token ids.
        n_bests: the n-best list of each sentence.
    """
    rate_all = cache(partial(_rate, run, ids))  # once for all sentences, when a confidence is asked for
    rated = []
    for number, (source, n_best) in enumerate(zip(sources, n_bests, strict=True)):
        ratings = chain([lambda number=number: rate_all()[number]], repeat(None))
        rated.append([Translated._of(source, *pair) for pair in zip(n_best, repeat(run), ratings, strict=False)])
    return rated


def _text_argument(text: Any, name: str) -> Path | list[str] | None:
    """Returns text that is evaluated: the path of its file, its sentences, or None.

    Args:
        text: the argument.
        name: the name of the argument, for the message.

    Raises:
        InputError: the argument is neither a path nor an ordered container of sentences, or it is empty.
    """
    if text is None:
        return None
    if isinstance(text, str | PathLike) or not isinstance(text, Iterable):
        return as_path(text, name, "the path of a text file with one sentence a line, or a list of sentences")
    sentences = list_sentences(text, name)
    if not sentences:
        raise InputError(f"{name}: expected at least one sentence, found none")
    return sentences


def _links_argument(links: Any) -> Path | list[Any] | None:
    """Returns gold alignments: the path of their file, the links of each pair, or None.

    Raises an `InputError` if the argument is neither a path nor a container of links.
    """
    if links is None:
        return None
    if isinstance(links, str | PathLike) or not isinstance(links, Iterable):
        return as_path(links, "alignments", "the path of a file of word links, or a list of the links of each pair")
    return list(links)


def _check_name(text: Any, name: str, expected: str) -> None:
    """Raises an `InputError` unless an argument is text or None.

    Args:
        text: the argument.
        name: the name of the argument, for the message.
        expected: a description of the expected value, for the message.
    """
    if not isinstance(text, str | None):
        raise InputError(f"{name}: expected {expected}, found {text!r:.60}")
