"""A run with blocks of docs/extend/blocks.md is trained, resumed, evaluated, shown and loaded as every other run."""

import json
import subprocess
import sys

import numpy as np
import pytest

import evaluate
import train
from qkv.commands import export, live
from qkv.config.yaml import dump_yaml
from qkv.errors import InputError
from qkv.inspection import AttentionArchive
from qkv.inspection.experiments.activations import cache_sentences
from qkv.inspection.experiments.logit_parts import source_logits
from qkv.inspection.experiments.score_parts import explained_sites
from qkv.live.live_run import LiveRun
from qkv.live.question import HeadChange, Question
from qkv.run.trained_run import load_run
from tests.support.documents import write_own_blocks
from tests.support.minutes import by_hand
from tests.support.plugins import registrations_undone
from tests.support.run_contents import content, state_at
from tests.support.tiny_runs import small_settings, write_small_corpus

pytestmark = [pytest.mark.minutes, pytest.mark.slow]

SETTINGS = {"pre_norm": {}, "gated": {"model.gate_bias": -0.5}, "parallel": {}, "swiglu": {}}
NAMES = ["gated", *(pytest.param(name, marks=by_hand) for name in SETTINGS if name != "gated")]
PAIR = ("the cat sleeps .", "le chat dort .")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    with registrations_undone():
        yield write_own_blocks(tmp_path_factory.mktemp("plugin") / "blocks_of_journeys.py")


@pytest.fixture(scope="module", params=NAMES)
def run(request, plugin, tmp_path_factory):
    """A run of 4 updates."""
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    changes = {"model.architecture": name, "training.max_updates": 4, "training.validate_every_updates": 2}
    changes |= {"decoding.beam_size": 1, "training.keep_checkpoints": 9} | SETTINGS[name]
    values = small_settings(write_small_corpus(folder / "text"), folder, changes)
    config = folder / "config.yaml"
    config.write_text(dump_yaml(values), encoding="utf-8")
    assert train.main(["--config", str(config), "--plugins", str(plugin), "--run.name", "unbroken"]) == 0
    return name, folder


@by_hand  # tests/test_plugins.py resumes a run with a plugin
def test_a_resumed_run_ends_as_one_that_was_not_stopped(run, plugin):
    _, folder = run
    stopped = ["--run.name", "stopped", "--training.max_updates", "2"]
    assert train.main(["--config", str(folder / "config.yaml"), "--plugins", str(plugin), *stopped]) == 0
    resumed = ["--resume", str(folder / "stopped"), "--training.max_updates", "4"]
    assert train.main([*resumed, "--plugins", str(plugin)]) == 0
    for update in (2, 4):
        np.testing.assert_equal(state_at(folder / "stopped", update), state_at(folder / "unbroken", update))
    assert content(folder / "stopped/model.keras") == content(folder / "unbroken/model.keras")


def test_it_is_evaluated_with_its_attention_in_an_archive(run, plugin):
    name, folder = run
    assert evaluate.main([str(folder / "unbroken"), "--plugins", str(plugin), "--forced", "--name", "test"]) == 0
    archive = AttentionArchive(folder / "unbroken/evaluations/test/attention")
    assert len(archive) == 10
    for record in archive:
        np.testing.assert_allclose(record.attention["cross"].sum(-1), 1, atol=1e-5)
    page = (folder / "unbroken/evaluations/test/viewer.html").read_text(encoding="utf-8")
    assert f'"name": "{name}", "encoder_layers": 1' in page


def test_what_it_computes_has_names_and_adds_up(run):
    name, folder = run
    loaded = load_run(folder / "unbroken")
    arrays = cache_sentences(loaded.translator, [PAIR], ["*"])[0].arrays
    heads = [array for key, array in arrays.items() if key.startswith("decoder.0.cross.head.")]
    bias = loaded.model.decoder_blocks[0].cross_attention.output_projection.bias.numpy()
    np.testing.assert_allclose(arrays["decoder.0.cross.output"], sum(heads) + bias, atol=1e-5)
    np.testing.assert_allclose(arrays["decoder.0.cross.weights"].sum(-1), 1, atol=1e-5)
    stream = {"parallel": "self"}.get(name, "feed_forward")
    last = len(loaded.model.decoder_blocks) - 1
    final = loaded.model.final_norms.decoder(arrays[f"decoder.{last}.{stream}.residual"]).numpy()
    table = loaded.model.output_embedding.table.numpy()
    np.testing.assert_allclose(final @ table.T, arrays["logits"], atol=1e-4)


def test_the_live_page_answers_and_changes_heads(run):
    _, folder = run
    shown = LiveRun(load_run(folder / "unbroken"), "run")
    answer = shown.answer(Question(text=PAIR[0]))
    off = HeadChange(site="cross", layer=0, head=0, change="zeroed")
    changed = shown.answer(Question(text=PAIR[0], changes=[off]))
    assert np.any(answer.record.attention["cross"][0, 0]) and not np.any(changed.record.attention["cross"][0, 0])
    assert changed.facts["logProbability"] != answer.facts["logProbability"]


def test_what_knows_the_original_blocks_alone_refuses_by_name(run, plugin, tmp_path, capsys):
    name, folder = run
    model = load_run(folder / "unbroken").model
    assert explained_sites(model) == []
    with pytest.raises(InputError, match=r"expected a Transformer of qkv's own blocks, found \w+Block"):
        source_logits(model, ([5, 3], [2, 5]), [5, 3])
    path = str(folder / "unbroken")
    for arguments in (
        [export, path, str(tmp_path / "folder"), "--format", "marian"],
        [live, path, "--page", str(tmp_path / "page.html")],
    ):
        command, *words = arguments
        assert command.main([*words, "--plugins", str(plugin)]) == 2
        assert f"does not support {name}; expected transformer" in capsys.readouterr().err


PROGRAM = """
import json
import sys

import numpy as np
import qkv

path, pair = sys.argv[1], tuple(json.loads(sys.argv[2]))
try:
    qkv.load(path)
except qkv.InputError as error:
    told = str(error)
import my_blocks

run = qkv.load(path)
model = qkv.load_model(path)
assert type(model) is type(run.model) and type(model).__module__ == "my_blocks"
inside = run.cache([pair])[0]
print(json.dumps([told, run.translate(pair[0]).text, inside.logits.tolist()]))
"""


def test_a_fresh_process_is_told_that_the_file_is_missing_and_loads_it_after_importing_it(run, tmp_path):
    name, folder = run
    write_own_blocks(tmp_path / "my_blocks.py")
    command = [sys.executable, "-c", PROGRAM, str(folder / "unbroken"), json.dumps(PAIR)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    told, text, logits = json.loads(ended.stdout)
    assert f"model.architecture: expected one of transformer, recurrent, decoder_only, found '{name}'" in told
    assert "the name of a plugin needs --plugins FILE, or its import in Python" in told
    loaded = load_run(folder / "unbroken")
    assert loaded.translator.translate([PAIR[0]])[0].text == text
    np.testing.assert_array_equal(cache_sentences(loaded.translator, [PAIR], ["*"])[0].logits, np.float32(logits))
