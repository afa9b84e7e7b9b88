"""Runs of earlier versions still load, translate the same and attend to the same."""

import json
import re

import numpy as np
import pytest

from qkv.inspection.recorder import pair_translations
from qkv.run.trained_run import load_run
from tests.support import ROOT
from tests.support.minutes import first_at_once

KEPT = sorted((path.parent for path in (ROOT / "tests" / "kept_runs").glob("*/*/expected.json")), reverse=True)


def test_there_are_some_of_every_architecture():
    assert {path.name for path in KEPT} == {"transformer", "recurrent", "decoder_only"}


def test_every_released_version_has_kept_its_own():
    """`python tests/kept_runs/keep.py VERSION` makes them, once."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+), \d+ \w+ \d{4}$", changes, re.MULTILINE)
    assert released and set(released) <= {path.parent.name for path in KEPT}


@pytest.mark.parametrize("path", first_at_once(KEPT, [f"{path.parent.name} {path.name}" for path in KEPT]))
def test_a_kept_run_says_what_it_said_when_it_was_saved(path):
    expected = json.loads((path / "expected.json").read_text(encoding="utf-8"))
    run, sentences = load_run(path), expected["sentences"]
    translations = run.translator.translate(sentences)
    assert [translation.text for translation in translations] == expected["translations"]
    assert len(set(expected["translations"])) > 2
    records = run.recorder(("cross",)).record(pair_translations(sentences, None, translations, "beam"))
    for record, likelihoods, attention in zip(
        records, expected["log_probabilities"], expected["attention"], strict=True
    ):
        np.testing.assert_allclose(record.token_log_probabilities, likelihoods, atol=1e-3)
        np.testing.assert_allclose(record.attention["cross"], np.array(attention, "float32"), atol=1e-3)
