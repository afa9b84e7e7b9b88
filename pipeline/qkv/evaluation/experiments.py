"""The experiments on the heads of an evaluated run, and their files.

To add an experiment, add its functions to `EXPERIMENT_RUNNERS`, its name to `config.choices.inspection.EXPERIMENTS`,
and an option of this name to `commands.evaluate`."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pandas as pd

from ..alignment.readout import aligned_sites
from ..alignment.word_matrix import group_words
from ..files.run_directory import EvaluationDirectory
from ..inspection.experiments.faithfulness import Scorer, draw_noise, faithfulness_table, score_sources
from ..inspection.experiments.faithfulness_plot import faithfulness_figure
from ..inspection.experiments.intervention import cross_attention_layers
from ..inspection.experiments.logit_parts import source_logits
from ..inspection.experiments.perturbation import check_perturbable, perturbation_effects
from ..inspection.experiments.removal import SEED, ScoredSentence, measure_sentences
from ..inspection.experiments.score_parts import has_known_parts, shared_float64
from ..inspection.experiments.spectra import compares_by_product, query_key_kernels, spectra_table
from ..inspection.heatmap import save_figure
from ..inspection.record import Record
from ..inspection.recorder import AttentionRecorder, ForcedPair
from ..runtime.devices import parallel_batches
from ..text.corpora.word_links import GoldAlignment
from ..text.tokens.special_tokens import BOS, EOS
from .request import EvaluationRequest, TokenisedSet
from .tables import write_csv

SHOWN_ROWS = 6
"""The number of rows of an experiment's table that are logged."""

log = logging.getLogger(__name__)


def write_faithfulness(
    request: EvaluationRequest,
    text: TokenisedSet,
    pairs: Sequence[ForcedPair],
    recorder: AttentionRecorder,
    folder: EvaluationDirectory,
) -> dict[str, Any]:
    """Measures the faithfulness of attention, and writes `faithfulness.csv`, `faithfulness_sentences.csv` and a figure.

    Gold links belong to the words of the references. A set with gold alignments is therefore measured on its
    references, any other set on the pairs whose attention was recorded.

    Args:
        request: the request; `experiments["faithfulness"]` is the number of first sentences to measure.
        text: the set with its tokens.
        pairs: the pairs whose attention was recorded.
        recorder: the recorder of these pairs.
        folder: the folder of the evaluation.

    Returns:
        The entries of `metrics.json`; empty if no target token can be measured.
    """
    started = time.monotonic()
    run, data = request.run, request.data
    if data.gold is not None:
        pairs = list(text.pair_references(run.config.model.max_positions))
        recorder = run.recorder(recorder.sites, data.gold.units)  # usually the same recorder
    pairs = pairs[: request.experiments["faithfulness"]]
    log.info("measuring the faithfulness of attention on %d sentences", len(pairs))
    scored = _score_sentences(request, pairs, recorder)
    sentences = measure_sentences(run.model, scored, threads=parallel_batches())
    if sentences.empty:
        log.warning("the first %d sentences have no target token to measure: no faithfulness.csv", len(pairs))
        return {}
    tokens = int(sentences.groupby("id")["tokens"].first().sum())
    table = faithfulness_table(sentences, tokens / sum(len(pair.translation.ids) for pair in pairs))
    write_csv(sentences, folder.faithfulness_sentences, float_format="%.6f")
    write_csv(table, folder.faithfulness, float_format="%.6f")
    measured = sentences["id"].nunique()
    title = f"{run.directory.root.name}, {data.name}: {measured} sentences, {tokens} target tokens"
    save_figure(faithfulness_figure(table, title), folder.faithfulness_figure)
    seconds = round(time.monotonic() - started, 2)
    columns = ["scorer", "layer", "head", "removal", "comprehensiveness", "sufficiency"]
    _show(table[columns], run.directory.evaluation(data.name).faithfulness, seconds)
    targets = "references" if data.gold is not None or request.force_references else "translations"
    return {"faithfulness": {"sentences": measured, "tokens": tokens, "targets": targets, "seconds": seconds}}


def _score_sentences(
    request: EvaluationRequest, pairs: Sequence[ForcedPair], recorder: AttentionRecorder
) -> Iterator[ScoredSentence]:
    """Yields each pair with the scores that all scorers give its source tokens.

    With gold alignments, only target tokens with a link are measured. Without gold alignments, all target tokens but
    EOS are measured.
    """
    gold_set = request.data.gold
    for number, record in enumerate(recorder.record(pairs, sites=aligned_sites())):
        noise = draw_noise(record, SEED)
        gold = score_gold(record, gold_set.gold[number], gold_set.word_counts[number]) if gold_set else None
        measured = np.array([word is not None for word in record.target_words], bool)
        if gold is not None:
            measured &= gold.any(axis=1)
        scores = score_sources(record, noise, gold)
        source_ids, target_ids = pairs[number].ids
        if has_known_parts(request.run.model):
            model = shared_float64(request.run.model, request.run.graphs)
            parts = source_logits(model, ([*source_ids, EOS], [BOS, *target_ids[:-1]]), target_ids)
            scores[Scorer("logits")] = np.maximum(parts[:, :-1], 0)
        yield ScoredSentence(record.id, source_ids, target_ids, scores, noise, measured)


SURE = 1.0
POSSIBLE = 0.5
# The score of a token without a link is this, halved for each token of distance to the nearest linked token. It is so
# small that it changes the order of tokens, but not the shares of the linked tokens.
NEARBY = 1e-6


