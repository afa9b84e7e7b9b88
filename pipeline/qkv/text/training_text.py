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


@dataclass(frozen=True, repr=False)
class TrainingText:
    """The text as training reads it.

    Args:
        tokenizer: the tokenizer of the run.
        segmentations: the encoded training pairs. With BPE-dropout there are several segmentations, and epochs use them
            in turn; otherwise there is one.
        validation: the validation pairs as text.
        validation_pairs: the same pairs, encoded.
        mixture: chooses the pairs of an epoch among several corpora; None takes every pair once.
    """

    tokenizer: Tokenizer
    segmentations: Sequence[EncodedPairs]
    validation: Corpus
    validation_pairs: EncodedPairs
    mixture: Mixture | None = None

    def __repr__(self) -> str:
        """Returns the numbers of pairs, and the tokenizer."""
        training, validation = len(self.segmentations[0].source), len(self.validation_pairs.source)
        return f"<TrainingText: {training:,} training pairs, {validation:,} validation pairs, {self.tokenizer!r}>"


def load_text(config: RunConfig, run: RunDirectory) -> TrainingText:
    """Loads the text that `text.prepare.prepare_text` has written into a run.

    Raises:
        InputError: a file of the run or of the validation set is missing or damaged, or the validation set has changed.
    """
    data = with_held_out_files(config, run).data
    assert data.validation  # all runs that are trained have a validation set
    check_unchanged(data, run)
    tokenizer = load_tokenizer(run.tokenizer).with_tag(config.decoding.tag)
    return open_text(config, run, tokenizer, read_corpus(data.validation).in_memory())


def open_text(config: RunConfig, run: RunDirectory, tokenizer: Tokenizer, validation: Corpus) -> TrainingText:
    """Opens the encoded text of a run whose tokenizer and validation text are known.

    Raises:
        InputError: the encoded text or the corpus report is missing or damaged, or the number of validation pairs has
            changed.
    """
    validation_pairs = EncodedPairs.load(run.encoded / "validation")
    pairs_at_start = len(validation_pairs.source)
    if len(validation) != pairs_at_start:
        raise InputError(
            f"{validation.name}: {len(validation)} pairs, expected {pairs_at_start} as when the run began; restore the "
            "file"
        )
    guided = config.training.guided_attention is not None
    names = segmentation_names(config.tokenizer.bpe_dropout)
    segmentations = [EncodedPairs.load(run.encoded / name, guided) for name in names]
    mixture = _read_mixture(config, run, len(segmentations[0].source))
    return TrainingText(tokenizer, segmentations, validation, validation_pairs, mixture)


def _read_mixture(config: RunConfig, run: RunDirectory, pairs: int) -> Mixture | None:
    """Returns the mixture of the corpora in the corpus report; None if every pair comes once in an epoch.

    Raises:
        InputError: the report is missing or damaged, or does not have the number of `pairs` that are encoded.
    """
    if not config.data.is_weighted:
        return None
    try:
        corpora = read_json_object(run.corpus_report)["corpora"]
        mixture = mixture_of(config, corpora)
        reported_pairs = sum(corpus["kept"] + corpus["joined"] for corpus in corpora)
        if reported_pairs != pairs:
            raise ValueError(f"{reported_pairs:,} pairs in {len(corpora)} corpora, and {pairs:,} are encoded")
    except DAMAGE as error:
        raise InputError(
            f"{run.corpus_report}: damaged, or of another run ({error}); restore it, or train again in another folder"
        ) from None
    return mixture


def mixture_of(config: RunConfig, corpora: Sequence[Mapping[str, Any]]) -> Mixture | None:
    """Returns the mixture of the training corpora; None if every pair comes once in an epoch.

    Args:
        config: the settings of the run.
        corpora: for each corpus a dict with the numbers of `kept` and of `joined` pairs, as in the corpus report.

    Raises:
        InputError: see `text.corpora.mixture.make_mixture`.
    """
    data = config.data
    if not data.is_weighted:
        return None
    weights = [corpus.weight for corpus in data.listed_corpora if corpus.weight is not None]
    return make_mixture(corpora, weights or None, data.temperature, config.run.seed)
