"""The choice of a run's beam size and length penalty on its validation set: `evaluate.py RUN --tune`.

A beam extends hypotheses by their log-probabilities alone. The length penalty only ranks the finished hypotheses. So
each beam is searched once, without a penalty, and all its finished hypotheses are kept. Each penalty then ranks them
again.
"""

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..config.decoding import DecodingSettings
from ..config.run import TUNED, load_started_run
from ..config.yaml import dump_yaml
from ..decoding.beam import BeamSettings
from ..decoding.build import build_search, build_translator
from ..decoding.translator import Translation
from ..files.atomic import write_atomically
from ..metrics.bleu import score_bleu
from ..run.trained_run import TrainedRun
from ..text.tokens.special_tokens import EOS
from .request import read_configured_set

TRIED_BEAM_SIZES = (5, 10)
"""The beam sizes that are tried, with the run's beam size."""

PENALTIES = tuple(number / 5 for number in range(16))
"""The length penalties that are tried, with the run's penalty: 0 to 3."""

MOST_TUNING_SENTENCES = 2000
"""At most this many sentences of the validation set are translated, at equal distances."""

log = logging.getLogger(__name__)


def tune(run: TrainedRun) -> None:
    """Finds the beam size and the length penalty with the highest BLEU, and writes them to the run's `decoding.yaml`.

    BLEU is compared to one decimal. If no other settings score higher than the run's config, `decoding.yaml` is
    deleted. If several other settings share the highest BLEU, the smallest beam is chosen, and then the penalty closest
    to the config's penalty.

    Args:
        run: the run. All other settings of the search are taken from its config.

    Raises:
        InputError: the validation set cannot be read.
    """
    data = read_configured_set(run, "validation", "validation")
    assert data.reference is not None
    rows = range(0, len(data.source), -(-len(data.source) // MOST_TUNING_SENTENCES))
    sources = [data.source[row] for row in rows]
    references = [data.reference[row] for row in rows]
    log.info("choosing %s on %d sentences of the validation set", " and ".join(TUNED), len(rows))
    settings = load_started_run(run.directory.config).decoding
    configured = settings.beam_size, settings.length_penalty
    scores: dict[tuple[int, float], float] = {}  # BLEU by beam size and penalty
    for beam in sorted({configured[0], *(size for size in TRIED_BEAM_SIZES if size >= settings.n_best)}):
        for penalty, translations in _translate(run, sources, beam, sorted({configured[1], *PENALTIES})):
            texts = [translation.text for translation in translations]
            scores[beam, penalty] = score_bleu(texts, references, tokenizer=run.config.data.scoring_tokenizer)
        best = max((choice for choice in scores if choice[0] == beam), key=lambda choice: scores[choice])
        log.info("beam_size %d: BLEU %.2f with length_penalty %g", beam, scores[best], best[1])

    def preference(choice: tuple[int, float]) -> tuple[Any, ...]:
        beam, penalty = choice
        return round(scores[choice], 1), choice == configured, -beam, -abs(penalty - configured[1])

    chosen = max(scores, key=preference)
    if chosen == configured:
        run.directory.decoding.unlink(missing_ok=True)
        log.info("none does better than the run's own settings: BLEU %.2f", scores[configured])
        return
    comparison = f"BLEU {scores[chosen]:.2f}, {scores[configured]:.2f} with config.yaml alone"
    heading = f"# evaluate.py --tune: validation {comparison}\n"
    values = dump_yaml(dict(zip(TUNED, chosen, strict=True)))
    write_atomically(run.directory.decoding, f"{heading}{values}".encode())
    message = "%s: beam_size %d, length_penalty %g: BLEU %.2f instead of %.2f"
    log.info(message, run.directory.decoding, *chosen, scores[chosen], scores[configured])


def _translate(
    run: TrainedRun, sources: list[str], beam: int, penalties: list[float]
) -> Iterator[tuple[float, list[Translation]]]:
    """Yields each length penalty with the translations that a search with this beam size and penalty finds.

    One search serves all penalties if the penalty only ranks finished hypotheses. Otherwise each penalty has a separate
    search.
    """
    settings = run.config.decoding.model_copy(update={"beam_size": beam, "n_best": 1})
    if settings.beam_end == "full" and not settings.coverage_penalty:
        # A beam of K has at most 2 K - 1 finished hypotheses.
        all_finished = {"length_penalty": 0.0, "n_best": 2 * beam - 1}
        n_best_lists = _search(run, sources, settings.model_copy(update=all_finished))
        for penalty in penalties:
            divisor = BeamSettings(length_penalty=penalty, divisor=settings.length_divisor).length_divisor
            divisors = np.asarray(divisor(np.arange(run.config.model.max_positions + 1)))
            yield penalty, [best_finished(n_best, divisors) for n_best in n_best_lists]
        return
    for penalty in penalties:
        n_best_lists = _search(run, sources, settings.model_copy(update={"length_penalty": penalty}))
        yield penalty, [n_best[0] for n_best in n_best_lists]


def _search(run: TrainedRun, sources: list[str], settings: DecodingSettings) -> list[list[Translation]]:
    """Returns the n-best list of each source, by a search with these settings."""
    search = build_search(settings, run.config.run.seed)
    translator = build_translator(run.model, run.tokenizer, run.config, search)
    return translator.translate_ids(run.tokenizer.encode(sources))


def best_finished(hypotheses: list[Translation], divisors: np.ndarray) -> Translation:
    """Returns the translation that a beam search with a length penalty would choose.

    Truncated hypotheses are chosen only if no hypothesis is finished. Of equal scores, the shorter hypothesis wins.

    Args:
        hypotheses: all finished and truncated hypotheses of a sentence, scored without a penalty.
        divisors: the divisor of the log-probability of a translation of n tokens, at index n; `(longest + 1,)`.
    """
    finished = [hypothesis for hypothesis in hypotheses if hypothesis.ids[-1] == EOS] or hypotheses
    by_length = sorted(finished, key=lambda hypothesis: len(hypothesis.ids))  # short ones finished first
    totals = np.array([hypothesis.score for hypothesis in by_length], np.float32)
    lengths = [len(hypothesis.ids) for hypothesis in by_length]
    return by_length[int(np.argmax(totals / divisors[lengths]))]
