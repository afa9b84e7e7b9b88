"""The confidence of a translation: the probability that it is good, from 0 to 1.

A translation is good if its chrF against a reference is at least a bound, by default `GOOD_CHRF`. The confidence is a
product of two probabilities, and each is a logistic regression on the validation set of the run:

- The source is readable: it looks like the text that the model was trained on. A validation set has no text of another
  language and no garbage. So every second pair also gets a changed source, of one of `CHANGES`. It counts as readable
  only if its translation is still good.
- The translation of a readable source is good. The features are the log-probabilities of the translation, its length,
  and its agreement with the other hypotheses of the beam. This regression sees unchanged sources only, so changed
  sources do not distort its probabilities.

A single regression on both kinds of sources flags less text of other languages, and its probabilities are worse.
Attention is not used: with the other features it adds less than its forced pass costs, see
docs/measurements/confidence.md.

The result is saved in the run as `confidence.json`, so that a run that is moved away from its text keeps it.

Letters: N translations, V vocabulary.
"""

import json
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from sacrebleu import CHRF

from ..config.run import with_decoding_values
from ..decoding.translator import Translation
from ..errors import InputError, invocation
from ..files.json import read_json_object, write_json
from ..files.paths import missing_file
from ..run.ensemble import TrainedEnsemble
from ..run.trained_run import TrainedRun, keeps_choices
from ..statistics.logistic_regression import (
    ReliabilityBin,
    area_under_roc,
    calibration_error,
    fit_logistic,
    probability_of,
    reliability_table,
)
from ..text.corpora.formats import read_tagged
from ..text.lines.line import find_tag, without_tag
from ..text.tokens.special_tokens import UNK
from ..text.tokens.tokenizer import Tokenizer

GOOD_CHRF = 60.0
"""The least chrF of a good translation, by default."""

MOST_PAIRS = 3000
"""The largest number of validation pairs in a fit, at equal distances."""

LEAST_PAIRS = 100
LEAST_OF_A_KIND = 20
"""If fewer outcomes are good, or fewer are bad, all features are left out, and the probability is the share of the good
ones."""

HYPOTHESES = 5
"""The largest number of hypotheses of a sentence that are compared with each other."""

FOLDS = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Confidence:
    """The fitted confidence of a run.

    Args:
        good_chrf: the least chrF of a good translation, 0 to 100.
        source: the coefficients of `source_features`, then the constant.
        translation: the coefficients of `translation_features`, then the constant.
        source_counts: the number of times that each token occurs in the sources of the set, `(V,)`.
        target_counts: the same for the references, encoded as if they were sources.
        pairs: the number of validation pairs in the fit.
        good: the share of their translations that is good, 0 to 1.
        changed: the number of changed sources in the fit.
        auroc: the cross-fitted area under the ROC curve of the unchanged pairs, 0 to 1; NaN if all are good or bad.
        calibration_error: the cross-fitted expected calibration error of the unchanged pairs, 0 to 1.
        reliability: bins of their cross-fitted confidences, with the share of good translations in each.
    """

    good_chrf: float
    source: tuple[float, ...]
    translation: tuple[float, ...]
    source_counts: tuple[int, ...]
    target_counts: tuple[int, ...]
    pairs: int
    good: float
    changed: int
    auroc: float
    calibration_error: float
    reliability: tuple[ReliabilityBin, ...]

    def of(self, n_best_lists: Sequence[Sequence[Translation]], tokenizer: Tokenizer) -> list[float]:
        """Computes the confidence of the best translation of each sentence.

        Args:
            n_best_lists: the n-best list of each sentence, from the search of `with_hypotheses`.
            tokenizer: the tokenizer of the run.

        Returns:
            The confidences, 0 to 1. It is 1 for an empty source, whose translation is empty; and 0 if the source was
            cut, or if the translation reached the maximum length.
        """
        tokens = _token_statistics(self.source_counts, self.target_counts, tokenizer)
        confidences = []
        for n_best in n_best_lists:
            if not n_best[0].source_ids:
                confidences.append(1.0)
            elif n_best[0].truncated:
                confidences.append(0.0)
            else:
                readable = probability_of(source_features(n_best[0], tokens), np.array(self.source))
                good = probability_of(translation_features(n_best, tokens), np.array(self.translation))
                confidences.append(float(readable * good))
        return confidences

    def measure(self, confidences: Sequence[float], chrf: Sequence[float]) -> dict[str, Any]:
        """Measures the confidences of a set with references.

        Args:
            confidences: the confidence of each translation.
            chrf: the chrF of each translation, 0 to 100.

        Returns:
            `good_chrf`, the bound; `good`, the share of good translations; `auroc`, None if all are good or bad;
            and `calibration_error`, 0 to 1.
        """
        good = np.asarray(chrf) >= self.good_chrf
        predicted = np.asarray(confidences)
        area = area_under_roc(predicted, good)
        return {
            "good_chrf": self.good_chrf,
            "good": float(good.mean()),
            "auroc": None if np.isnan(area) else area,
            "calibration_error": calibration_error(reliability_table(predicted, good)),
        }


