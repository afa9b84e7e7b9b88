"""What the page's header says of a run, of any architecture, and of folders that are not whole."""

import json

import pytest

from qkv.config.run import RunConfig, load_started_run
from qkv.evaluation.page import describe_model, page_facts
from qkv.evaluation.systems import read_page_facts
from qkv.files.run_directory import EvaluationDirectory, RunDirectory
from tests.support.tiny_runs import MINIMAL
from tests.support.viewer import in_english

METRICS = {
    "mode": "translated",
    "search": "beam",
    "decoding": {"beam_size": 5},
    "bleu": 41.31,
    "chrf": 66.666,
    "alignment": {"aer": 3.58},
}


@pytest.fixture
def config(config_file):
    return load_started_run(config_file)


def test_the_facts_are_languages_model_search_and_scores(config):
    assert page_facts(config, 720_256, METRICS) == [
        "en → fr",
        describe_model(config.model),
        ("viewer.fact.millions", {"millions": 0.720256}),
        ("viewer.fact.beam_of", {"size": 5}),
        ("viewer.fact.bleu", {"score": METRICS["bleu"]}),
        ("viewer.fact.chrf", {"score": METRICS["chrf"]}),
        ("viewer.fact.aer", {"score": METRICS["alignment"]["aer"]}),
    ]
    assert page_facts(config, None, {}) == ["en → fr", describe_model(config.model)]
    assert page_facts(config, 999, {"mode": "forced", "search": "beam"})[1:] == [
        describe_model(config.model),
        ("viewer.fact.parameters", {"count": 999}),
        ("viewer.fact.search.forced", {}),
    ]
    assert ("viewer.fact.search.greedy", {}) in page_facts(
        config, None, {"search": "greedy", "decoding": {"beam_size": 1}}
    )


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            {"architecture": "transformer", "encoder_layers": 6, "decoder_layers": 2},
            "Transformer, 6 + 2 layers × 4 heads",
        ),
        ({"architecture": "decoder_only", "layers": 3}, "decoder alone, 3 layers × 4 heads"),
        ({"architecture": "recurrent", "cross_attention": "additive"}, "recurrent, additive attention"),
    ],
)
def test_every_architecture_is_described(config, model, said):
    changed = RunConfig.model_validate(config.model_dump(exclude={"model"}) | {"model": model})
    assert in_english(describe_model(changed.model)) == said


def test_a_folder_is_read_as_far_as_it_goes(tmp_path):
    (tmp_path / "config.yaml").write_text(MINIMAL, encoding="utf-8")
    run, evaluation = RunDirectory(tmp_path), EvaluationDirectory(tmp_path / "evaluations" / "test")
    bare = read_page_facts(run, evaluation)
    assert bare[0] == "en → fr" and len(bare) == 2
    evaluation.root.mkdir(parents=True)
    evaluation.metrics.write_text(json.dumps(METRICS), encoding="utf-8")
    run.manifest.write_text('{"parameters": 720256}', encoding="utf-8")
    told = [in_english(fact) for fact in read_page_facts(run, evaluation)]
    assert told[2] == "0.7 M parameters" and "BLEU 41.3" in told
    for wrong in ('{"decoding": 3, "search": "beam", "alignment": [1], "bleu": "high", "chrf": null}', "[", "[1]"):
        evaluation.metrics.write_text(wrong, encoding="utf-8")
        run.manifest.write_text(wrong, encoding="utf-8")
        assert read_page_facts(run, evaluation)[:2] == bare
    run.config.write_text("model: 7", encoding="utf-8")
    assert read_page_facts(run, evaluation) == read_page_facts(None, evaluation) == []
