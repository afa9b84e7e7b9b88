"""A finished run, ready to translate: config, tokenizer, and the model, in float32 whatever its precision was."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from ..config import RunConfig
from ..config.run import load_trained_run
from ..decoding.build import build_search, build_translator
from ..decoding.translator import Translator
from ..errors import InputError
from ..files.run_directory import RunDirectory
from ..inspection.experiments.activations import Pair, patch_activations, read_activations
from ..inspection.experiments.score_parts import ScoreParts, copy_weights, in_float64, split_score
from ..inspection.recorder import AttentionRecorder
from ..model.build import build_model
from ..runtime.devices import parallel_batches
from ..runtime.graphs import GraphCache
from ..runtime.import_tensorflow import refuse_after_fork
from ..text.corpora.held_out import with_held_out_files
from ..text.corpora.provenance import check_same_settings, origin_of
from ..text.lines import moses
from ..text.lines.line import beyond_tag
from ..text.lines.sentences import SentenceSplitter
from ..text.lines.style import TextStyle
from ..text.lines.typed_line import Normalizer, TypedText
from ..text.phrases.banned import BannedPhrases
from ..text.phrases.token_text import TokenText
from ..text.tokens.run_tokenizer import load_tokenizer
from ..text.tokens.special_tokens import BOS, EOS
from ..text.tokens.tokenizer import Tokenizer
from ..text.tokens.words import BETWEEN_SPACES, WordSegmenter, WordUnits
from ..training.checkpoints import Checkpoints, load_checkpoint
from .manifest import check_digests, check_golden
from .weights import check_weights_file, load_weights

SentenceOrPair = str | tuple[str, str]
"""A source, whose translation is searched and then read; or a source and the target that is read."""


class Inside(NamedTuple):
    """The values that a model computes while it reads a sentence pair.

    - source_tokens: with EOS at the end, S of them.
    - target_input_tokens: with BOS at the beginning, T of them; row t of every array is computed from token t.
    - target_output_tokens: the tokens that are predicted, T of them.
    - log_probabilities: of these, in nats, `(T,)`.
    - logits: `(T, V)`.
    - arrays: the values by name, see docs/learn/inside.md.
    """

    source_tokens: list[str]
    target_input_tokens: list[str]
    target_output_tokens: list[str]
    log_probabilities: np.ndarray
    logits: np.ndarray
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class TrainedRun:
    """The parts of a run that evaluation and translation need.

    Args:
        directory: the folder of the run.
        config: its settings.
        tokenizer: its tokenizer.
        model: its model.
        weights: the file that the model's weights are from.
        banned: the phrases that no translation contains, or None.
        graphs: the graphs that were used last, shared with the runs of `with_config`.
    """

    directory: RunDirectory
    config: RunConfig
    tokenizer: Tokenizer
    model: keras.Model
    weights: Path
    banned: BannedPhrases | None = None
    graphs: GraphCache = field(default_factory=GraphCache, repr=False)

    def __reduce__(self) -> Any:
        # A pickle of the folder's path would come back with other weights than a model that was changed in memory.
        raise InputError(
            f"{self.directory.root}: a loaded run cannot be pickled or deep-copied; load it again where it is needed: "
            f"qkv.load({str(self.directory.root)!r})"
        )

    def with_config(self, config: RunConfig) -> "TrainedRun":
        """Returns the run with other settings of decoding; sets that it has held out are read from its files."""
        config = with_held_out_files(config, self.directory)
        return replace(self, config=config, tokenizer=self.tokenizer.with_tag(config.decoding.tag))

    @cached_property
    def translator(self) -> Translator:
        """The translator with the search of the config."""
        search = build_search(self.config.decoding, self.config.run.seed, self.banned)
        return build_translator(
            self.model, self.tokenizer, self.config, search, self.target_tokens, self._read, self.graphs
        )

    @cached_property
    def target_tokens(self) -> TokenText:
        """The text that each token of the target language adds."""
        return self.banned.tokens if self.banned else TokenText(self.tokenizer, self.config.data.tokenized)

    @cached_property
    def styles(self) -> dict[str, TextStyle | None]:
        """The style of the training text by side, `source` and `target`; None for an imported run."""
        paths = {"source": self.directory.source_look, "target": self.directory.target_look}
        return {side: TextStyle.read(path) for side, path in paths.items()}

    @cached_property
    def normalizer(self) -> Callable[[str], str] | None:
        """The function that `data.normalize` applies to a source line, see `make_normalizer`."""
        return self.make_normalizer()

    def make_normalizer(self, side: str = "source", *, divides: bool = True) -> Callable[[str], str] | None:
        """Returns what `data.normalize` does to a line that a person has written, behind its tag; None for nothing.
        Invisible characters that the model does not read are left out first, as in `Tokenizer.as_read`.

        Args:
            side: `source` or `target`, the language of the line.
            divides: whether words may be divided; if not, the words of a line keep their numbers.
        """
        data = self.config.data
        settings = data.normalize
        style = self.styles[side]
        language = data.source_language if side == "source" else data.target_language
        if settings is None or style is None:
            return None
        divide = None
        if settings.moses and divides:
            divide = partial(moses.tokenize, language=language, escaped=style.escaped)
        tokenizer = self.tokenizer if side == "source" else self.tokenizer.of_target
        clean = tokenizer.as_read if divides else tokenizer.without_format_characters
        normalize = beyond_tag(Normalizer(style, settings.lowercase, divide), self.tokenizer.tags)
        return lambda line: normalize(clean(line))

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
            self.styles[side],
            self.make_normalizer(side, divides=divides) if normalizes else None,
            self.config.model.max_positions - 1,
            name,
        )

    @cached_property
    def splitter(self) -> SentenceSplitter:
        """The divider of source lines into sentences; an `InputError` if its library is not installed."""
        data = self.config.data
        between = " " if data.words.target == "spaces" else ""
        return SentenceSplitter(data.source_language, self.tokenizer.tags, between)

    def readable(self, text: str) -> str:
        """Returns a source text of one or more lines without the invisible characters that are left out, of which it
        warns; it can be divided into sentences then.

        Raises:
            InputError: a line is no text.
        """
        return "\n".join(self.given_sentences["source"].readable(text.split("\n")))

    def _read(self, sentences: Sequence[str], side: str) -> list[list[int]]:
        return self.given_sentences[side].read(sentences)[1]

    @cached_property
    def given_sentences(self) -> dict[str, TypedText]:
        """The readers of sentences from Python, by the side that they are of."""
        return {side: self.typed_text("sentence", side) for side in ("source", "target")}

    def detokenize(self, text: str) -> str:
        """Turns a translation into plain text that begins with a capital."""
        data = self.config.data
        if not data.tokenized:
            return text[:1].upper() + text[1:]
        return moses.detokenize(text, data.target_language)

    @cached_property
    def cutter(self) -> WordSegmenter:
        """The cutter of text into words, as the config says."""
        data = self.config.data
        count_tokens = self.tokenizer.count_tokens, self.tokenizer.of_target.count_tokens
        tags = self.tokenizer.tags
        return WordSegmenter(data.words.source, data.words.target, data.tokenized, count_tokens, tags=tags)

    def recorder(self, sites: Sequence[str], units: WordUnits = BETWEEN_SPACES) -> AttentionRecorder:
        """Returns a recorder of the attention of those sites, the same one whenever sites and units are the same."""
        refuse_after_fork()
        different_sites = tuple(dict.fromkeys(sites))
        max_positions = self.config.model.max_positions

        def make_recorder() -> AttentionRecorder:
            return AttentionRecorder(
                self.model,
                self.tokenizer,
                sites=different_sites,
                max_positions=max_positions,
                threads=parallel_batches(),
                units=units,
            )

        return self.graphs.get((self.model, self.tokenizer, max_positions, different_sites, units), make_recorder)

    def cache(self, sentences: Sequence[SentenceOrPair], names: Sequence[str] = ("*",)) -> list[Inside]:
        """Returns scores, weights, queries, keys, values, each head's part of the output, the residual stream (of a
        recurrent model the states) and the logits, by name, while each sentence is read.

        Args:
            sentences: sources, whose translations are searched and then read; or pairs of source and target.
            names: which values, such as `decoder.0.cross.scores` or `*.residual`; see
                docs/learn/inside.md.

        Raises:
            InputError: a name fits nothing, such as scores of a mechanism that does not score each pair.
        """
        is_one = isinstance(sentences, str) or (isinstance(sentences, tuple) and _is_pair(sentences))
        is_table = isinstance(sentences, Mapping) or hasattr(sentences, "columns")
        if is_one or is_table or not isinstance(sentences, Iterable) or isinstance(sentences, bytes):
            hint = ": put it in [ ]" if is_one else ""
            raise InputError(f"sentences: expected a list of sentences or pairs, found {sentences!r:.60}{hint}")
        names = _list_names(names)
        found = []
        for sentence in sentences:
            pair, predicted = self.read_ids(sentence)
            arrays, logits = read_activations(self.model, pair, names)
            found.append(self._inside(pair, predicted, logits, arrays))
        return found

    def patch(self, clean: SentenceOrPair, corrupted: SentenceOrPair, names: Sequence[str]) -> Inside:
        """Reads a sentence with the named values of another one in the place of its own.

        Args:
            clean: the sentence that they are taken from.
            corrupted: the sentence that is read, with as many tokens on the sides that are named.
            names: which values, see `cache`.

        Raises:
            InputError: as for `cache`, or a value has another shape in the other sentence.
        """
        names = _list_names(names)
        given, _ = self.read_ids(clean)
        pair, predicted = self.read_ids(corrupted)
        return self._inside(pair, predicted, patch_activations(self.model, given, pair, names), {})

    def explain_score(self, sentence: SentenceOrPair, layer: str, *, head: int, row: int) -> ScoreParts:
        """Splits scores of a row into what query and key take from token, position and each sublayer; norms are fixed.

        Args:
            sentence: see `cache`.
            layer: such as `decoder.0.cross`.
            head: its number.
            row: the query's position; in the decoder, row t predicts output token t.

        Raises:
            InputError: another architecture, mechanism or score, or there is no such layer, head or row.
        """
        if not isinstance(layer, str):
            raise InputError(f"layer: expected text such as 'decoder.0.cross', found {layer!r:.60}")
        pair, predicted = self.read_ids(sentence)
        parts = split_score(self.float64_model, pair, layer, head, row)
        name = self.tokenizer.pieces
        return replace(
            parts,
            query=name([int(parts.query)])[0],
            predicted=name([predicted[row]])[0] if layer.startswith("decoder") else "",
            keys=name([int(key) for key in parts.keys]),
        )

    @property
    def float64_model(self) -> keras.Model:
        """A copy of the model, with its present weights, that computes in float64.

        See `inspection.experiments.score_parts.in_float64`.
        """
        copy = self.graphs.get((self.model, "float64"), lambda: in_float64(self.model))
        copy_weights(self.model, copy)
        return copy

    def read_ids(self, sentence: SentenceOrPair) -> tuple[Pair, list[int]]:
        """Returns the source ids and, from BOS on, the target ids that the model reads, and those that it predicts.

        Raises:
            InputError: it is neither text nor a pair of texts.
        """
        if not (isinstance(sentence, str) or _is_pair(sentence)):
            raise InputError(f"sentence: expected text, or a pair (source, target) of texts, found {sentence!r:.60}")
        refuse_after_fork()
        translator = self.translator
        if isinstance(sentence, str):
            translation = translator.translate([sentence])[0]
            source, target = list(translation.source_ids), list(translation.ids)
        else:
            longest = translator.max_positions
            source = translator.encode([sentence[0]])[0][: longest - 1]
            target = [*translator.encode([sentence[1]], "target")[0], EOS][:longest]
        return ([*source, EOS], [BOS, *target[:-1]]), target

    def _inside(self, pair: Pair, predicted: list[int], logits: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Inside:
        largest = logits.max(axis=-1, keepdims=True)
        log_probabilities = logits - largest - np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True))
        pieces = self.translator.tokenizer.pieces
        return Inside(
            pieces(pair[0]),
            pieces(pair[1]),
            pieces(predicted),
            log_probabilities[np.arange(len(predicted)), predicted],
            logits,
            arrays,
        )


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(text, str) for text in value)


def _list_names(names: Any) -> list[str]:
    """Lists the names of values inside a model; raises an `InputError` if they are something else."""
    is_text = isinstance(names, str)
    listed = list(names) if isinstance(names, Iterable) and not is_text else [names]
    if is_text or not all(isinstance(name, str) for name in listed):
        hint = ": put it in [ ]" if is_text else ""
        raise InputError(f"names: expected a list of names such as 'decoder.0.cross.scores', found {names!r:.60}{hint}")
    return listed


def load_run(root: Path, checkpoint: str = "best", tuned: bool = True) -> TrainedRun:
    """Loads a run: builds the model from its config, and reads only the weights from its files.

    Args:
        root: the run's folder.
        checkpoint: `best`, or `last` for the newest checkpoint. Both work while training goes on.
        tuned: whether what `evaluate.py --tune` has chosen counts.

    Raises:
        InputError: the folder is no run, has no weights yet, or its files do not fit together; or as
            `refuse_after_fork`.
    """
    refuse_after_fork()
    run = RunDirectory.open(root)
    run.check_weights(checkpoint)
    config = with_held_out_files(load_trained_run(run, tuned), run)
    tokenizer = load_tokenizer(run.tokenizer).with_tag(config.decoding.tag)
    checkpoints = Checkpoints(run.checkpoints)
    # Without a manifest, training has not come to its end, and the model may be from a shorter one.
    unfinished = not run.is_trained() and checkpoints.best.is_file()
    best = checkpoints.best if unfinished or not run.model.is_file() else run.model
    weights = checkpoints.last() if checkpoint == "last" else best
    check_weights_file(weights, config.model.least_parameters(tokenizer.vocabulary_size))
    if run.is_trained():
        check_digests(run, "tokenizer", *(("model",) if weights == run.model else ()))
    model = build_model(config.model, tokenizer.vocabulary_size)
    if weights == run.model:
        load_weights(model, weights)
        check_golden(run, model, tokenizer.vocabulary_size)
    else:
        check_same_settings(config, run, "model.")
        load_checkpoint(weights, model, origin=origin_of(run, config.run.seed))
    return TrainedRun(run, config, tokenizer, model, weights)