def with_hypotheses(run: TrainedRun) -> TrainedRun:
    """Returns a run whose search returns the hypotheses that `Confidence.of` compares. The best one stays the same.

    Raises:
        InputError: the search of the run is sampling.
    """
    decoding = run.config.decoding
    if decoding.search == "sampling":
        raise InputError("confidence: it is fitted for translations of beam search; expected decoding.search beam")
    number = max(decoding.n_best, min(HYPOTHESES, decoding.beam_size))
    return run.with_config(with_decoding_values(run.config, {"n_best": number}))


@dataclass(frozen=True)
class TokenStatistics:
    """Statistics of the tokens of the source vocabulary, `(V,)` each.

    Args:
        source: the logarithm of the share of the token in source text.
        odds: `source` minus the logarithm of the share of the token in target text.
        characters: the number of characters of the token. An unknown token counts as one character.
    """

    source: np.ndarray
    odds: np.ndarray
    characters: np.ndarray

    @classmethod
    def of(
        cls, source_counts: Sequence[float], target_counts: Sequence[float], tokenizer: Tokenizer
    ) -> "TokenStatistics":
        """Computes the statistics from the counts of tokens. Half an occurrence is added to each count."""
        source, target = (np.asarray(counts, float) + 0.5 for counts in (source_counts, target_counts))
        logarithm = np.log(source / source.sum())
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        characters = np.array([len(piece.replace("\u2581", "")) for piece in pieces], float)
        characters[UNK] = 1.0
        return cls(logarithm, logarithm - np.log(target / target.sum()), characters)


@lru_cache(maxsize=8)  # for each line that is typed
def _token_statistics(
    source_counts: tuple[int, ...], target_counts: tuple[int, ...], tokenizer: Tokenizer
) -> TokenStatistics:
    """Returns the result of `TokenStatistics.of`, from a cache if it was computed before."""
    return TokenStatistics.of(source_counts, target_counts, tokenizer)


def source_features(translation: Translation, tokens: TokenStatistics) -> np.ndarray:
    """Computes the features by which a source is readable.

    Args:
        translation: a translation of a source with tokens.
        tokens: the statistics of the tokens.

    Returns:
        float64 `(3,)`: the mean of `TokenStatistics.odds`, which is low for text of the target language; the mean of
        `TokenStatistics.source`; and the logarithm of the mean number of characters of a token. The last two are low
        for text that is split into rare and short pieces.
    """
    ids = translation.source_ids
    characters = max(1.0, tokens.characters[ids].sum())
    return np.array([tokens.odds[ids].mean(), tokens.source[ids].mean(), np.log(characters / len(ids))])


