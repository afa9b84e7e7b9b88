"""What the viewer shows of attention that was written before: of an evaluation, or of the probes over training."""

from pathlib import Path

from pipeline.errors import InputError
from pipeline.evaluation.translations import read_translations
from pipeline.inspection import AttentionArchive
from pipeline.inspection.page import ViewerRun
from pipeline.run_directory import RunDirectory
from pipeline.training.probe_archive import probe_archives

MOST_STAGES = 8  # side by side


def viewer_run(root: Path, name: str, sentences: int) -> ViewerRun:
    """The first sentences of the evaluation on a set.

    Raises:
        InputError: there is none, or it is damaged.
    """
    evaluation = RunDirectory.open(root).evaluation(name)
    archive = AttentionArchive(evaluation.attention)
    scores: list[float] = []
    if evaluation.translations.is_file():
        table = read_translations(evaluation.translations)
        scores = table["sentence_bleu"].tolist() if "sentence_bleu" in table else []
    return ViewerRun(root.name, scores=scores).add_all(archive[i] for i in archive.ids[:sentences])


def stages_of_training(root: Path) -> list[ViewerRun]:
    """The probes of a run at several validations, evenly spread, the first and the last among them.

    Raises:
        InputError: no probe has a reference, or an archive is damaged.
    """
    archives = probe_archives(RunDirectory.open(root).probes)
    if not archives:
        raise InputError(
            f"{root}: no attention over training: none of inspection.probes has a reference, "
            "or the run is of an earlier version"
        )
    count = min(MOST_STAGES, len(archives))
    chosen = [archives[round(i * (len(archives) - 1) / max(1, count - 1))] for i in range(count)]
    return [ViewerRun(f"update {update:,}").add_all(AttentionArchive(path)) for path, update in chosen]
