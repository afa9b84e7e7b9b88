"""Everything that evaluate.py writes: scores, translations, attention, heat maps and alignments of one set."""

import json
import logging
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.decoding.translator import Translation
from pipeline.evaluation.gold_alignment import Choice, GoldSet, alignment_metrics, choose_head, head_table
from pipeline.evaluation.likelihood import LikelihoodMeter
from pipeline.evaluation.scores import score_translations
from pipeline.evaluation.translations import translations_table, write_translations
from pipeline.inspection.alignment import write_pharaoh
from pipeline.inspection.archive import ArchiveWriter
from pipeline.inspection.heatmap import attention_figure, save_figure
from pipeline.inspection.measures import heads_table
from pipeline.inspection.page import ViewerRun, write_viewer
from pipeline.inspection.record import Record
from pipeline.inspection.sentences import sentence_row
from pipeline.run_directory import EvaluationDirectory, write_atomically, write_json
from pipeline.text.encoded import encode_sentences
from pipeline.trained_run import TrainedRun

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


@contextmanager
def evaluation_folder(final: EvaluationDirectory) -> Iterator[EvaluationDirectory]:
    """A folder that takes the place of `final` when everything in it is written; until then the old one stays."""
    final.root.parent.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(prefix=f".{final.root.name}.", dir=final.root.parent))
    try:
        working.chmod(0o755)
        yield EvaluationDirectory(working)
        if final.root.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{final.root.name}.old.", dir=final.root.parent))
            final.root.replace(old)
            working.replace(final.root)
            shutil.rmtree(old)
        else:
            working.replace(final.root)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise


def evaluate_set(run: TrainedRun, data: EvaluationSet, *, force_references: bool = False) -> dict[str, Any]:
    """Translates a set, scores it, and writes everything about it into the run.

    Args:
        run: the trained run.
        data: the set.
        force_references: whether the archive holds the attention over the references and not over the translations.

    Returns:
        What `metrics.json` holds.
    """
    started = time.monotonic()
    final = run.directory.evaluation(data.name)
    with evaluation_folder(final) as folder:
        metrics, translations = _scores(run, data)
        choice, alignment = _alignment(run, data, folder)
        if alignment:
            metrics["alignment"] = alignment
        tracer = run.tracer(run.config.inspection.attention)
        if force_references:
            assert data.reference is not None  # the command line's own check
            records = tracer.of_references(data.source, data.reference)
        else:
            records = tracer.of_translations(data.source, data.reference, translations, mode=run.config.decoding.kind)
        table = translations_table(data.source, data.reference, translations, tokenized=run.config.data.tokenized)
        write_translations(table, folder.translations)
        viewer = ViewerRun(
            run.directory.root.name,
            data.gold.gold if data.gold else (),
            table["sentence_bleu"].tolist() if "sentence_bleu" in table else (),
        )
        _write_records(run, folder, records, choice, viewer)
        shown = {"layer": choice.layer, "head": choice.head, "side": choice.side} if choice else {}
        write_viewer(folder.viewer, f"{run.directory.root.name}, {data.name}", [viewer], **shown)
        _draw_probes(run, folder)
        metrics["seconds"] = round(time.monotonic() - started, 2)
        write_json(folder.metrics, metrics)
    return metrics


def _scores(run: TrainedRun, data: EvaluationSet) -> tuple[dict[str, Any], list[Translation]]:
    log.info("%s: translating %d sentences", data.name, len(data.source))
    started = time.monotonic()
    translations = run.translator().translate(data.source)
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
        meter = LikelihoodMeter(run.model, source, target, max_positions=run.config.model.max_positions)
        likelihood = meter.measure()
        metrics.update(
            loss=likelihood.loss,
            perplexity=likelihood.perplexity,
            token_accuracy=likelihood.token_accuracy,
            sentences_too_long_for_loss=meter.too_long,
        )
    return metrics, translations


def _alignment(
    run: TrainedRun, data: EvaluationSet, folder: EvaluationDirectory
) -> tuple[Choice | None, dict[str, Any] | None]:
    if data.gold is None and data.choose_on is None:
        return None, None
    tracer = run.tracer(("cross",))
    table = head_table(tracer, data.gold) if data.gold is not None else None
    choose_on = head_table(tracer, data.choose_on) if data.choose_on is not None else table
    if choose_on is None or choose_on.empty:
        log.warning("the model has no cross-attention: there are no alignments to read off it")
        return None, None
    if data.choose_on is not None:
        choice = choose_head(choose_on, data.choose_on.name)
    else:
        assert data.gold is not None
        choice = choose_head(choose_on, f"{data.gold.name} itself, which flatters")
    if table is None or data.gold is None:
        return choice, None
    write_atomically(folder.head_alignment, table.to_csv(index=False).encode())
    return choice, alignment_metrics(table, choice, data.gold)


def _write_records(
    run: TrainedRun, folder: EvaluationDirectory, records: Iterable[Record], choice: Choice | None, viewer: ViewerRun
) -> None:
    """Writes the archive, and on the way what is measured, drawn and shown of its sentences."""
    log.info("writing the attention of every layer and head")
    settings = run.config.inspection
    links, rows = [], []

    def written() -> Iterator[Record]:
        manifest = _archive_manifest(run)
        with ArchiveWriter(
            folder.attention, manifest=manifest, sentences_per_shard=settings.sentences_per_shard
        ) as archive:
            for record in records:
                archive.append(record)
                if record.id < settings.heatmap_sentences:
                    _draw(record, folder.heatmaps, f"sentence-{record.id:06d}")
                if record.id < settings.viewer_sentences:
                    viewer.add(record)
                if choice is not None:
                    links.append(choice.links(record))
                rows.append(sentence_row(record))
                yield record

    write_atomically(folder.heads, heads_table(written()).to_csv(index=False).encode())
    write_atomically(folder.sentences, pd.DataFrame(rows).to_csv(index=False, float_format="%.4f").encode())
    if choice is not None:
        write_pharaoh(folder.alignments, links)


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
    translations = run.translator().translate(sources)
    references = [probe.reference or "" for probe in probes]
    for record in run.tracer(("cross",)).of_translations(
        sources, references, translations, mode=run.config.decoding.kind
    ):
        _draw(record, folder.heatmaps, f"probe-{record.id:06d}")
