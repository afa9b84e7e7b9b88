"""What an evaluation computes, and what it leaves alone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.decoding import forced_graph
from pipeline.evaluation import evaluate_set as module
from pipeline.evaluation.alignment import ReadoutScores
from pipeline.evaluation.request import EvaluationRequest, EvaluationSet
from pipeline.trained_run import load_run

KEPT = Path(__file__).parents[1] / "kept_runs/0.1.0/transformer"


class GradientsComputedError(Exception):
    """Stands for the work."""


def test_gradients_are_computed_for_the_archive_but_not_for_scores(monkeypatch, tmp_path):
    def compute(*batch):
        raise GradientsComputedError

    monkeypatch.setattr(forced_graph, "gradient_times_input", compute)
    shutil.copytree(KEPT, tmp_path / "run")
    run = load_run(tmp_path / "run")
    inspection = run.config.inspection.model_copy(update={"attention": ("cross", "gradients")})
    run = replace(run, config=run.config.model_copy(update={"inspection": inspection}))
    scored = []
    monkeypatch.setattr(module, "score_readouts", lambda *_: scored.append(True) or ReadoutScores())
    with pytest.raises(GradientsComputedError):
        module.evaluate_set(EvaluationRequest(run, EvaluationSet("test", ["a b", "b"], ["b", "a b c"])))
    assert scored  # by then
