"""The check that an exported model translates and scores sentences as its run does."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..decoding.build import build_search, build_translator
from ..errors import InputError
from ..files.paths import missing_file
from ..run.trained_run import TrainedRun
from ..text.corpora.formats import read_corpus

LOG_PROBABILITY_TOLERANCE = 1e-3
"""The largest allowed difference between two log-probabilities of a token. Rounding causes differences of about 1e-5, a
wrong weight differences of 1 or more."""

BATCH_SENTENCES = 64
"""The number of sentences in a call of an exported model."""

log = logging.getLogger(__name__)


class ExportedModel(Protocol):
    """The interface of an exported model, loaded by the program for which it was written.

    Attributes:
        fixed_decoding: the values, by name, of settings of the section `decoding` that the program cannot change.
    """

    fixed_decoding: Mapping[str, Any]

    def translate(self, sources: Sequence[str], decoding: Any, longest: int) -> list[str]:
        """Returns the translations of sentences by beam search.

        Args:
            sources: sentences that all have the same number of tokens.
            decoding: the settings of the search, a `config.decoding.DecodingSettings`.
            longest: the maximum number of tokens of a translation, EOS included.
        """
        ...

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        """Scores translations.

        Args:
            sources: the sentences.
            targets: their translations.

        Returns:
            For each translation the natural logarithms of its tokens' probabilities, `(tokens,)`, EOS included.
        """
        ...


def read_check_sentences(run: TrainedRun, count: int) -> list[str]:
    """Reads the sentences on which an exported model is checked.

    They are the first source sentences of the run's validation set, without empty and too long sentences. If a file of
    the validation set is missing, a warning is logged and the probes of the config are used instead.

    Args:
        run: the run.
        count: the maximum number of sentences.

    Returns:
        At most `count` sentences. The list is empty if a file is missing and the config has no probes.

    Raises:
        InputError: the run has no validation set, or its files cannot be read.
    """
    validation = run.config.data.validation
    if validation is None:
        raise InputError(
            f"{run.directory.root}: the run has no validation set; give --sentences 0 to export it without a check"
        )
    if missing := missing_file(validation):
        lines: Sequence[str] = [probe.source for probe in run.config.inspection.probes or ()]
        consequence = (
            f"checked on the {len(lines)} probes of the config instead" if lines else "the model is not checked"
        )
        log.warning("%s: there is no such file; %s", missing, consequence)
    else:
        lines = read_corpus(validation).source
    longest = run.config.model.max_positions - 1
    fitting = [line for line in lines[: 2 * count] if 0 < run.tokenizer.count_tokens([line])[0] < longest]
    return fitting[:count]


def check_parity(run: TrainedRun, exported: ExportedModel, sentences: Sequence[str], exact: bool) -> dict[str, Any]:
    """Compares the translations and log-probabilities of an exported model with the run's, and logs the result.

    Args:
        run: the run.
        exported: the exported model.
        sentences: the source sentences, see `read_check_sentences`.
        exact: True if the exported model has the weights of the run without rounding.

    Returns:
        The results, for the manifest: the number of sentences; the number of equal translations for each of the
        searches `greedy` and `beam`; the largest difference between log-probabilities; and the fixed decoding settings
        that differ from the run's.

    Raises:
        InputError: the model is exact, and a log-probability differs by more than `LOG_PROBABILITY_TOLERANCE`.
    """
    settings = run.config.decoding
    lengths = np.array([len(ids) for ids in run.tokenizer.encode(sentences)])
    equal = {}
    targets: Sequence[str] = []
    for kind, decoding in comparable_searches(run, exported.fixed_decoding).items():
        search = build_search(decoding, run.config.run.seed)
        translations = build_translator(run.model, run.tokenizer, run.config, search).translate(sentences)
        targets = [translation.text for translation in translations]
        equal[kind] = 0
        for rows in rows_by_length(lengths):  # other programs have one maximum length for all translations of a call
            longest = int(run.translator.max_lengths(lengths[rows[:1]])[0])
            texts = exported.translate([sentences[row] for row in rows], decoding, longest)
            equal[kind] += sum(targets[row] == text for row, text in zip(rows, texts, strict=True))
    # Programs differ in how they cut targets that are too long for the model, such as those of a search without EOS.
    fits = np.array(run.tokenizer.of_target.count_tokens(targets)) < run.config.model.max_positions
    fitting_rows = np.flatnonzero(fits).tolist()
    fitting_sources = [sentences[row] for row in fitting_rows]
    fitting_targets = [targets[row] for row in fitting_rows]
    records = run.recorder(["cross"]).record_references(fitting_sources, fitting_targets)
    exported_scores: list[np.ndarray] = []
    for first in range(0, len(fitting_rows), BATCH_SENTENCES):
        batch = slice(first, first + BATCH_SENTENCES)
        exported_scores += exported.log_probabilities(fitting_sources[batch], fitting_targets[batch])
    differences = [
        np.abs(np.array(record.token_log_probabilities) - scores).max()
        for record, scores in zip(records, exported_scores, strict=True)
    ]
    largest = float(max(differences, default=0.0))
    counts = ", ".join(f"{number} of {len(sentences)} by {kind} search" for kind, number in equal.items())
    log.info("translations equal to the run's: %s; log-probabilities differ by at most %.1e", counts, largest)
    if exact and not largest <= LOG_PROBABILITY_TOLERANCE:
        raise InputError(
            f"{run.directory.root}: the exported model gives log-probabilities that differ by {largest:.3g} from the "
            f"run's, expected at most {LOG_PROBABILITY_TOLERANCE:g}; nothing was written; please report this with "
            "the run's config.yaml"
        )
    different = {name: value for name, value in exported.fixed_decoding.items() if getattr(settings, name) != value}
    if different:
        values = ", ".join(f"{name} {value}" for name, value in different.items())
        log.info("for this check both searched with %s, which the exported model cannot change", values)
    return {
        "sentences": len(sentences),
        "equal": equal,
        "largest_difference_of_log_probabilities": largest,
        "decoding_instead_of_the_runs": different,
    }


def comparable_searches(run: TrainedRun, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of the two searches whose translations a check compares.

    Args:
        run: the run, with the settings to begin with.
        fixed: the settings to change, see `ExportedModel.fixed_decoding`.

    Returns:
        A dict from `greedy` and `beam` to `DecodingSettings`. The beam size of `greedy` is 1. The beam size of `beam`
        is the run's beam size, or 5 if this is 1.
    """
    settings = run.config.decoding
    sizes = {"greedy": 1, "beam": settings.beam_size if settings.beam_size > 1 else 5}
    return {
        kind: settings.model_copy(update={"search": "beam", "beam_size": size, "n_best": 1, **fixed})
        for kind, size in sizes.items()
    }


def rows_by_length(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yields batches of at most `BATCH_SENTENCES` sentences of equal length, as arrays of their indices.

    Args:
        lengths: the number of tokens of each sentence.
    """
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        yield from np.split(rows, range(BATCH_SENTENCES, len(rows), BATCH_SENTENCES))
