"""A finished run, ready to translate: config, tokenizer, and the model, in float32 whatever its precision was."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import keras
import numpy as np

from ..config import RunConfig
from ..config.run import load_started_run
from ..decoding.build import build_search, build_translator
from ..decoding.translator import Translator
from ..errors import DAMAGE, InputError
from ..files.run_directory import RunDirectory
from ..inspection.recorder import AttentionRecorder
from ..model.build import build_model
from ..runtime.devices import parallel_batches
from ..text import europarl_words, moses
from ..text.banned import BannedPhrases
from ..text.corpus import read_corpus
from ..text.given_tokenizer import load_tokenizer
from ..text.look import TextLook, measure_look
from ..text.provenance import check_settings, origin_of
from ..text.sets import with_held_out_files
from ..text.tagged_text import beyond_tag
from ..text.token_text import TokenText
from ..text.tokenizer import Tokenizer
from ..text.typed_text import Normalizer, TypedText
from ..text.words import BETWEEN_SPACES, WordCutter, WordUnits
from ..training.checkpoint import load_checkpoint
from ..training.checkpoint_folder import Checkpoints
from .explained_scores import ExplainedScores
from .inside_text import Inside, Sentence, cache, patch
from .manifest import check_digests, check_golden
from .weights_file import check_weights_file, extracted_weights


@dataclass(frozen=True)
class TrainedRun(ExplainedScores):
    """The parts of a run that evaluation and translation need; `weights` is the file that the model's are from, and
    `banned` what no translation contains, if anything."""

    directory: RunDirectory
    config: RunConfig
    tokenizer: Tokenizer
    model: keras.Model
    weights: Path
    banned: BannedPhrases | None = None

    def with_config(self, config: RunConfig) -> "TrainedRun":
        """Returns the run with other settings of decoding; sets that it has held out are read from its files."""
        config = with_held_out_files(config, self.directory)
        return replace(self, config=config, tokenizer=self.tokenizer.with_tag(config.decoding.tag))

    @cached_property
    def translator(self) -> Translator:
        """The translator with the search of the config. It is made once, since its graph takes seconds to trace."""
        search = build_search(self.config.decoding, self.config.run.seed, self.banned)
        return build_translator(self.model, self.tokenizer, self.config, search, self.target_tokens, self._read)

    @cached_property
    def target_tokens(self) -> TokenText:
        """What the tokens of the target language add to a text."""
        return self.banned.tokens if self.banned else TokenText(self.tokenizer, self.config.data.tokenized)

    @cached_property
    def source_look(self) -> TextLook | None:
        """What the source side of the training text looks like; None for a run of a version that did not measure it,
        unless typed text is to be normalised and the training text is still there."""
        return self._look("source", self.directory.source_look)

    @cached_property
    def target_look(self) -> TextLook | None:
        """What the target side of the training text looks like, see `source_look`."""
        return self._look("target", self.directory.target_look)

    def _look(self, side: str, path: Path) -> TextLook | None:
        look, data = TextLook.read(path), self.config.data
        if look is None and data.normalize is not None:
            try:
                return measure_look(getattr(read_corpus(data.training_text), side), data.tokenized)
            except InputError:
                return None
        return look

    @cached_property
    def normalizer(self) -> Callable[[str], str] | None:
        """What `data.normalize` does to a source line, see `make_normalizer`."""
        return self.make_normalizer()

    def make_normalizer(self, side: str = "source", *, divides: bool = True) -> Callable[[str], str] | None:
        """Returns what `data.normalize` does to a line that a person has written, but for a tag that it begins with;
        None where it does nothing.

        Args:
            side: `source` or `target`, the language of the line.
            divides: whether words may be divided; if not, the words of a line keep their numbers.
        """
        data = self.config.data
        settings, look = data.normalize, self.source_look if side == "source" else self.target_look
        language = data.source_language if side == "source" else data.target_language
        if settings is None or look is None:
            return None
        divide = None
        if settings.moses and divides:
            divide = partial(moses.tokenize, language=language, escaped=look.escaped)
        elif settings.europarl and divides and language in europarl_words.PATTERNS:
            divide = partial(europarl_words.tokenize, language=language)
        return beyond_tag(Normalizer(look, settings.lowercase, divide), self.tokenizer.tags)

    def typed_text(
        self, name: str, side: str = "source", *, normalizes: bool = True, divides: bool = True
    ) -> TypedText:
        """Returns the reader of text that a person has written.

        Args:
            name: what messages call the text, such as the path of its file.
            side: `source` or `target`, its language.
            normalizes: whether `data.normalize` acts on it.
            divides: see `make_normalizer`.
        """
        return TypedText(
            self.tokenizer if side == "source" else self.tokenizer.of_target,
            self.source_look if side == "source" else self.target_look,
            self.make_normalizer(side, divides=divides) if normalizes else None,
            self.config.model.max_positions - 1,
            name,
        )

    def _read(self, sentences: Sequence[str], side: str) -> list[list[int]]:
        return self._given_sentences[side].read(sentences)[1]

    @cached_property
    def _given_sentences(self) -> dict[str, TypedText]:
        return {side: self.typed_text("sentence", side) for side in ("source", "target")}

    def detokenize(self, text: str) -> str:
        """Turns a translation into plain text that begins with a capital."""
        data = self.config.data
        if not data.tokenized:
            return text[:1].upper() + text[1:]
        if data.normalize is not None and data.normalize.europarl:
            text = europarl_words.join(text, data.target_language)
        return moses.detokenize(text, data.target_language)

    @cached_property
    def cutter(self) -> WordCutter:
        """What cuts text into words, as the config says."""
        data = self.config.data
        count_tokens = self.tokenizer.count_tokens, self.tokenizer.of_target.count_tokens
        tags = self.tokenizer.tags
        return WordCutter(data.words.source, data.words.target, data.tokenized, count_tokens, tags=tags)

    def recorder(self, sites: Sequence[str], units: WordUnits = BETWEEN_SPACES) -> AttentionRecorder:
        """Returns a recorder of the attention of those sites, the same one whenever sites and units are the same."""
        key = tuple(dict.fromkeys(sites)), units
        if key not in self._recorders:
            self._recorders[key] = AttentionRecorder(
                self.model,
                self.tokenizer,
                sites=key[0],
                max_positions=self.config.model.max_positions,
                workers=parallel_batches(),
                units=units,
            )
        return self._recorders[key]

    def cache(self, sentences: Sequence[Sentence], names: Sequence[str] = ("*",)) -> list[Inside]:
        """Returns scores, weights, queries, keys, values, each head's part of the output, the residual stream (of a
        recurrent model the states) and the logits, by name, while each sentence is read.

        Args:
            sentences: sources, whose translations are searched and then read; or pairs of source and target.
            names: which values, such as `decoder.0.cross.scores` or `*.residual`; see
                pipeline/qkv/inspection/INSIDE.md.

        Raises:
            InputError: a name fits nothing, such as scores of a mechanism that does not score each pair.
        """
        return cache(self.model, self.translator, sentences, names)

    def patch(self, clean: Sentence, corrupted: Sentence, names: Sequence[str]) -> Inside:
        """Reads a sentence with the named values of another one in the place of its own.

        Args:
            clean: the sentence that they are taken from.
            corrupted: the sentence that is read, with as many tokens on the sides that are named.
            names: which values, see `cache`.

        Raises:
            InputError: as for `cache`, or a value has another shape in the other sentence.
        """
        return patch(self.model, self.translator, clean, corrupted, names)

    @cached_property
    def _recorders(self) -> dict[tuple[tuple[str, ...], WordUnits], AttentionRecorder]:
        return {}


def load_run(root: Path, checkpoint: str = "best") -> TrainedRun:
    """Loads a run: builds the model from its config, and reads only the weights from its files.

    Args:
        root: the run's folder.
        checkpoint: `best`, or `last` for the newest checkpoint. Both work while training goes on.

    Raises:
        InputError: the folder is no run, has no weights yet, or its files do not fit together.
    """
    run = RunDirectory.open(root)
    run.check_weights(checkpoint)
    config = with_held_out_files(load_started_run(run.config), run)
    tokenizer = load_tokenizer(run.tokenizer).with_tag(config.decoding.tag)
    checkpoints = Checkpoints(run.checkpoints)
    # Without a manifest, training has not come to its end, and the model may be that of a shorter one.
    unfinished = not run.is_trained() and checkpoints.best.is_file()
    best = checkpoints.best if unfinished or not run.model.is_file() else run.model
    weights = checkpoints.last() if checkpoint == "last" else best
    check_weights_file(weights, config.model.least_parameters(tokenizer.vocabulary_size))
    if run.is_trained():
        check_digests(run, "tokenizer", *(("model",) if weights == run.model else ()))
    model = build_model(config.model, tokenizer.vocabulary_size)
    if weights == run.model:
        _load_weights(model, weights)
        check_golden(run, model, tokenizer.vocabulary_size)
    else:
        check_settings(config, run, "model.")
        load_checkpoint(weights, model, origin=origin_of(run, config.run.seed))
    return TrainedRun(run, config, tokenizer, model, weights)


def _load_weights(model: keras.Model, path: Path) -> None:
    try:
        with extracted_weights(path) as weights:
            model.load_weights(weights)
    except DAMAGE as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path}: the weights do not fit the run's config, or the file is damaged: {reason}; "
            "restore the file, or train anew"
        ) from None
    for variable in model.variables:
        if not np.isfinite(keras.ops.convert_to_numpy(variable)).all():
            raise InputError(f"{path}: {variable.path} has numbers that are not finite; restore it, or train anew")
