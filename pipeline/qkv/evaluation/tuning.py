"""Chooses the beam and the length penalty of a run on its validation set: `evaluate.py RUN --tune`.

A beam extends hypotheses by their log-probabilities, and the length penalty says which of the finished ones wins. So
each beam is searched once, without a penalty, all that has finished in it is kept, and each penalty ranks that anew.
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

BEAMS = (5, 10)
PENALTIES = tuple(number / 5 for number in range(16))  # 0 to 3
MOST_SENTENCES = 2000
log = logging.getLogger(__name__)


def tune(run: TrainedRun) -> None:
    """Finds the beam and the length penalty of the highest BLEU on the validation set, and writes them to the run's
    `decoding.yaml`; where its own do as well, to a tenth, there is no such file afterwards.

    The run's own beam and penalty are among those that are tried. Among others that do as well, to a tenth, the smaller
    beam is chosen, and then the penalty closest to the run's.

    Args:
        run: the run, of which the config says everything else about the search.

    Raises:
        InputError: the validation set cannot be read.
    """
    data = read_configured_set(run, "validation", "validation")
    assert data.reference is not None
    rows = range(0, len(data.source), -(-len(data.source) // MOST_SENTENCES))
    sources, references = ([side[row] for row in rows] for side in (data.source, data.reference))
    log.info("choosing %s on %d sentences of the validation set", " and ".join(TUNED), len(rows))
    settings = load_started_run(run.directory.config).decoding
    own = settings.beam_size, settings.length_penalty
    scores: dict[tuple[int, float], float] = {}
    for beam in sorted({own[0], *(size for size in BEAMS if size >= settings.n_best)}):
        for penalty, translations in _translate(run, sources, beam, sorted({own[1], *PENALTIES})):
            texts = [one.text for one in translations]
            scores[beam, penalty] = score_bleu(texts, references, tokenizer=run.config.data.scoring_tokenizer)
        best = max((place for place in scores if place[0] == beam), key=lambda place: scores[place])
        log.info("beam_size %d: BLEU %.2f with length_penalty %g", beam, scores[best], best[1])

    def merit(place: tuple[int, float]) -> tuple[Any, ...]:
        return round(scores[place], 1), place == own, -place[0], -abs(place[1] - own[1])

    chosen = max(scores, key=merit)
    if chosen == own:
        run.directory.decoding.unlink(missing_ok=True)
        log.info("none does better than the run's own settings: BLEU %.2f", scores[own])
        return
    heading = f"# evaluate.py --tune: validation BLEU {scores[chosen]:.2f}, {scores[own]:.2f} with config.yaml alone\n"
    values = dump_yaml(dict(zip(TUNED, chosen, strict=True)))
    write_atomically(run.directory.decoding, f"{heading}{values}".encode())
    message = "%s: beam_size %d, length_penalty %g: BLEU %.2f instead of %.2f"
    log.info(message, run.directory.decoding, *chosen, scores[chosen], scores[own])


def _translate(
    run: TrainedRun, sources: list[str], beam: int, penalties: list[float]
) -> Iterator[tuple[float, list[Translation]]]:
    """Yields each penalty with the translations that a search with it finds."""
    settings = run.config.decoding.model_copy(update={"beam_size": beam, "n_best": 1})
    if settings.beam_end == "full" and not settings.coverage_penalty:
        every = {"length_penalty": 0.0, "n_best": 2 * beam - 1}
        found = _search(run, sources, settings.model_copy(update=every))
        for penalty in penalties:
            divisor = BeamSettings(length_penalty=penalty, divisor=settings.length_divisor).length_divisor
            divisors = np.asarray(divisor(np.arange(run.config.model.max_positions + 1)))
            yield penalty, [best_finished(n_best, divisors) for n_best in found]
        return
    for penalty in penalties:  # which counts before hypotheses have finished
        found = _search(run, sources, settings.model_copy(update={"length_penalty": penalty}))
        yield penalty, [one for one, *_ in found]


def _search(run: TrainedRun, sources: list[str], settings: DecodingSettings) -> list[list[Translation]]:
    search = build_search(settings, run.config.run.seed)
    translator = build_translator(run.model, run.tokenizer, run.config, search)
    return translator.translate_ids(run.tokenizer.encode(sources))


def best_finished(found: list[Translation], divisors: np.ndarray) -> Translation:
    """Returns the translation of a sentence that a beam with a length penalty finds.

    Args:
        found: all that has finished in the beam, scored without a penalty.
        divisors: of the log-probability of a translation, by its number of tokens.
    """
    ended = [one for one in found if one.ids[-1] == EOS] or found  # truncated ones rank last
    ended = sorted(ended, key=lambda one: len(one.ids))  # ties go to the one that ended first
    totals = np.array([one.score for one in ended], np.float32)
    return ended[int(np.argmax(totals / divisors[[len(one.ids) for one in ended]]))]
