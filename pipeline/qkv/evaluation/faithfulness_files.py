"""Measures how far attention can be believed, and writes what is found."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..alignment.readout import aligned_sites
from ..alignment.token_gold import score_gold
from ..files.run_directory import EvaluationDirectory
from ..inspection.experiments.faithfulness import draw_noise, faithfulness_table, score_sources
from ..inspection.experiments.faithfulness_plot import faithfulness_figure
from ..inspection.experiments.removal import SEED, ScoredSentence, measure_sentences
from ..inspection.heatmap import save_figure
from ..inspection.recorder import AttentionRecorder, ForcedPair
from ..runtime.devices import parallel_batches
from .archive_tables import write_csv
from .request import EvaluationRequest
from .tokenised import TokenisedSet

log = logging.getLogger(__name__)


def write_faithfulness(
    request: EvaluationRequest,
    text: TokenisedSet,
    pairs: Sequence[ForcedPair],
    recorder: AttentionRecorder,
    folder: EvaluationDirectory,
) -> dict[str, Any]:
    """Writes faithfulness.csv, faithfulness_sentences.csv and faithfulness.png, and returns what metrics.json says of
    them.

    Gold links belong to the words of the references, so a set that has them is measured on its references; else what
    was recorded is measured.

    Args:
        request: what was asked for.
        text: the set with its tokens.
        pairs: what was recorded.
        recorder: of the sites that are scored, among others.
        folder: where the files go.
    """
    started = time.monotonic()
    run, data = request.run, request.data
    if data.gold is not None:
        pairs = list(text.pair_references(run.config.model.max_positions))
        recorder = run.recorder(recorder.sites, data.gold.units)  # usually the same one
    pairs = pairs[: request.faithful_sentences]
    log.info("measuring the faithfulness of attention on %d sentences", len(pairs))
    sentences = measure_sentences(run.model, _score(request, pairs, recorder), workers=parallel_batches())
    if sentences.empty:
        log.warning("the first %d sentences have no target token to measure: no faithfulness.csv", len(pairs))
        return {}
    tokens = int(sentences.groupby("id")["tokens"].first().sum())
    table = faithfulness_table(sentences, tokens / sum(len(pair.target_ids) for pair in pairs))
    write_csv(sentences, folder.faithfulness_sentences, float_format="%.6f")
    write_csv(table, folder.faithfulness, float_format="%.6f")
    measured = sentences["id"].nunique()
    title = f"{run.directory.root.name}, {data.name}: {measured} sentences, {tokens} target tokens"
    save_figure(faithfulness_figure(table, title), folder.faithfulness_figure)
    seconds = round(time.monotonic() - started, 2)
    log.info("that took %.0f s", seconds)
    forced = data.gold is not None or request.force_references
    targets = "references" if forced else "translations"
    return {"faithfulness": {"sentences": measured, "tokens": tokens, "targets": targets, "seconds": seconds}}


def _score(
    request: EvaluationRequest, pairs: Sequence[ForcedPair], recorder: AttentionRecorder
) -> Iterator[ScoredSentence]:
    """Scores the source tokens of each pair. With gold alignments, the target tokens that have a link are measured, for
    all scorers the same; else all but EOS."""
    gold_set = request.data.gold
    for number, record in enumerate(recorder.record(pairs, sites=aligned_sites())):
        noise = draw_noise(record, SEED)
        gold = None
        if gold_set is not None:
            gold = score_gold(record, gold_set.gold[number], gold_set.word_counts[number])
        measured = np.array([word is not None for word in record.target_words], bool)
        if gold is not None:
            measured &= gold.any(axis=1)
        scores = score_sources(record, noise, gold)
        pair = pairs[number]
        yield ScoredSentence(record.id, pair.source_ids, pair.target_ids, scores, noise, measured)