def translation_features(n_best: Sequence[Translation], tokens: TokenStatistics) -> np.ndarray:
    """Computes the features by which the best translation of a sentence is good.

    Args:
        n_best: the n-best list of a sentence with tokens.
        tokens: the statistics of the tokens.

    Returns:
        float64 `(6,)`: the mean and the least log-probability of the tokens; the mean chrF of the other hypotheses
        against the translation, from 0 to 1; the logarithms of the number of target tokens and of the ratio of target
        tokens to source tokens; and the mean of `TokenStatistics.source`.
    """
    best, *others = n_best[:HYPOTHESES]
    log_probabilities = np.array(best.log_probabilities)
    agreement = [_CHRF.sentence_score(best.text, [other.text]).score / 100 for other in others]
    target_tokens, source_tokens = len(best.ids), len(best.source_ids) + 1  # with EOS
    return np.array(
        [
            log_probabilities.mean(),
            log_probabilities.min(),
            np.mean(agreement) if agreement else 1.0,  # greedy search has no other hypothesis
            np.log(target_tokens),
            np.log(target_tokens / source_tokens),
            tokens.source[best.source_ids].mean(),
        ]
    )


_CHRF = CHRF()


def find_confidence(run: TrainedRun, good_chrf: float | None = None) -> Confidence:
    """Returns the saved confidence of a run, or fits it on the validation set and saves it.

    The saved confidence counts only if it was fitted for the same weights and settings of decoding. The confidence of
    an ensemble is fitted for each process, and not saved.

    Args:
        run: the run.
        good_chrf: the least chrF of a good translation, 0 to 100. None for the bound of the saved confidence, also if
            that was fitted for other weights; or else for `GOOD_CHRF`.

    Raises:
        InputError: `confidence.json` is damaged; or see `fit_confidence`.
    """
    key = repr((_chosen_by(run), good_chrf))
    in_memory = _fitted.setdefault(run.model, {})
    if key not in in_memory:
        saved = None if isinstance(run, TrainedEnsemble) else _read(run.directory.confidence)
        if saved and good_chrf in (None, saved[0].good_chrf) and saved[1] == _chosen_by(run):
            in_memory[key] = saved[0]
        else:
            bound = good_chrf if good_chrf is not None else saved[0].good_chrf if saved else GOOD_CHRF
            _check_text(run, is_saved=saved is not None)
            in_memory[key] = fit_confidence(run, bound)
            save_confidence(run, in_memory[key])
    return in_memory[key]


def rate(run: TrainedRun, source_ids: Sequence[list[int]]) -> list[float]:
    """Translates sentences that are given as ids, and returns the confidence of the best translation of each.

    Raises:
        InputError: see `find_confidence`.
    """
    confidence = find_confidence(run)
    return confidence.of(with_hypotheses(run).translator.translate_ids(source_ids), run.tokenizer)


_fitted: "WeakKeyDictionary[keras.Model, dict[str, Confidence]]" = WeakKeyDictionary()
"""The confidences of the models in memory, since a read-only run cannot save them."""


