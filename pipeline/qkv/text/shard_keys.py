"""Where the readings of a text's shards are kept, named by everything that they depend on."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..config import RunConfig
from ..config.corpus import CorpusSettings, is_csv
from ..files.paths import sha256
from ..files.run_directory import RunDirectory
from .corpus import Corpus
from .pair_reader import SHARD_PAIRS, is_large
from .provenance import shard_digests
from .shard_files import ShardFiles, folder_name


def shard_files(
    config: RunConfig,
    run: RunDirectory,
    training: Corpus,
    others: Mapping[str, Corpus],
    digests: Mapping[str, str],
) -> ShardFiles | None:
    """Returns the files of the readings: in `data.cache`, or in the run while a large text is being prepared; None for
    a small text without a cache.

    Args:
        config: the settings.
        run: the run, with its tokenizer.
        training: the pairs that are read.
        others: the sets whose sentences are looked for.
        digests: of the files of all sets, see `data_sha256`.
    """
    data = config.data
    if data.cache is None and not is_large(training):
        return None
    facts = {
        "text": [[_form(corpus), shard_digests(corpus, run, digests)] for corpus in data.training_corpora],
        "others": {name: [_digest(side) for side in (other.source, other.target)] for name, other in others.items()},
        "filters": None if data.filters is None else data.filters.model_dump(mode="json"),
        "tokenized": data.tokenized,
        "tokenizer": sha256(run.tokenizer),
        "pairs": [len(training), SHARD_PAIRS],
    }
    return ShardFiles((data.cache or run.shards) / folder_name(facts))


def _form(corpus: CorpusSettings) -> dict[str, Any]:
    """Returns the settings by which pairs are read from files."""
    form = corpus.model_dump(include={"source_column", "target_column", "separator", "header", "split"})
    return form | {"csv": corpus.table is not None and is_csv(corpus.table)}


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
