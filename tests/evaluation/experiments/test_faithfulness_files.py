"""What an evaluation writes about faithfulness, without gold alignments; with them, it is journeys/test_end_to_end."""

import logging

import numpy as np
import pandas as pd
import pytest

from qkv.alignment.readout import aligned_sites
from qkv.evaluation.experiments import SHOWN_ROWS, write_faithfulness
from qkv.evaluation.request import EvaluationRequest, EvaluationSet, TokenisedSet
from qkv.files.run_directory import EvaluationDirectory
from qkv.run.trained_run import load_run
from tests.support import KEPT_RUNS

KEPT = KEPT_RUNS
SOURCES, REFERENCES = ["the cat eats", "", "the apple", "a dog"], ["le chat mange", "un", "la pomme", "un chien"]


@pytest.mark.minutes
def test_the_first_sentences_are_measured_and_empty_ones_left_out(tmp_path, caplog):
    caplog.set_level(logging.INFO, "qkv")
    run = load_run(KEPT / "transformer")
    data = EvaluationSet("mine", SOURCES, REFERENCES)
    text = TokenisedSet.of(data, run.tokenizer)
    pairs = list(text.pair_references(run.config.model.max_positions))
    request = EvaluationRequest(run, data, force_references=False, experiments={"faithfulness": 3})
    folder = EvaluationDirectory(tmp_path)
    recorder = run.recorder(aligned_sites())
    said = write_faithfulness(request, text, pairs, recorder, folder)["faithfulness"]
    tokens = sum(len(pairs[i].ids[1]) - 1 for i in (0, 2))
    assert (said["sentences"], said["tokens"], said["targets"]) == (2, tokens, "translations")
    table = pd.read_csv(folder.faithfulness)
    assert (table["tokens"] == tokens).all() and "gold" not in set(table["scorer"])
    np.testing.assert_allclose(table["token_share"], tokens / sum(len(pair.ids[1]) for pair in pairs[:3]), atol=1e-6)
    assert caplog.messages[-2].split()[0] == "scorer" and caplog.messages[-2].count("\n") == SHOWN_ROWS
    assert f"first {SHOWN_ROWS} of {len(table)} rows" in caplog.messages[-1]
    assert caplog.messages[-1].endswith(str(run.directory.evaluation("mine").faithfulness))
    found = pd.read_csv(folder.faithfulness_sentences)
    assert set(found["id"]) == {0, 2} and folder.faithfulness_figure.read_bytes().startswith(b"\x89PNG")
    means = found[found["removal"] == "soft"].groupby("scorer")[["comprehensiveness", "tokens"]].sum()
    soft = table[(table["removal"] == "soft") & (table["scorer"] == "gradients")]
    assert soft["comprehensiveness"].item() == pytest.approx(
        means["comprehensiveness"]["gradients"] / means["tokens"]["gradients"], abs=1e-5
    )


def test_nothing_is_written_of_empty_sentences(tmp_path):
    run, data = load_run(KEPT / "transformer"), EvaluationSet("mine", SOURCES[1:2], REFERENCES[1:2])
    text = TokenisedSet.of(data, run.tokenizer)
    pairs = list(text.pair_references(run.config.model.max_positions))
    request = EvaluationRequest(run, data, experiments={"faithfulness": 2})
    assert write_faithfulness(request, text, pairs, run.recorder(aligned_sites()), EvaluationDirectory(tmp_path)) == {}
    assert not [*tmp_path.iterdir()]
