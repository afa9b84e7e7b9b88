"""Chooses the alignment readout of an evaluation, and scores it on the set's gold alignments."""

import logging

import pandas as pd

from ..alignment.gold import GoldSet
from ..alignment.head_scores import best_row, choose_readout, head_counts, head_table, table_of_counts
from ..alignment.readout import ProbableReadout
from ..alignment.readout_choice import alignment_sites, with_probabilities
from ..inspection.recorder import AttentionRecorder
from .archive_scores import ReadoutScores, scores_of_readout, scores_with_probabilities
from .request import EvaluationRequest
from .tokenised import TokenisedSet

log = logging.getLogger(__name__)


def sites_to_read(request: EvaluationRequest) -> tuple[str, ...]:
    """Returns the attention sites among which a readout is chosen; none without gold alignments."""
    has_gold = request.data.gold is not None or request.data.choose_on is not None
    return alignment_sites(request.run.config) if has_gold else ()


def score_readouts(request: EvaluationRequest, recorder: AttentionRecorder, text: TokenisedSet) -> ReadoutScores:
    """Chooses the readout, and scores it on the set if that has gold alignments."""
    data, sites = request.data, sites_to_read(request)
    if not sites:
        return ReadoutScores()
    table = counts = None
    if data.gold is not None:
        pairs = text.pair_references(request.run.config.model.max_positions)
        counts = head_counts(recorder.record(pairs, sites=sites), data.gold)
        table = table_of_counts(counts)
    choice_table = table
    if data.choose_on is not None:
        chooser = request.run.recorder(recorder.sites, data.choose_on.units)  # usually the same one
        choice_table = _score_choice_set(chooser, data.choose_on, sites)
    if choice_table is None or choice_table.empty:
        log.warning("the model has no cross-attention: there are no alignments to read off it")
        return ReadoutScores()
    name = data.choose_on.name if data.choose_on is not None else f"the {data.set_name} set itself (optimistic)"
    readout = choose_readout(choice_table, name)
    if data.choose_on is not None:
        aer = float(best_row(choice_table)["aer"])
        readout = with_probabilities(readout, request.run, chooser, data.choose_on, aer)
    if data.gold is None or table is None or counts is None:
        return ReadoutScores(readout)
    if isinstance(readout, ProbableReadout):
        pairs = text.pair_references(request.run.config.model.max_positions)
        return scores_with_probabilities(readout, counts, table, data.gold, recorder.record(pairs, sites=["cross"]))
    return scores_of_readout(readout, counts, table, data.gold)


def _score_choice_set(recorder: AttentionRecorder, gold_set: GoldSet, sites: tuple[str, ...]) -> pd.DataFrame:
    records = recorder.record_references(gold_set.corpus.source, gold_set.corpus.target, sites=sites)
    return head_table(records, gold_set)
