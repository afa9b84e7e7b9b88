"""Every architecture trains, translates, is evaluated and shown by the same commands."""

import io
import json
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import evaluate
from qkv.commands import translate
from qkv.inspection import AttentionArchive
from qkv.run import train
from tests.support.minutes import by_hand
from tests.support.tiny_runs import ARCHITECTURES, small_config, write_small_corpus

pytestmark = [pytest.mark.minutes, pytest.mark.slow, pytest.mark.usefixtures("loaded_once")]

LAYERS = {"context_vector": 0, "decoder_only": 2}  # of cross-attention; one elsewhere


def train_small(folder, model):
    changes = {
        "model": ARCHITECTURES[model],
        "inspection.probes": [{"source": "the cat sleeps .", "reference": "le chat dort ."}],
        "decoding.beam_size": 1,  # tests/decoding searches by beam with every architecture
    }
    config = small_config(write_small_corpus(folder / "text"), folder, model, changes)
    assert train(config) == 0
    return folder / model


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=by_hand if name == "hashed" else ()) for name in ARCHITECTURES]
)
def run(request, tmp_path_factory):
    """A run of 6 updates."""
    return request.param, train_small(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def archive(run):
    assert evaluate.main([str(run[1]), "--forced", "--name", "test"]) == 0
    return AttentionArchive(run[1] / "evaluations/test/attention")


def test_every_sentence_has_its_matrices_in_the_archive(run, archive):
    name, root = run
    assert len(archive) == 10
    for record in archive:
        layers, _, rows, columns = record.attention["cross"].shape
        assert layers == LAYERS.get(name, 1)
        assert (rows, columns) == (len(record.target_output_tokens), len(record.source_tokens))
        totals = record.attention["cross"].sum(-1)
        if name == "decoder_only":  # the rest of a row goes to the target
            assert (totals > 0).all() and (totals < 1).all()
        else:
            np.testing.assert_allclose(totals, 1, atol=1e-5)
    metrics = json.loads((root / "evaluations/test/metrics.json").read_text())
    assert ("alignment" in metrics) == (name != "context_vector")


def test_there_is_a_picture_for_every_layer(run, archive):
    name, root = run
    pictures = sorted(path.name for path in (root / "evaluations/test/heatmaps").glob("*.png"))
    assert pictures == [f"probe-000000-cross-layer-{i}.png" for i in range(LAYERS.get(name, 1))]
    events = EventAccumulator(str(root))
    events.Reload()
    assert sum(tag.startswith("probe 0/average") for tag in events.Tags()["tensors"]) == LAYERS.get(name, 1)


def test_it_translates_from_standard_input(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat sleeps .\n\nthe dog\n"), encoding="utf-8"))
    assert translate.main([str(run[1])]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""
