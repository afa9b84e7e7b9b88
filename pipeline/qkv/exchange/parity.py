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

TOLERANCE = 1e-3
"""The largest difference of a token's log-probability; rounding gives some 1e-5, a wrong weight whole units."""

BATCH_SENTENCES = 64

log = logging.getLogger(__name__)


class ExportedModel(Protocol):
    """An exported model, loaded from its folder by the program that it is for.

    Attributes:
        own_decoding: settings of the section `decoding` for which the program knows one value alone.
    """

    own_decoding: Mapping[str, Any]

    def translate(self, sources: Sequence[str], decoding: Any, longest: int) -> list[str]:
        """Translates sentences of one length by beam search, as `decoding` says, into at most `longest` tokens."""
        ...

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        """Returns the log-probability of each token of given translations."""
        ...


def read_check_sentences(run: TrainedRun, count: int) -> list[str]:
    """Reads the sentences of a check: the first of the run's validation set that the model can read; or its probes, if
    the files of the set are not there.

    Raises:
        InputError: the run has no such set.
    """
    validation = run.config.data.validation
    if validation is None:
        raise InputError(f"{run.directory.root}: the run has no validation set; give --sentences 0 for no check")
    if missing := missing_file(validation):
        lines: Sequence[str] = [probe.source for probe in run.config.inspection.probes or ()]
        checked = f"checked on the {len(lines)} probes of the config instead" if lines else "the model is not checked"
        log.warning("%s: there is no such file; %s", missing, checked)
    else:
        lines = read_corpus(validation).source
    longest = run.config.model.max_positions - 1
    fitting = [line for line in lines[: 2 * count] if 0 < run.tokenizer.count_tokens([line])[0] < longest]
    return fitting[:count]


def check_parity(run: TrainedRun, exported: ExportedModel, sentences: Sequence[str], exact: bool) -> dict[str, Any]:
    """Compares an exported model, `exact` if it has the run's own weights, not rounded ones, with the run on sentences.

    Returns:
        The findings, for the manifest.

    Raises:
        InputError: the model is another one.
    """
    settings = run.config.decoding
    lengths = np.array([len(ids) for ids in run.tokenizer.encode(sentences)])
    equal = {}
    targets: Sequence[str] = []
    for kind, decoding in searches(run, exported.own_decoding).items():
        search = build_search(decoding, run.config.run.seed)
        found = build_translator(run.model, run.tokenizer, run.config, search).translate(sentences)
        targets = [one.text for one in found]
        equal[kind] = 0
        for rows in rows_by_length(lengths):  # a call of another program has one longest length for all translations
            longest = int(run.translator.max_lengths(lengths[rows[:1]])[0])
            texts = exported.translate([sentences[row] for row in rows], decoding, longest)
            equal[kind] += sum(targets[row] == text for row, text in zip(rows, texts, strict=True))
    # Each program cuts in its own way what is longer than the model reads, such as a search that finds no end.
    fitting = np.array(run.tokenizer.of_target.count_tokens(targets)) < run.config.model.max_positions
    whole = [[text for text, fits in zip(side, fitting, strict=True) if fits] for side in (sentences, targets)]
    records = run.recorder(["cross"]).record_references(*whole)
    scored: list[np.ndarray] = []
    for first in range(0, len(whole[0]), BATCH_SENTENCES):
        scored += exported.log_probabilities(*(side[first : first + BATCH_SENTENCES] for side in whole))
    pairs = zip(records, scored, strict=True)
    differences = [np.abs(np.array(one.token_log_probabilities) - other).max() for one, other in pairs]
    largest = float(max(differences, default=0.0))
    counts = ", ".join(f"{number} of {len(sentences)} by {kind} search" for kind, number in equal.items())
    log.info("translations equal to the run's: %s; log-probabilities differ by at most %.1e", counts, largest)
    if exact and not largest <= TOLERANCE:
        raise InputError(
            f"{run.directory.root}: the exported model gives log-probabilities that differ by {largest:.3g} from the "
            f"run's, expected at most {TOLERANCE:g}; nothing was written; please report this with the run's config.yaml"
        )
    others = {name: value for name, value in exported.own_decoding.items() if getattr(settings, name) != value}
    if others:
        log.info("with %s, which is how it searches", ", ".join(f"{name} {value}" for name, value in others.items()))
    return {
        "sentences": len(sentences),
        "equal": equal,
        "largest_difference_of_log_probabilities": largest,
        "decoding_instead_of_the_runs": others,
    }


def searches(run: TrainedRun, own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns two searches to compare, with a program's own settings: greedy, and a beam as the run's, or of 5."""
    settings = run.config.decoding
    sizes = {"greedy": 1, "beam": settings.beam_size if settings.beam_size > 1 else 5}
    return {
        kind: settings.model_copy(update={"search": "beam", "beam_size": size, "n_best": 1, **own})
        for kind, size in sizes.items()
    }


def rows_by_length(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the places of at most `BATCH_SENTENCES` sentences of one length at a time."""
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        yield from np.split(rows, range(BATCH_SENTENCES, len(rows), BATCH_SENTENCES))
