"""The text as training reads it, loaded from a prepared run."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..config import RunConfig
from ..errors import InputError
from ..files.run_directory import RunDirectory
from .corpora.corpus import Corpus
from .corpora.formats import read_corpus
from .corpora.held_out import with_held_out_files
from .corpora.mixture import Mixture, read_mixture
from .corpora.provenance import check_unchanged
from .tokens.bpe_dropout import segmentation_names
from .tokens.encoding import EncodedPairs
from .tokens.run_tokenizer import load_tokenizer
from .tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class TrainingText:
    """The text as training reads it.

    Args:
        tokenizer: the tokenizer of the run.
        segmentations: the training pairs as the epochs see them in turn; just one, unless segmentations are sampled.
        validation: the validation text.
        validation_pairs: the validation text, encoded.
        mixture: how epochs are divided among the corpora of a list; None: every pair comes once.
    """

    tokenizer: Tokenizer
    segmentations: Sequence[EncodedPairs]
    validation: Corpus
    validation_pairs: EncodedPairs
    mixture: Mixture | None = None


def load_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Reads back what `prepare_text` wrote.

    Raises:
        InputError: a part is missing or damaged, or the validation text has changed.
    """
    data = with_held_out_files(config, run).data
    check_unchanged(data, run)
    tokenizer = load_tokenizer(run.tokenizer).with_tag(config.decoding.tag)
    return open_text(config, run, tokenizer, read_corpus(data.validation_text).in_memory())


def open_text(config: RunConfig, run: RunDirectory, tokenizer: Tokenizer, validation: Corpus) -> TrainingText:
    """Opens the encoded text of a run whose tokenizer and validation text are known.

    Raises:
        InputError: as `load_text`.
    """
    size = tokenizer.vocabulary_size
    validation_pairs = EncodedPairs.load(run.encoded / "validation", vocabulary_size=size)
    if len(validation) != len(validation_pairs.source):
        raise InputError(
            f"{validation.name}: {len(validation)} pairs, expected {len(validation_pairs.source)} as when the run "
            "began; put the old files back, or train anew"
        )
    guided, names = config.training.guided_attention is not None, segmentation_names(config.tokenizer.bpe_dropout)
    segmentations = [EncodedPairs.load(run.encoded / name, guided, size) for name in names]
    mixture = read_mixture(config, run, len(segmentations[0].source))
    return TrainingText(tokenizer, segmentations, validation, validation_pairs, mixture)
