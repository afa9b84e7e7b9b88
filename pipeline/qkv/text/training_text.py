"""The text as training reads it, loaded from a prepared run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config import RunConfig
from ..errors import DAMAGE, InputError
from ..files.json import read_json_object
from ..files.run_directory import RunDirectory
from .corpora.corpus import Corpus
from .corpora.formats import read_corpus
from .corpora.held_out import with_held_out_files
from .corpora.mixture import Mixture, make_mixture
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
    assert data.validation  # as in all runs that are trained
    check_unchanged(data, run)
    tokenizer = load_tokenizer(run.tokenizer).with_tag(config.decoding.tag)
    return open_text(config, run, tokenizer, read_corpus(data.validation).in_memory())


def open_text(config: RunConfig, run: RunDirectory, tokenizer: Tokenizer, validation: Corpus) -> TrainingText:
    """Opens the encoded text of a run whose tokenizer and validation text are known.

    Raises:
        InputError: as `load_text`.
    """
    validation_pairs = EncodedPairs.load(run.encoded / "validation")
    if len(validation) != (before := len(validation_pairs.source)):
        raise InputError(
            f"{validation.name}: {len(validation)} pairs, expected {before} as when the run began; restore the file"
        )
    guided = config.training.guided_attention is not None
    names = segmentation_names(config.tokenizer.bpe_dropout)
    segmentations = [EncodedPairs.load(run.encoded / name, guided) for name in names]
    mixture = _read_mixture(config, run, len(segmentations[0].source))
    return TrainingText(tokenizer, segmentations, validation, validation_pairs, mixture)


def _read_mixture(config: RunConfig, run: RunDirectory, pairs: int) -> Mixture | None:
    if not config.data.is_weighted:
        return None
    try:
        corpora = read_json_object(run.corpus_report)["corpora"]
        mixture = mixture_of(config, corpora)
        found = sum(one["kept"] + one["joined"] for one in corpora)
        if found != pairs:
            raise ValueError(f"{found:,} pairs in {len(corpora)} corpora, and {pairs:,} are encoded")
    except DAMAGE as error:
        raise InputError(
            f"{run.corpus_report}: damaged, or of another run ({error}); restore it, or train anew in another folder"
        ) from None
    return mixture


def mixture_of(config: RunConfig, corpora: Sequence[Mapping[str, Any]]) -> Mixture | None:
    """Returns the mixture of a list of corpora, see `make_mixture`; None where every pair comes once in an epoch."""
    data = config.data
    if not data.is_weighted:
        return None
    weights = [corpus.weight for corpus in data.listed_corpora if corpus.weight is not None]
    return make_mixture(corpora, weights or None, data.temperature, config.run.seed)
