"""The tokenizer of a run that is being prepared: trained, or that of an earlier start on the same text."""

from collections.abc import Iterator
from itertools import islice

from ..config import RunConfig
from ..errors import InputError
from ..files.json import read_json, write_json
from ..files.run_directory import RunDirectory
from .corpus import Corpus
from .given_tokenizer import load_tokenizer
from .line import is_empty
from .tokenizer import Tokenizer
from .tokenizer_training import train_tokenizer

MOST_SENTENCES = 500_000  # of both languages, to learn subwords from; SentencePiece holds them in memory


def reuse_or_train_tokenizer(
    config: RunConfig, training: Corpus, run: RunDirectory, digests: dict[str, str]
) -> Tokenizer:
    """Returns the tokenizer that is in the run if it was trained on the same text, and otherwise trains it.

    Args:
        config: the settings.
        training: the training text.
        run: the run.
        digests: of all files, see `data_sha256`.
    """
    taken = config.training.start_from is not None  # that of the run from which training starts
    if not taken and not (run.tokenizer.is_file() and _was_prepared_from(run, digests)):
        run.tokenizer.unlink(missing_ok=True)
        write_json(run.preparation, digests)
        train_tokenizer(
            _sample_sentences(training),
            run.tokenizer,
            kind=config.tokenizer.kind,
            vocabulary_size=config.tokenizer.vocabulary_size,
            character_coverage=config.tokenizer.character_coverage,
            tags=config.data.tags,
        )
    tokenizer = load_tokenizer(run.tokenizer)
    if missing := [tag for tag in config.data.tags if tag not in tokenizer.tags]:
        raise InputError(
            f"{run.tokenizer}: the tokenizer of the run from which training starts has no tag {', '.join(missing)}; "
            "expected the tags of data.train: leave them out, or start from a run that was trained with them"
        )
    return tokenizer.with_tag(config.decoding.tag)


def _was_prepared_from(run: RunDirectory, digests: dict[str, str]) -> bool:
    try:
        return read_json(run.preparation) == digests
    except (OSError, ValueError):
        return False


def _sample_sentences(corpus: Corpus) -> Iterator[str]:
    """Yields both sides of every n-th pair, at most `MOST_SENTENCES` in all."""
    for pair in islice(corpus.pairs(), None, None, max(1, -(-2 * len(corpus) // MOST_SENTENCES))):
        yield from (side for side in pair if not is_empty(side))
