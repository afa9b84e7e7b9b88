"""Everything that evaluate.py writes: scores, translations, attention, heat maps and alignments of one set."""

import json
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import pandas as pd

from ..alignment.gold import GoldSet, alignment_metrics, alignment_sites, choose_readout, head_table
from ..alignment.readout import ChosenReadout
from ..decoding.translator import Translation
from ..files import write_atomically, write_json
from ..inspection.archive_writer import ArchiveWriter
from ..inspection.forced_pairs import ForcedPair, pair_references, pair_translations
from ..inspection.heads_table import HeadsMeter
from ..inspection.heatmap import attention_figure, save_figure
from ..inspection.measures import measure_site
from ..inspection.perturbation import check_perturbable, cross_attention_layers, perturbation_table
from ..inspection.record import Record
from ..inspection.recorder import AttentionRecorder
from ..inspection.sentences import sentence_row
from ..inspection.spectra import spectra_table
from ..inspection.viewer.page import ViewerRun, write_viewer
from ..metrics import MetricInputs, measure_all
from ..metrics.bleu import score_translations
from ..metrics.likelihood import LikelihoodMeter
from ..run_directory import EvaluationDirectory
from ..runtime.devices import parallel_batches
from ..text.encoded import encode_sentences
from ..text.pharaoh import write_pharaoh
from ..trained_run import TrainedRun
from .resumable import archived, evaluation_folder, fingerprint, translate_in_parts
from .translations import translations_table, write_translations

PRODUCTS = ("scaled_dot", "dot")  # scores that are `q k^T`, up to a factor

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluationSet:
    """What is evaluated.

    Args:
        name: of the set, and of its folder.
        source: the sentences to translate.
        reference: their given translations, or None.
        gold: gold alignments of these pairs, or None.
        choose_on: the set on which layer, head and side are chosen, or None for this one.
    """

    name: str
    source: Sequence[str]
    reference: Sequence[str] | None = None
    gold: GoldSet | None = None
    choose_on: GoldSet | None = None


def evaluate_set(
    run: TrainedRun, data: EvaluationSet, *, force_references: bool = False, perturbed: int = 0
) -> dict[str, Any]:
    """Translates a set, scores it, and writes everything about it into the run.

    Args:
        run: the trained run.
        data: the set.
        force_references: whether the archive holds the attention over the references and not over the translations.
        perturbed: on how many sentences heads are replaced in turn, see `perturbation_table`.

    Returns:
        What `metrics.json` holds.
    """
    started = time.monotonic()
    if perturbed:
        check_perturbable(run.model)  # before anything is made
    final = run.directory.evaluation(data.name)
    what = {"set": data, "force_references": force_references}
    with evaluation_folder(final, fingerprint(run, **what)) as folder:
        metrics, translations = _scores(run, data, folder)
        metrics["scores_seconds"] = round(time.monotonic() - started, 2)
        choice, alignment = _alignment(run, data, folder)
        if alignment:
            metrics["alignment"] = alignment
        recorder = run.recorder([*run.config.inspection.attention, *([choice.site] if choice else [])])
        if force_references:
            assert data.reference is not None  # the command line's own check
            source_ids, reference_ids = (run.tokenizer.encode(side).to_list() for side in (data.source, data.reference))
            longest = run.config.model.max_positions
            pairs = list(pair_references(data.source, data.reference, source_ids, reference_ids, longest))
        else:
            pairs = list(pair_translations(data.source, data.reference, translations, run.config.decoding.kind))
        table = translations_table(data.source, data.reference, translations, tokenized=run.config.data.tokenized)
        write_translations(table, folder.translations)
        viewer = ViewerRun(
            run.directory.root.name,
            data.gold.gold if data.gold else (),
            table["sentence_bleu"].tolist() if "sentence_bleu" in table else (),
        )
        _write_records(run, folder, recorder, pairs, choice, viewer)
        shown = {key: getattr(choice, key) for key in ("site", "layer", "head", "side")} if choice else {}
        write_viewer(folder.viewer, f"{run.directory.root.name}, {data.name}", [viewer], **shown)
        _draw_probes(run, folder)
        _write_spectra(run, folder)
        if perturbed:
            ids_of_pairs = [(pair.source_ids, pair.target_ids) for pair in pairs[:perturbed]]
            metrics["perturbation_seconds"] = _perturb(run, folder, ids_of_pairs)
        metrics["seconds"] = round(time.monotonic() - started, 2)
        shutil.rmtree(folder.parts)
        write_json(folder.metrics, metrics)
    return metrics


def _scores(
    run: TrainedRun, data: EvaluationSet, folder: EvaluationDirectory
) -> tuple[dict[str, Any], list[Translation]]:
    log.info("%s: translating %d sentences", data.name, len(data.source))
    started = time.monotonic()
    translations = translate_in_parts(run.translator, data.source, folder.parts)
    seconds = time.monotonic() - started
    metrics: dict[str, Any] = {
        "set": data.name,
        "sentences": len(data.source),
        "search": run.config.decoding.kind,
        "decoding": run.config.decoding.model_dump(),
        "truncated": sum(translation.truncated for translation in translations),
        "translation_seconds": round(seconds, 2),
    }
    if data.reference is not None:
        texts = [translation.text for translation in translations]
        metrics.update(score_translations(texts, data.reference, tokenized=run.config.data.tokenized))
        source, target = (encode_sentences(side, run.tokenizer) for side in (data.source, data.reference))
        # The archive's graph, which takes seconds to trace; but gradients would be computed for nothing.
        read = run.recorder([site for site in run.config.inspection.attention if site != "gradients"]).read
        meter = LikelihoodMeter(
            read, source, target, max_positions=run.config.model.max_positions, workers=parallel_batches()
        )
        likelihood = meter.measure()
        inputs = MetricInputs(texts, data.reference, likelihood, run.config.data.tokenized)
        metrics.update(measure_all(inputs), sentences_too_long_for_loss=meter.too_long)
    return metrics, translations