def fit_confidence(run: TrainedRun, good_chrf: float = GOOD_CHRF) -> Confidence:
    """Fits the confidence of a run on its validation set, and logs its figures and the seconds that it took.

    Args:
        run: the run, with the settings of decoding for which the confidence is fitted.
        good_chrf: the least chrF of a good translation, 0 to 100.

    Raises:
        InputError: the search is sampling; the validation set cannot be read; or it has fewer than `LEAST_PAIRS` pairs.
    """
    began = time.monotonic()
    translator = with_hypotheses(run).translator
    corpus = read_tagged(run.config.data.validation)  # type: ignore[arg-type]
    used = min(len(corpus.source), MOST_PAIRS)
    rows = [number * len(corpus.source) // used for number in range(used)]
    encoded = run.tokenizer.encode([corpus.source[row] for row in rows])
    pairs = [(corpus.source[row], corpus.target[row]) for row, ids in zip(rows, encoded, strict=True) if ids]
    if len(pairs) < LEAST_PAIRS:
        raise InputError(
            f"{run.directory.config}: data.validation: expected at least {LEAST_PAIRS} pairs to fit the confidence of "
            f"translations, found {len(pairs)}"
        )
    log.warning("confidence: fitting it on %s pairs of the validation set, once", f"{len(pairs):,}")
    sources, references = map(list, zip(*pairs, strict=True))
    changes = change_sources(sources, references, run.tokenizer)
    numbers = [*range(len(pairs)), *changes]
    n_best_lists = translator.translate_ids(run.tokenizer.encode([*sources, *changes.values()]))
    is_good = [
        _CHRF.sentence_score(n_best[0].text, [references[number]]).score >= good_chrf
        for n_best, number in zip(n_best_lists, numbers, strict=True)
    ]
    target_ids = run.tokenizer.encode(references)
    fitted = _fit(n_best_lists, np.array(numbers), np.array(is_good), target_ids, run.tokenizer, good_chrf)
    _report(fitted, time.monotonic() - began)
    return fitted


def change_sources(sources: Sequence[str], references: Sequence[str], tokenizer: Tokenizer) -> dict[int, str]:
    """Changes every second source, in the ways of `CHANGES` in turn. Equal arguments give equal results.

    Args:
        sources: the sources of a set. A tag at the beginning of a source is kept.
        references: the reference of each source.
        tokenizer: the tokenizer of the run.

    Returns:
        The changed sources by the number of the pair. Those without tokens are left out.
    """
    random_numbers = random.Random(1)
    letters = [letter for source in sources for letter in without_tag(source, tokenizer.tags) if letter.isalpha()]
    changed = {}
    for number in range(0, len(sources), 2):
        change = CHANGES[number // 2 % len(CHANGES)]
        tag = find_tag(sources[number], tokenizer.tags)
        text = change(without_tag(sources[number], tokenizer.tags), references[number], letters, random_numbers)
        changed[number] = text if tag is None else f"{tag} {text}"
    ids = tokenizer.encode(list(changed.values()))
    return {number: text for (number, text), row in zip(changed.items(), ids, strict=True) if row}


def _use_reference(source: str, reference: str, letters: Sequence[str], random_numbers: random.Random) -> str:
    """Returns the reference, text of another language than the source's."""
    return reference


def _shuffle_letters(source: str, reference: str, letters: Sequence[str], random_numbers: random.Random) -> str:
    """Returns the source with the characters of each word shuffled."""
    return " ".join("".join(random_numbers.sample(word, len(word))) for word in source.split(" "))


def _draw_letters(source: str, reference: str, letters: Sequence[str], random_numbers: random.Random) -> str:
    """Returns the source with every letter replaced by one that is drawn from `letters`."""
    return "".join(random_numbers.choice(letters) if character.isalpha() else character for character in source)


CHANGES: Sequence[Callable[[str, str, Sequence[str], random.Random], str]] = (
    _use_reference,
    _shuffle_letters,
    _draw_letters,
)
"""The changes of sources: functions of a source, its reference, all letters of the sources and random numbers."""


def _fit(
    n_best_lists: Sequence[Sequence[Translation]],
    pair_of_each: np.ndarray,
    is_good: np.ndarray,
    target_ids: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    good_chrf: float,
) -> Confidence:
    """Fits the confidence of translations whose quality is known.

    The pairs are dealt into `FOLDS` folds. The features of a fold use the counts of tokens of the other folds, and its
    cross-fitted confidences come from a fit on the other folds.

    Args:
        n_best_lists: the n-best lists of all unchanged sources, then of the changed sources.
        pair_of_each: the number of the pair of each list, int `(N,)`.
        is_good: whether each best translation is good, bool `(N,)`.
        target_ids: the ids of the reference of each pair, encoded as a source.
        tokenizer: the tokenizer of the run.
        good_chrf: the least chrF of a good translation.
    """
    pairs = len(target_ids)
    fold = pair_of_each % FOLDS
    source_ids = [n_best[0].source_ids for n_best in n_best_lists[:pairs]]
    source_counts, target_counts = (
        np.array([_count_tokens(ids[number::FOLDS], tokenizer) for number in range(FOLDS)])
        for ids in (source_ids, target_ids)
    )
    others = [
        TokenStatistics.of(
            source_counts.sum(axis=0) - source_counts[number],
            target_counts.sum(axis=0) - target_counts[number],
            tokenizer,
        )
        for number in range(FOLDS)
    ]
    of_source = np.array([source_features(row[0], others[k]) for row, k in zip(n_best_lists, fold, strict=True)])
    of_translation = np.array([translation_features(row, others[k]) for row, k in zip(n_best_lists, fold, strict=True)])
    is_unchanged = np.arange(len(n_best_lists)) < pairs
    is_readable = is_unchanged | is_good
    confidences = np.empty(pairs)
    for number in range(FOLDS):
        fitted_on = fold != number
        readable = _fit_or_share(of_source[fitted_on], is_readable[fitted_on])
        good = _fit_or_share(of_translation[is_unchanged & fitted_on], is_good[is_unchanged & fitted_on])
        rows = is_unchanged & ~fitted_on
        confidences[rows[:pairs]] = probability_of(of_source[rows], readable) * probability_of(
            of_translation[rows], good
        )
    good_pairs = is_good[:pairs]
    reliability = tuple(reliability_table(confidences, good_pairs))
    return Confidence(
        good_chrf,
        tuple(_fit_or_share(of_source, is_readable).tolist()),
        tuple(_fit_or_share(of_translation[is_unchanged], good_pairs).tolist()),
        tuple(source_counts.sum(axis=0).tolist()),
        tuple(target_counts.sum(axis=0).tolist()),
        pairs,
        float(good_pairs.mean()),
        len(n_best_lists) - pairs,
        area_under_roc(confidences, good_pairs),
        calibration_error(reliability),
        reliability,
    )


def _count_tokens(rows: Sequence[Sequence[int]], tokenizer: Tokenizer) -> np.ndarray:
    """Returns the number of times that each token occurs in rows of ids, int64 `(V,)`."""
    ids = np.array([token for row in rows for token in row], int)
    return np.bincount(ids, minlength=tokenizer.vocabulary_size)


def _fit_or_share(features: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Returns the coefficients of a logistic regression, then the constant.

    With fewer than `LEAST_OF_A_KIND` outcomes of a kind, all coefficients are 0, and the probability is the share of
    true outcomes, with one more of each kind (Laplace's rule).
    """
    true = int(outcomes.sum())
    false = len(outcomes) - true
    if min(true, false) >= LEAST_OF_A_KIND:
        return fit_logistic(features, outcomes)
    return np.r_[np.zeros(features.shape[1]), np.log((true + 1) / (false + 1))]


def _report(fitted: Confidence, seconds: float) -> None:
    """Logs the figures of a fit, and whether the validation set has too few good or bad translations."""
    good = round(fitted.good * fitted.pairs)
    figures = f"{good:,} of {fitted.pairs:,} translations are good (chrF >= {fitted.good_chrf:g})"
    if min(good, fitted.pairs - good) < LEAST_OF_A_KIND:
        log.warning(
            "confidence: %s, and at least %d of each kind are needed to tell them apart: so all readable sentences "
            "have nearly the same confidence; fitted in %.0f s",
            figures,
            LEAST_OF_A_KIND,
            seconds,
        )
        return
    log.warning(
        "confidence: %s; cross-fitted AUROC %.3f, calibration error %.1f %%; fitted in %.0f s",
        figures,
        fitted.auroc,
        100 * fitted.calibration_error,
        seconds,
    )


def _check_text(run: TrainedRun, is_saved: bool) -> None:
    """Raises an `InputError` unless the validation set of a run is there.

    Args:
        run: the run.
        is_saved: True if there is a saved confidence, which was fitted for other weights or settings.
    """
    settings = run.config.data.validation
    if settings is not None and (missing := missing_file(settings)) is None:
        return
    path = run.directory.confidence
    reason = (
        f"{run.directory.config}: data.validation is null" if settings is None else f"{missing}: there is no such file"
    )
    advice = (
        f"{path} was fitted for other weights or settings of decoding: use those again"
        if is_saved
        else f"expected a validation set with references, or a {path.name} in the run, from where its text is"
    )
    raise InputError(f"{reason}, so the confidence of translations cannot be fitted; {advice}")


CONFIDENCE_FORMAT = 1
"""The version of the format of `confidence.json`."""

_COUNTS = "source_counts", "target_counts"
_FITS = TypeAdapter(list[Confidence], config=ConfigDict(extra="forbid"))


def save_confidence(run: TrainedRun, fitted: Confidence) -> None:
    """Writes a confidence into the run as `confidence.json`; nothing for an ensemble, or if `keeps_choices` is False.

    Args:
        run: the run, with the settings of decoding for which the confidence was fitted.
        fitted: the confidence.
    """
    if isinstance(run, TrainedEnsemble) or not keeps_choices(run):
        return
    content: dict[str, Any] = {"format": CONFIDENCE_FORMAT, **asdict(fitted)}
    content["auroc"] = None if np.isnan(fitted.auroc) else fitted.auroc
    content["reliability"] = [row._asdict() for row in fitted.reliability]
    content |= {name: " ".join(map(str, content[name])) for name in _COUNTS}  # a line each
    with suppress(OSError):  # the run may be read-only
        write_json(run.directory.confidence, content | {"fitted_for": _chosen_by(run)})


def _read(path: Path) -> tuple[Confidence, dict[str, Any]] | None:
    """Returns the content of `confidence.json`: the confidence, and what it was fitted for; None if there is none.

    Raises:
        InputError: the file is damaged.
    """
    if not path.exists():
        return None
    try:
        content = read_json_object(path)
        if content.pop("format") != CONFIDENCE_FORMAT:
            raise ValueError(f"expected format {CONFIDENCE_FORMAT}")
        fitted_for = dict(content.pop("fitted_for"))
        content |= {name: list(map(int, content[name].split())) for name in _COUNTS}
        content["auroc"] = float("nan") if content["auroc"] is None else content["auroc"]
        (fitted,) = _FITS.validate_python([content])
        numbers = (*fitted.source, *fitted.translation, fitted.good_chrf)
        if (len(fitted.source), len(fitted.translation)) != (4, 7) or not np.isfinite(numbers).all():
            raise ValueError("expected 4 coefficients in source and 7 in translation")
        if len(fitted.source_counts) != len(fitted.target_counts):
            raise ValueError("expected as many source_counts as target_counts")
    except ValidationError as error:
        problem = f"{'.'.join(map(str, error.errors()[0]['loc'][1:]))}: {error.errors()[0]['msg']}"
        raise _damaged(path, problem) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None
    return fitted, fitted_for


def _damaged(path: Path, problem: str) -> InputError:
    """Returns the error about a damaged `confidence.json`."""
    return InputError(
        f"{path}: expected the confidence that qkv translate --confidence writes, found {problem}; delete the file: it "
        f"is written again if the validation set can be read: {invocation('evaluate', path.parent, '--confidence')}"
    )


def _chosen_by(run: TrainedRun) -> dict[str, Any]:
    """Returns the weights and the settings of decoding for which a confidence is fitted, with values of JSON."""
    decoding = run.config.decoding.model_dump(exclude={"n_best", "batch_sentences"})
    return json.loads(json.dumps({"weights": run.weights_sha256(), "decoding": decoding}))