def score_gold(record: Record, gold: GoldAlignment, word_counts: tuple[int, int]) -> np.ndarray:
    """Scores the source tokens for each target token by the gold links of their words.

    Args:
        record: a record whose target is the reference.
        gold: the gold links. All of them are inside the sentence.
        word_counts: the numbers of source words and of target words.

    Returns:
        float `(T, n)` for the T target tokens and the n source tokens without EOS. The score is 1 if the words of both
        tokens have a sure link, and 0.5 if they have a possible link. Otherwise it is `NEARBY / 2 ** distance`, with
        the distance, in tokens, to the nearest linked source token; or 0 if the target token has no link.
    """
    source, target = map(group_words, (record.source_words, record.target_words), word_counts)
    # The last group holds the words without a token. EOS is put there too, since its links do not count either.
    columns, rows = (
        np.array([-1 if group is None else group for group in side.of_tokens], int) for side in (source, target)
    )
    group_scores = np.zeros((target.number, source.number))
    for links, score in ((gold.possible, POSSIBLE), (gold.sure, SURE)):
        for i, j in links:
            groups = target.of_words[j], source.of_words[i]
            group_scores[groups] = max(group_scores[groups], score)
    group_scores[-1] = 0
    group_scores[:, -1] = 0
    scores = group_scores[rows][:, columns[:-1]]
    positions = np.arange(scores.shape[1])
    near = 2.0 ** -np.abs(positions[:, None] - positions)
    return np.where(scores > 0, scores, NEARBY * ((scores > 0)[:, None, :] * near).max(axis=-1, initial=0.0))


def write_spectra(model: keras.Model, path: Path) -> None:
    """Writes a CSV file with the spectra of a model's heads, see `inspection.experiments.spectra.spectra_table`.

    Nothing is written unless the model is a Transformer whose cross-attention compares queries and keys by a product.
    """
    layers = cross_attention_layers(model)
    if layers and compares_by_product(layers[0]):
        kernels = [query_key_kernels(layer) for layer in layers]
        write_csv(spectra_table(kernels, layers[0].num_heads), path, float_format="%.6f")


def write_perturbation(
    request: EvaluationRequest,
    text: TokenisedSet,
    pairs: Sequence[ForcedPair],
    recorder: AttentionRecorder,
    folder: EvaluationDirectory,
) -> dict[str, Any]:
    """Measures the effect of replacing each head, and writes `perturbation.csv` and `perturbation_sentences.csv`.

    Pairs with an empty side are left out.

    Args:
        request: the request; `experiments["perturb"]` is the number of first sentences to measure.
        text: the set with its tokens; not used.
        pairs: the pairs whose attention was recorded.
        recorder: the recorder of these pairs; not used.
        folder: the folder of the evaluation.

    Returns:
        The entries of `metrics.json`; empty if all pairs have an empty side.
    """
    started = time.monotonic()
    pairs = pairs[: request.experiments["perturb"]]
    log.info("replacing the attention of each head in turn on %d sentences", len(pairs))
    rows = [row for row, pair in enumerate(pairs) if pair.ids[0] and pair.ids[1] != [EOS]]
    if not rows:
        log.warning("the first %d sentences are empty on one side: no perturbation.csv", len(pairs))
        return {}
    ids = [pairs[row].ids for row in rows]
    effects = perturbation_effects(request.run.model, ids, threads=parallel_batches()).in_larger_set(len(pairs), rows)
    table = effects.table()
    write_csv(table, folder.perturbation, float_format="%.6f")
    write_csv(effects.sentences(), folder.perturbation_sentences, float_format="%.6f")
    seconds = round(time.monotonic() - started, 2)
    columns = ["layer", "head", "change", "loss_change", "argmax_changed"]
    largest = table[columns].sort_values("loss_change", ascending=False, kind="stable")
    _show(largest, request.run.directory.evaluation(request.data.name).perturbation, seconds)
    return {"perturbation_seconds": seconds}


def _show(table: pd.DataFrame, file: Path, seconds: float) -> None:
    """Logs the first rows of a table.

    Args:
        table: the table.
        file: the file that will hold the whole table when the evaluation is complete.
        seconds: the duration of the experiment.
    """
    first = table.head(SHOWN_ROWS)
    log.info("%s", first.to_string(index=False, float_format="{:.3f}".format))
    log.info("these are the first %d of %d rows, after %.0f s: %s", len(first), len(table), seconds, file)


class Experiment(NamedTuple):
    """An experiment on the heads of an evaluated run.

    - run: runs the experiment, writes its files and returns its entries of `metrics.json`. Its arguments are the
      request, the set with its tokens, the pairs whose attention was recorded, their recorder and the folder of the
      evaluation.
    - sites: the sites that the recorder must have.
    - check: raises an `InputError` if the experiment does not suit a model.
    """

    run: Callable[
        [EvaluationRequest, TokenisedSet, Sequence[ForcedPair], AttentionRecorder, EvaluationDirectory], dict[str, Any]
    ]
    sites: Sequence[str] = ()
    check: Callable[[keras.Model], None] = lambda model: None


EXPERIMENT_RUNNERS = {
    "perturb": Experiment(write_perturbation, check=check_perturbable),
    "faithfulness": Experiment(write_faithfulness, sites=aligned_sites()),
}
"""The experiments by the name of their option."""
