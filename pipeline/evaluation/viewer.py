"""What the viewer shows of an evaluation that was written before."""

from pathlib import Path

from pipeline.evaluation.translations import read_translations
from pipeline.inspection import AttentionArchive
from pipeline.inspection.page import ViewerRun
from pipeline.run_directory import RunDirectory


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
