"""What an evaluation computes, and what it leaves alone."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise

import keras
import numpy as np
import pandas as pd
import pytest

from qkv.alignment import link_probabilities
from qkv.alignment.gold import read_gold_set
from qkv.decoding import forced as forced_graph
from qkv.evaluation import evaluate_set
from qkv.evaluation.request import EvaluationRequest, EvaluationSet
from qkv.inspection import AttentionArchive
from qkv.inspection.measures import MEASURES
from qkv.metrics.likelihood import Likelihood
from qkv.run.trained_run import load_run
from qkv.text.corpora.corpus import Corpus
from tests.support import KEPT_RUNS
from tests.support.random_runs import random_run
from tests.support.text import SENTENCES


def written_run(tokenizer, folder, **settings):
    """A run with random weights, whose tokenizer is a file."""
    run = random_run(tokenizer, folder, **settings)
    run.directory.tokenizer.parent.mkdir(parents=True)
    run.directory.tokenizer.write_bytes(tokenizer.model)
    run.directory.config.touch()
    return run


class GradientsComputedError(Exception):
    """Stands for the work."""


def test_gradients_are_computed_for_the_archive_but_not_for_scores(monkeypatch, tmp_path):
    def compute(*batch):
        raise GradientsComputedError

    monkeypatch.setattr(forced_graph, "gradient_times_input", compute)
    shutil.copytree(KEPT_RUNS / "transformer", tmp_path / "run")
    run = load_run(tmp_path / "run")
    inspection = run.config.inspection.model_copy(update={"attention": ("cross", "gradients")})
    run = replace(run, config=run.config.model_copy(update={"inspection": inspection}))
    scored = []
    monkeypatch.setattr(evaluate_set.LikelihoodSum, "means", lambda sums: scored.append(True) or Likelihood(1.0, 1.0))
    with pytest.raises(GradientsComputedError):
        evaluate_set.evaluate_set(EvaluationRequest(run, EvaluationSet("test", ["a b", "b"], ["b", "a b c"])))
    assert scored  # by then


def test_weights_that_a_mechanism_mixes_are_archived_as_signed_and_measured(tokenizer, tmp_path):
    """Linformer's weights on the source may be negative."""
    run = written_run(tokenizer, tmp_path, attention={"cross": {"mechanism": "linformer", "projected_length": 3}})
    inspection = run.config.inspection.model_copy(update={"attention": ("cross", "encoder", "norms")})
    run = replace(run, config=run.config.model_copy(update={"inspection": inspection}))
    data = EvaluationSet("own", SENTENCES[:3], SENTENCES[3:6])
    evaluate_set.evaluate_set(EvaluationRequest(run, data, force_references=True))
    archive = AttentionArchive(run.directory.evaluation("own").attention)
    assert archive.manifest["signed"] == ["cross", "norms"]
    assert min(record.attention["cross"].min() for record in archive) < 0
    heads = pd.read_csv(run.directory.evaluation("own").heads)
    assert heads[["entropy", "confidence", "diagonality"]].notna().all(axis=None)


@pytest.mark.minutes
def test_pairs_with_an_empty_side_have_no_links_and_count_in_no_measure(tokenizer, tmp_path, monkeypatch):
    """The readout is calibrated, and the sets have empty pairs among others, or none."""
    monkeypatch.setattr(link_probabilities, "LEAST_PAIRS", 5)
    run = written_run(tokenizer, tmp_path)
    keras.models.save_model(run.model, run.weights)
    full = [*pairwise(SENTENCES)]
    pairs = {"with": [full[0], ("", ""), ("", "le chat"), *full[1:], ("the cat", "")], "without": full}
    for name, own in pairs.items():
        gold_set = make_gold_set(name, own, tmp_path)
        data = EvaluationSet(name, *map(list, zip(*own, strict=True)), gold_set, make_gold_set("choice", own, tmp_path))
        metrics = evaluate_set.evaluate_set(
            EvaluationRequest(run, data, force_references=True, experiments={"perturb": 20})
        )
        assert metrics["alignment"]["chosen_on"] == "choice" and "threshold" in metrics["alignment"]
    mixed, plain = (run.directory.evaluation(name) for name in pairs)
    for table in ("heads", "head_types", "perturbation", "head_alignment", "link_reliability"):
        found, expected = (pd.read_csv(getattr(one, table)) for one in (mixed, plain))
        kept = [column for column in found if not column.endswith(("_low", "_high")) and column != "p"]
        pd.testing.assert_frame_equal(found[kept], expected[kept])  # intervals are drawn among more sentences
    calibrated, expected = (json.loads(one.link_calibration.read_text()) for one in (mixed, plain))
    assert (calibrated["pairs"], calibrated["threshold"]) == (6, expected["threshold"])
    np.testing.assert_allclose(calibrated["coefficients"], expected["coefficients"], atol=1e-3)
    for name in ("alignments", "link_probabilities"):
        found, expected = (getattr(one, name).read_text().split("\n") for one in (mixed, plain))
        assert found == [expected[0], "", "", *expected[1:6], "", ""]


def make_gold_set(name, pairs, folder):
    """The first words of each pair are linked."""
    sources, targets = map(list, zip(*pairs, strict=True))
    path = folder / f"{name}.align"
    path.write_text("".join("0-0\n" if source and target else "\n" for source, target in pairs))
    return read_gold_set(name, Corpus(sources, targets, list(range(1, 1 + len(pairs))), name), path)


@pytest.mark.minutes
def test_sets_of_empty_pairs_and_text_without_references_are_evaluated(tokenizer, tmp_path):
    run = written_run(tokenizer, tmp_path)
    for name, forced in (("translated", False), ("forced", True)):
        data = EvaluationSet(name, ["", ""], ["", ""])
        evaluate_set.evaluate_set(EvaluationRequest(run, data, forced, experiments={"perturb": 2, "faithfulness": 2}))
        evaluation = run.directory.evaluation(name)
        assert pd.read_csv(evaluation.heads)[[*MEASURES]].isna().all(axis=None)
        assert not evaluation.perturbation.exists() and not evaluation.faithfulness.exists()
        assert [record.hypothesis for record in AttentionArchive(evaluation.attention)] == ["", ""]
    metrics = evaluate_set.evaluate_set(EvaluationRequest(run, EvaluationSet("own", SENTENCES[:2])))
    assert metrics["sentences"] == 2 and not {"loss", "bleu"} & metrics.keys()
