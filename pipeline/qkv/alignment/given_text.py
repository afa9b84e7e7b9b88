"""The text that is aligned."""

from pathlib import Path

from ..config import load_run_config
from ..config.run import settings_of_set
from ..errors import InputError
from ..files.run_directory import RunDirectory
from ..text.corpora.corpus import Corpus
from ..text.corpora.formats import read_corpus
from ..text.corpora.held_out import with_held_out_files
from .aligned_text import AlignedText
from .given_words import read_given_words


def read_set(run: RunDirectory, name: str) -> Corpus:
    """Reads a set that the config of a run names.

    Args:
        run: the folder of the run.
        name: one of `config.names.text.DATA_SETS`.

    Raises:
        InputError: there is no such set, or the set joins corpora with tags.
    """
    config = with_held_out_files(load_run_config(run.config), run)
    settings = settings_of_set(config, name, run.config)
    if config.data.tags and name == "train":
        raise InputError(
            f"{run.config}: the corpora of data.train have tags, so their links would be those of other words; "
            "align one corpus at a time with --source and --target, and with decoding.tag in the config of the run"
        )
    return read_corpus(settings)


def with_given_words(
    corpus: Corpus, source_words: Path | None, target_words: Path | None, names: tuple[str, str]
) -> AlignedText:
    """Returns a text with the words of tokenised copies of it, where those are given; see `read_given_words`."""
    words = [
        read_given_words(path, sentences) if path else None
        for path, sentences in ((source_words, corpus.source), (target_words, corpus.target))
    ]
    return AlignedText(corpus.source, corpus.target, words[0], words[1], names)
