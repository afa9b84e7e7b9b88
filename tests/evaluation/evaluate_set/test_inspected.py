"""What an evaluation of an ensemble writes: one archive for each model, as that model reads the translations."""

import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from keras import ops

from qkv.commands import compare, draw, measure, view
from qkv.evaluation import evaluate_set as inspected
from qkv.evaluation import resumable
from qkv.evaluation.evaluate_set import evaluate_set
from qkv.evaluation.request import EvaluationRequest, EvaluationSet
from qkv.evaluation.resumable import fingerprint
from qkv.files.written import LIST
from qkv.inspection import AttentionArchive
from qkv.inspection.archive import ArchiveWriter
from qkv.run.ensemble import load_runs
from qkv.text.tokens.special_tokens import BOS, EOS
from tests.support import KEPT_RUNS, files_below

pytestmark = pytest.mark.minutes

KEPT = KEPT_RUNS
NAMES = ["transformer", "recurrent"]
SOURCES = ["the cat eats", "a", "", "jane visits africa in september .", "the apple"]
REFERENCES = ["le chat mange", "un", "", "jane visite l'afrique en septembre .", "la pomme"]
SECONDS = ("translation_seconds", "scores_seconds", "seconds")


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    """Kept runs, searched greedily, with two sentences in a shard."""
    folder = tmp_path_factory.mktemp("runs")
    runs = load_runs([Path(shutil.copytree(KEPT / name, folder / name)) for name in NAMES])
    decoding = runs.config.decoding.model_copy(update={"beam_size": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspected, "ArchiveWriter", partial(ArchiveWriter, sentences_per_shard=2))
        patch.setattr("qkv.inspection.recorder.WINDOW_SENTENCES", 2)
        yield replace(runs, config=runs.config.model_copy(update={"decoding": decoding}))


@pytest.fixture(scope="module")
def request_of(ensemble):
    return lambda name: EvaluationRequest(ensemble, EvaluationSet(name, SOURCES, REFERENCES, is_own_text=True))


@pytest.fixture(scope="module")
def evaluated(ensemble, request_of):
    """The folder of the evaluation."""
    evaluate_set(request_of("whole"))
    return ensemble.directory.evaluation("whole")


def test_every_member_has_its_own_archive_and_the_ensemble_none(evaluated):
    of_each = {"attention/manifest.json", "attention/sentences.jsonl", "heads.csv", "sentences.csv", "metrics.json"}
    assert {f"{name}/{file}" for name in NAMES for file in of_each} <= files_below(evaluated.members).keys()
    own = {path.name for path in evaluated.root.iterdir()}
    assert own == {"members", "metrics.json", "translations.tsv", "viewer.html", LIST}


@pytest.mark.parametrize("name", NAMES)
def test_the_archive_of_a_member_is_its_own_forced_pass_over_the_translations_of_the_ensemble(
    name, ensemble, evaluated
):
    translations = ensemble.translator.translate(SOURCES)
    archive = AttentionArchive(evaluated.member(name).attention)
    assert archive.manifest["run"] == name and archive.manifest["ensemble"] == NAMES
    model = ensemble.runs[name].model
    for record, one in zip(archive, translations, strict=True):
        source, target = (np.array([ids], "int32") for ids in ([*one.source_ids, EOS], [BOS, *one.ids[:-1]]))
        output = model.decode(target, model.encode(source))
        np.testing.assert_allclose(record.attention["cross"], np.stack(output.cross)[:, 0], atol=1e-5)
        scores = ops.log_softmax(output.logits[0])
        own = [float(scores[place, token]) for place, token in enumerate(one.ids)]
        np.testing.assert_allclose(record.token_log_probabilities, own, atol=1e-4)
        assert (record.mode, record.hypothesis, record.truncated) == ("greedy", one.text, one.truncated)
    table = pd.read_csv(evaluated.translations, sep="\t", keep_default_na=False)
    assert table["translation"].tolist() == [one.text for one in translations]
    expected = [sum(one.log_probabilities) for one in translations]
    np.testing.assert_allclose(table["log_probability"], expected, atol=1e-3)  # those of the ensemble


def test_the_metrics_name_every_member_with_the_digest_of_its_weights(ensemble, evaluated):
    metrics = json.loads(evaluated.metrics.read_text(encoding="utf-8"))
    assert metrics["run"] == "transformer" and metrics["bleu"] >= 0
    assert [member["name"] for member in metrics["members"]] == NAMES
    for member in metrics["members"]:
        run = ensemble.runs[member["name"]]
        manifest = json.loads(run.directory.manifest.read_text(encoding="utf-8"))
        assert (member["checkpoint"], member["checkpoint_sha256"]) == ("model.keras", manifest["model_sha256"])
        assert member["parameters"] == run.model.count_params()
        own = json.loads(evaluated.member(member["name"]).metrics.read_text(encoding="utf-8"))
        assert own | member == own and own["mode"] == "translated"


def test_the_page_shows_the_members_side_by_side(evaluated):
    page = evaluated.viewer.read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert [run["name"] for run in data["runs"]] == NAMES
    likelihoods = [[sentence["likelihood"] for sentence in run["sentences"]] for run in data["runs"]]
    assert len({tuple(of_run) for of_run in likelihoods}) == 2


def test_commands_open_the_folder_of_a_member(evaluated, tmp_path, capsys):
    members = [str(evaluated.member(name).root) for name in NAMES]
    assert view.main([*members, "--output", str(tmp_path / "page.html")]) == 0
    assert draw.main([members[1], "--sentence", "0", "--output", str(tmp_path / "picture.svg")]) == 0
    assert measure.main([members[0], "--folder", str(tmp_path / "measured")]) == 0
    assert (tmp_path / "measured/heads.csv").read_bytes() == evaluated.member(NAMES[0]).heads.read_bytes()
    capsys.readouterr()
    assert compare.main([str(evaluated.root), members[0]]) == 0
    printed = capsys.readouterr().out
    assert "ensemble of 2, greedy" in printed and f"{evaluated.root.parents[1]}" in printed


def test_the_folder_of_an_ensemble_says_where_the_archives_are(evaluated, tmp_path, capsys):
    assert draw.main([str(evaluated.root), "--sentence", "0", "--output", str(tmp_path / "picture.svg")]) == 2
    said = capsys.readouterr().err
    assert f"{evaluated.root}: an ensemble, whose models have separate archives; use instead" in said
    assert all(str(evaluated.member(name).root) in said for name in NAMES)


def test_a_killed_evaluation_goes_on_with_the_member_it_was_at_and_ends_with_the_same_bytes(
    ensemble, request_of, evaluated, monkeypatch
):
    written = []
    usual = ArchiveWriter.append

    def append(archive, record):
        if (archive._path.parent.name, record.id) == ("recurrent", 3) and "killed" not in written:
            written.append("killed")
            raise KeyboardInterrupt
        written.append((archive._path.parent.name, record.id))
        usual(archive, record)

    monkeypatch.setattr(ArchiveWriter, "append", append)
    with pytest.raises(KeyboardInterrupt):
        evaluate_set(request_of("whole.again"))
    first = written[: written.index("killed")]
    assert first == [("transformer", id_) for id_ in range(5)] + [("recurrent", id_) for id_ in range(3)]
    monkeypatch.setattr(resumable, "is_running", lambda process: False)
    evaluate_set(request_of("whole.again"))
    # The shard that was not whole is recorded again, and so is the last one of a complete archive.
    expected = [("transformer", 4)] + [("recurrent", id_) for id_ in (2, 3, 4)]
    assert written[len(first) + 1 :] == expected
    again, whole = (files_below(ensemble.directory.evaluation(name).root) for name in ("whole.again", "whole"))
    assert again.keys() == whole.keys()
    for name, content in whole.items():
        found = again[name].replace(b"whole.again", b"whole")
        if name.endswith("metrics.json"):
            one, other = (json.loads(each) | dict.fromkeys(SECONDS) for each in (found, content))
            assert one == other, name
        else:
            assert found == content, name


def test_an_evaluation_goes_on_only_with_the_same_members(ensemble):
    """A model that is there twice has no further weights; seeds of dropout, which every process draws, say nothing."""
    one, other = [KEPT / name for name in NAMES]
    found = [fingerprint(load_runs(roots), set="x") for roots in ([one], [one, one], [one, other], [other, one])]
    assert len(set(found)) == 4
    assert fingerprint(load_runs([one, other]), set="x") == found[2]
