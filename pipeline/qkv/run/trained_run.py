"""A finished run, ready to translate: config, tokenizer and model.

The model computes in float32, whatever the precision of its training was.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import keras

from ..config import RunConfig
from ..config.run import load_trained_run
from ..decoding import generate as generate  # the searches of `model.generate`
from ..decoding.build import build_search, build_translator
from ..decoding.translator import Translator
from ..errors import InputError
from ..files.paths import sha256
from ..files.run_directory import RunDirectory
from ..inspection.recorder import AttentionRecorder
from ..model.build import build_model
from ..runtime.devices import parallel_batches
from ..runtime.graphs import GraphCache
from ..runtime.import_tensorflow import refuse_after_fork
from ..text.corpora.held_out import with_held_out_files
from ..text.corpora.provenance import check_same_settings, origin_of
from ..text.phrases.banned import BannedPhrases
from ..text.phrases.token_text import TokenText
from ..text.text_reader import TextReader
from ..text.tokens.run_tokenizer import load_tokenizer
from ..text.tokens.tokenizer import Tokenizer
from ..text.tokens.words import BETWEEN_SPACES, WordUnits
from ..training.checkpoints import Checkpoints, load_checkpoint
from .manifest import check_digests, check_golden
from .weights import check_weights_file, load_weights


@dataclass(frozen=True, repr=False)
class TrainedRun:
    """The parts of a finished run. It makes the reader of text, the translator and the recorder of the run.

    Args:
        directory: the folder of the run.
        config: the settings of the run.
        tokenizer: the tokenizer of the run.
        model: the model of the run.
        weights: the file from which the weights of the model were read.
        banned: the phrases that no translation may contain; None if there are none.
        graphs: the cache of graphs, which the runs of `with_config` share.
        digest: the digest of the weights that were read from the file; None if the model was read from no file.
        origin: the origin of a model that was read from no file, for `manifest.json`; see `run.saving`.
    """

    directory: RunDirectory
    config: RunConfig
    tokenizer: Tokenizer
    model: keras.Model
    weights: Path
    banned: BannedPhrases | None = None
    graphs: GraphCache = field(default_factory=GraphCache)
    digest: str | None = None
    origin: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """Returns folder, architecture, weights and tokenizer."""
        model = f"{type(self.model).__name__} with {self.weights.name}"
        return f"<TrainedRun {self.directory.argument}: {model}, {self.tokenizer!r}>"

    def __reduce__(self) -> Any:
        # A pickle of the folder's path would be loaded with other weights than a model that was changed in memory.
        path = self.directory.argument
        raise InputError(
            f"{path}: a loaded run cannot be pickled or deep-copied; load it again where it is needed: "
            f"qkv.load({str(path)!r})"
        )

    def with_config(self, config: RunConfig) -> "TrainedRun":
        """Returns the run with other settings, such as those of decoding. It has the same model and weights.

        Args:
            config: the settings. Validation and test sets that the run has held out replace those of the config.

        Raises:
            InputError: the vocabulary has no tag `decoding.tag`.
        """
        config = with_held_out_files(config, self.directory)
        return replace(self, config=config, tokenizer=self.tokenizer.with_tag(config.decoding.tag))

    @property
    def is_changed(self) -> bool:
        """True if the weights in memory differ from those in the file, as after `fit`, or if there is no file."""
        return self.digest is None or self.digest != digest_weights(self.model)

    def weights_sha256(self) -> str:
        """Returns the SHA-256 of the file of weights; if the weights in memory differ from it, their digest."""
        present = digest_weights(self.model)
        return sha256(self.weights) if present == self.digest else present

    @property
    def weights_name(self) -> str:
        """The path of the file of weights from the run's folder; `memory` if the weights in memory differ from it."""
        return "memory" if self.is_changed else self.weights.relative_to(self.directory.root).as_posix()

    @cached_property
    def reader(self) -> TextReader:
        """The reader that normalises and encodes the sentences of users."""
        return TextReader(self.directory, self.config.data, self.tokenizer, self.config.model.max_positions - 1)

    @cached_property
    def target_tokens(self) -> TokenText:
        """The text that each token of the target language adds to a translation."""
        return self.banned.tokens if self.banned else TokenText(self.tokenizer, self.config.data.tokenized)

    @cached_property
    def translator(self) -> Translator:
        """The translator, with the search that the config describes."""
        search = build_search(self.config.decoding, self.config.run.seed, self.banned)
        return build_translator(
            self.model, self.tokenizer, self.config, search, self.target_tokens, self.reader, self.graphs
        )

    def recorder(self, sites: Sequence[str], units: WordUnits = BETWEEN_SPACES) -> AttentionRecorder:
        """Returns a recorder of attention. A later call with the same sites and units returns the same recorder.

        Args:
            sites: the sites to record, keys of `config.choices.inspection.SITES`.
            units: the units that count as words on each side.

        Raises:
            InputError: the process was forked after TensorFlow had computed.
        """
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


def keeps_choices(run: TrainedRun) -> bool:
    """Returns whether choices for the present weights, such as the readout of word links, are saved in a run's folder.

    They are not saved if the weights are neither the final nor the best ones of the training, if they were changed in
    memory, or if the run is the read-only one in the package.
    """
    own_weights = run.directory.model, run.directory.checkpoints / "best.npz"
    return not run.directory.is_packaged and not run.is_changed and run.weights in own_weights


def digest_weights(model: keras.Model) -> str:
    """Returns the SHA-256 of the values of all weights of a model, LoRA matrices included."""
    digest = hashlib.sha256()
    for variable in model.weights:
        digest.update(f"{tuple(variable.shape)}".encode())
        digest.update(keras.ops.convert_to_numpy(variable).tobytes())
    return digest.hexdigest()


def load_run(root: Path, checkpoint: str = "best", tuned: bool = True) -> TrainedRun:
    """Loads a run: builds the model from the config, and reads only the weights from the files of the model.

    Args:
        root: the folder of the run.
        checkpoint: `best` for the weights that were best on validation, `last` for the newest checkpoint. Both can be
            loaded during training.
        tuned: whether to use the settings of decoding that `evaluate.py --tune` has chosen, if there are any.

    Raises:
        InputError: the folder is not a run, has no weights yet, or its files do not fit together; or the process was
            forked after TensorFlow had computed.
    """
    refuse_after_fork()
    run = RunDirectory.open(root)
    run.check_weights(checkpoint)
    config = with_held_out_files(load_trained_run(run, tuned), run)
    tokenizer = load_tokenizer(run.tokenizer).with_tag(config.decoding.tag)
    weights = _find_weights(run, checkpoint)
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
    return TrainedRun(run, config, tokenizer, model, weights, digest=digest_weights(model))


def _find_weights(run: RunDirectory, checkpoint: str) -> Path:
    """Returns the file of the weights of a run: a checkpoint or `model.keras`. For `checkpoint` see `load_run`."""
    checkpoints = Checkpoints(run.checkpoints)
    if checkpoint == "last":
        return checkpoints.last()
    # Without a manifest, training has not ended yet, and the model may be from a shorter training.
    unfinished = not run.is_trained() and checkpoints.best.is_file()
    return checkpoints.best if unfinished or not run.model.is_file() else run.model