def _alignment(
    run: TrainedRun, data: EvaluationSet, folder: EvaluationDirectory
) -> tuple[ChosenReadout | None, dict[str, Any] | None]:
    if data.gold is None and data.choose_on is None:
        return None, None
    recorder = run.recorder(alignment_sites(run.config))

    def score(gold_set: GoldSet) -> pd.DataFrame:
        return head_table(recorder.record_references(gold_set.corpus.source, gold_set.corpus.target), gold_set)

    table = score(data.gold) if data.gold is not None else None
    choose_on = score(data.choose_on) if data.choose_on is not None else table
    if choose_on is None or choose_on.empty:
        log.warning("the model has no cross-attention: there are no alignments to read off it")
        return None, None
    if data.choose_on is not None:
        choice = choose_readout(choose_on, data.choose_on.name)
    else:
        assert data.gold is not None
        choice = choose_readout(choose_on, f"{data.gold.name} itself, which flatters")
    if table is None or data.gold is None:
        return choice, None
    write_atomically(folder.head_alignment, table.to_csv(index=False).encode())
    return choice, alignment_metrics(table, choice, data.gold)


def _write_records(
    run: TrainedRun,
    folder: EvaluationDirectory,
    recorder: AttentionRecorder,
    pairs: Sequence[ForcedPair],
    choice: ChosenReadout | None,
    viewer: ViewerRun,
) -> None:
    """Writes the archive, and on the way what is measured, drawn and shown of its sentences."""
    log.info("writing the attention of every layer and head")
    settings = run.config.inspection
    links, rows, heads = [], [], HeadsMeter()
    with ArchiveWriter(
        folder.attention,
        manifest=_archive_manifest(run),
        sentences_per_shard=settings.sentences_per_shard,
        go_on=True,
    ) as archive:
        for record in archived(archive, recorder, pairs):
            measures = measure_site(record)
            heads.add(record, measures)
            rows.append(sentence_row(record, measures))
            if record.id < settings.drawn_sentences:
                _draw(record, folder.heatmaps, f"sentence-{record.id:06d}")
            if record.id < settings.viewer_sentences:
                viewer.add(record, rows[-1])
            if choice is not None:
                links.append(choice.links(record))
    write_atomically(folder.heads, heads.table().to_csv(index=False).encode())
    write_atomically(folder.sentences, pd.DataFrame(rows).to_csv(index=False, float_format="%.4f").encode())
    if choice is not None:
        write_pharaoh(folder.alignments, links)


def _perturb(run: TrainedRun, folder: EvaluationDirectory, pairs: Sequence[tuple[list[int], list[int]]]) -> float:
    """Writes what replacing heads does, and returns how many seconds that took."""
    started = time.monotonic()
    log.info("replacing the attention of each head in turn on %d sentences", len(pairs))
    table = perturbation_table(run.model, pairs, workers=parallel_batches())
    write_atomically(folder.perturbation, table.to_csv(index=False, float_format="%.6f").encode())
    seconds = round(time.monotonic() - started, 2)
    log.info("that took %.0f s", seconds)
    return seconds


def _write_spectra(run: TrainedRun, folder: EvaluationDirectory) -> None:
    """Of a Transformer whose heads compare by a product of queries and keys."""
    layers = cross_attention_layers(run.model)
    if not layers or not layers[0].projection or layers[0].mechanism.score_name not in PRODUCTS:
        return
    kernels = [
        tuple(keras.ops.convert_to_numpy(side.kernel) for side in (layer.query_projection, layer.key_projection))
        for layer in layers
    ]
    table = spectra_table(kernels, layers[0].num_heads)
    write_atomically(folder.spectra, table.to_csv(index=False, float_format="%.6f").encode())


def _archive_manifest(run: TrainedRun) -> dict[str, Any]:
    kept = ("versions", "git_commit", "model_sha256", "tokenizer_sha256")
    try:
        manifest = json.loads(run.directory.manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a run that still trains has none
        return {"run": run.directory.root.name}
    return {"run": run.directory.root.name, **{name: manifest.get(name) for name in kept}}


def _draw(record: Record, folder: Path, name: str) -> None:
    for layer in range(len(record.attention["cross"])):
        path = folder / f"{name}-cross-layer-{layer}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_figure(attention_figure(record, "cross", layer), path)


def _draw_probes(run: TrainedRun, folder: EvaluationDirectory) -> None:
    probes = run.config.inspection.probes
    if not probes:
        return
    sources = [probe.source for probe in probes]
    translations = run.translator.translate(sources)
    references = [probe.reference or "" for probe in probes]
    for record in run.recorder(("cross",)).record_translations(
        sources, references, translations, mode=run.config.decoding.kind
    ):
        _draw(record, folder.heatmaps, f"probe-{record.id:06d}")
