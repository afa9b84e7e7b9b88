"""What an evaluation computes, and what it leaves alone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from pipeline.decoding import forced_graph
from pipeline.evaluation import evaluate_set as module
from pipeline.evaluation import inspected
from pipeline.evaluation.alignment import ReadoutScores
from pipeline.evaluation.request import EvaluationRequest, EvaluationSet
from pipeline.inspection import AttentionArchive
from pipeline.trained_run import load_run
from tests.conftest import SENTENCES
from tests.random_runs import random_run

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
    monkeypatch.setattr(inspected, "score_readouts", lambda *_: scored.append(True) or ReadoutScores())
    with pytest.raises(GradientsComputedError):
        module.evaluate_set(EvaluationRequest(run, EvaluationSet("test", ["a b", "b"], ["b", "a b c"])))
    assert scored  # by then


def test_weights_that_a_mechanism_mixes_are_archived_as_signed_and_measured(tokenizer, tmp_path):
    """Linformer's weights on the source may be negative."""
    run = random_run(tokenizer, tmp_path, attention={"cross": {"mechanism": "linformer", "projected_length": 3}})
    inspection = run.config.inspection.model_copy(update={"attention": ("cross", "encoder", "norms")})
    run = replace(run, config=run.config.model_copy(update={"inspection": inspection}))
    path = run.directory.tokenizer
    path.parent.mkdir(parents=True)
    path.write_bytes(tokenizer.model)
    data = EvaluationSet("own", SENTENCES[:3], SENTENCES[3:6])
    run.directory.config.touch()
    module.evaluate_set(EvaluationRequest(run, data, force_references=True))
    archive = AttentionArchive(run.directory.evaluation("own").attention)
    assert archive.manifest["signed"] == ["cross", "norms"]
    assert min(record.attention["cross"].min() for record in archive) < 0
    heads = pd.read_csv(run.directory.evaluation("own").heads)
    assert heads[["entropy", "confidence", "diagonality"]].notna().all(axis=None)
