"""A run on text without spaces: what it counts as words in its files, and how it aligns text."""

import contextlib
import json
import math
import pickle
import re
import shutil
from itertools import product

import pytest

import evaluate
import qkv
import train
from qkv.alignment import linking
from qkv.commands import align
from qkv.config.run import load_started_run
from qkv.config.yaml import dump_yaml
from qkv.files.run_directory import RunDirectory
from qkv.inspection import AttentionArchive
from qkv.text.corpora.word_links import read_pharaoh
from tests.support import ROOT
from tests.support.trained_runs import with_other_weights

pytestmark = [pytest.mark.minutes, pytest.mark.slow, pytest.mark.usefixtures("loaded_once")]

SUBJECTS = {"the cat": "猫", "the teacher": "老师", "my friend": "我的朋友"}
VERBS = {"eats": "吃", "likes": "喜欢", "buys": "买"}
OBJECTS = {"apples .": "苹果。", "rice .": "米饭。", "bananas .": "香蕉。", "fish .": "鱼。"}
PAIRS = [
    tuple(" ".join(side) if side[0].isascii() else "".join(side) for side in zip(*parts, strict=True))
    for parts in product(SUBJECTS.items(), VERBS.items(), OBJECTS.items())
]
SEGMENTED = [
    " ".join(parts).replace("。", " 。") for parts in product(SUBJECTS.values(), VERBS.values(), OBJECTS.values())
]
CHARACTERS = [len(chinese) for _, chinese in PAIRS]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Files in English and Chinese, and links of the first words."""
    folder = tmp_path_factory.mktemp("text")
    sides = {"en": [english for english, _ in PAIRS], "zh": [chinese for _, chinese in PAIRS], "words": SEGMENTED}
    for suffix, lines in {**sides, "align": ["0-0"] * len(PAIRS)}.items():
        (folder / f"text.{suffix}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def train_run(text, folder, source, target):
    files = {"source": text / f"text.{source}", "target": text / f"text.{target}"}
    given = {f"data.{name}.{key}": path for name in ("train", "validation", "test") for key, path in files.items()}
    gold = text / "text.align" if source == "en" else "null"
    given |= {f"data.{name}.alignments": gold for name in ("validation", "test")}
    given |= {"data.source_language": source, "data.target_language": target}
    given |= {"data.train.alignments": "null", "data.tokenized": "false", "tokenizer.vocabulary_size": 64}
    given |= {
        "model.encoder_layers": 1,
        "training.max_updates": 2,
        "training.warmup_updates": 1,
        "training.validate_every_updates": 2,
    }
    given |= {"inspection.probes": "[]", "run.directory": folder, "run.name": f"{source}_{target}"}
    arguments = [part for key, value in given.items() for part in (f"--{key}", str(value))]
    assert train.main(["--config", str(ROOT / "configs/tiny.yaml"), *arguments]) == 0
    return folder / given["run.name"]


@pytest.fixture(scope="module")
def runs(text, tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(text, runs):
    return train_run(text, runs, "en", "zh")


@pytest.fixture(scope="module")
def reverse(text, runs):
    return train_run(text, runs, "zh", "en")


@pytest.fixture
def spread_here(monkeypatch):
    """What `--workers` sends to processes is packed, unpacked and computed in this one, which has TensorFlow."""

    def map_in_processes(function, items, workers):
        assert workers == 2
        return (pickle.loads(pickle.dumps(function))(*pickle.loads(pickle.dumps((item,)))) for item in items)

    monkeypatch.setattr(linking, "map_in_processes", map_in_processes)


def write_links(path, arguments):
    with path.open("w", encoding="utf-8", newline="\n") as file, contextlib.redirect_stdout(file):
        assert align.main(arguments) == 0


def links_of(path):
    return [sentence.sure for sentence in read_pharaoh(path)]


def test_an_evaluation_and_links_count_subwords_and_say_so(run, text, tmp_path, caplog):
    with caplog.at_level("INFO"):
        assert evaluate.main([str(run), "--forced", "--name", "forced"]) == 0
    assert "the target has no spaces between words: its subwords count as words (data.words.target)" in caplog.messages
    assert any(line.split("  ")[-1] == "words of the source, subwords of the target" for line in caplog.messages)
    folder = run / "evaluations" / "forced"
    record = AttentionArchive(folder / "attention")[0]
    assert (record.source_unit, record.target_unit) == ("spaces", "subwords")
    assert record.target_words == [*range(len(record.target_output_tokens) - 1), None]
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["alignment"]["words"] == {"source": "spaces", "target": "subwords"}
    assert '"target": "subwords"' in (folder / "viewer.html").read_text(encoding="utf-8")

    caplog.clear()
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh"), "--at", "0,0,output"]
    with caplog.at_level("INFO"):
        write_links(tmp_path / "subwords", [str(run), *files])
    assert any("its subwords count as words" in line for line in caplog.messages)
    tokens = AttentionArchive(folder / "attention").to_frame()["target_tokens"] - 1  # without EOS
    subwords = links_of(tmp_path / "subwords")
    assert [{j for _, j in links} for links in subwords] == [set(range(count)) for count in tokens]
    given = ["--target_words", str(text / "text.words")]
    caplog.clear()
    write_links(tmp_path / "words", [str(run), *files, *given])
    assert not any("count as words" in line for line in caplog.messages)
    words = links_of(tmp_path / "words")
    assert [{j for _, j in links} for links in words] == [set(range(len(line.split()))) for line in SEGMENTED]


def test_two_runs_link_characters(run, reverse, text, tmp_path, caplog, capsys):
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh"), "--symmetrise", "union"]
    files += ["--at", "0,0,output", "--reverse_at", "0,0,output"]
    with caplog.at_level("INFO"):
        write_links(tmp_path / "links", [str(run), str(reverse), *files])
    assert any("its characters count as words" in line for line in caplog.messages)
    assert align.main([str(run), str(reverse), *files, "--probabilities"]) == 2  # gold links are of subwords
    assert "its gold links count spaces and subwords as words, and the text's links spaces and characters" in (
        capsys.readouterr().err
    )
    found = [{j for _, j in links} for links in links_of(tmp_path / "links")]
    assert found == [set(range(count)) for count in CHARACTERS]


@pytest.mark.usefixtures("spread_here")
def test_two_runs_link_by_their_attention_before_links_are_read(run, text, tmp_path, caplog, capsys):
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh")]
    files += ["--target_words", str(text / "text.words"), "--at", "0,0,output", "--reverse_at", "0,0,output"]
    command = [str(run), str(run), *files, "--symmetrise"]
    with caplog.at_level("INFO"):
        write_links(tmp_path / "links", [*command, "probable"])
    line = next(line for line in caplog.messages if line.startswith("link probabilities: calibrated on"))
    threshold = float(re.search(r"error rate of the links above (0\.\d\d) \d", line)[1])
    assert align.main([*command, "probable", "--probabilities", "--workers", "2"]) == 0
    links = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [{tuple(map(int, link.split(":")[0].split("-"))) for link in line} for line in links] == links_of(
        tmp_path / "links"
    )
    assert all(float(link.split(":")[1]) >= round(threshold, 2) for line in links for link in line)
    assert align.main([*command, "mean-weights"]) == 0
    means = capsys.readouterr().out
    assert align.main([*command, "mean-weights", "--workers", "2"]) == 0
    assert capsys.readouterr().out == means
    assert all(line for line in means.splitlines())  # the largest of all weights is a link
    for way in ("probable", "mean-weights"):
        assert align.main([str(run), *files[:-2], "--symmetrise", way]) == 2
        assert f"--symmetrise {way} combines two runs; give REVERSE_RUN" in capsys.readouterr().err


@pytest.mark.usefixtures("spread_here")
def test_further_runs_count_in_the_mean_of_their_direction(run, reverse, text, runs, tmp_path, caplog, capsys):
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh"), "--symmetrise", "mean-weights"]
    files += ["--target_words", str(text / "text.words")]
    places = ["--at", "0,0,output", "--reverse_at", "0,1,output"]

    def links(*arguments):
        assert align.main([*map(str, arguments), *files]) == 0
        return capsys.readouterr().out

    two = links(run, reverse, *places)
    assert two.split()
    assert links(run, "--more_runs", reverse, *places) == two  # its languages say that it is the opposite one
    assert links(run, reverse, "--more_runs", reverse, run, run, *places) == two  # each direction counts once
    other = with_other_weights(run, runs / "other")
    three = links(run, reverse, "--more_runs", other, *places)
    assert three != two
    assert links(other, reverse, "--more_runs", run, *places, "--workers", 2) == three
    assert links(run, "--more_runs", other, *places[:2]) not in (two, three)  # one direction alone
    caplog.clear()
    with caplog.at_level("INFO"):
        ungiven = links(other, reverse, "--more_runs", run)
    chosen = [line.partition(": ")[2] for line in caplog.messages if "chosen by" in line]
    assert len(chosen) == 3 and ungiven.split()
    assert not any("probable links" in line for line in chosen)  # no run's own links count


def test_further_runs_that_cannot_count_are_refused(run, text, runs, capsys):
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh")]
    command = [str(run), *files, "--more_runs", str(run)]
    for options in ([], ["--symmetrise", "mean-weights", "--probabilities"]):
        assert align.main([*command, *options]) == 2
        expected = "--more_runs needs --symmetrise mean-weights, and cannot be used with --probabilities"
        assert expected in capsys.readouterr().err
    command += ["--symmetrise", "mean-weights"]
    assert align.main([*command, "--at", "0,0,output", "--reverse_at", "0,0,output"]) == 2
    assert "--reverse_at needs a run from target to source" in capsys.readouterr().err
    other = RunDirectory(shutil.copytree(run, runs / "japanese"))
    settings = other.config.read_text(encoding="utf-8").replace("target_language: zh", "target_language: ja")
    other.config.write_text(settings, encoding="utf-8")
    assert align.main([str(run), *files, "--symmetrise", "mean-weights", "--more_runs", str(other.root)]) == 2
    assert "expected a run from en to zh or back" in capsys.readouterr().err


@pytest.mark.usefixtures("spread_here")
def test_links_have_probabilities_by_gold_links(run, text, tmp_path, capsys):
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh"), "--at", "0,0,output"]
    write_links(tmp_path / "plain", [str(run), *files])
    command = [str(run), *files, "--probabilities"]
    write_links(tmp_path / "links", [*command])
    assert links_of(tmp_path / "links") == links_of(tmp_path / "plain")
    lines = (tmp_path / "links").read_text(encoding="utf-8").split()
    assert lines and all(0 <= float(link.split(":")[1]) <= 1 for link in lines)
    assert align.main([*command, "--workers", "2"]) == 0
    assert capsys.readouterr().out == (tmp_path / "links").read_text(encoding="utf-8")


def test_probabilities_of_links_between_subwords_are_refused(run, text, capsys):
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh")]
    assert align.main([str(run), "--probabilities", "--subwords", *files]) == 2
    assert "leave out --subwords" in capsys.readouterr().err


def test_without_gold_links_the_last_layer_is_read_and_its_error_rate_said_to_be_unknown(reverse, text, capsys, caplog):
    files = ["--source", str(text / "text.zh"), "--target", str(text / "text.en")]
    assert align.main([str(reverse), *files]) == 0
    links = capsys.readouterr().out
    assert f"{reverse}: no gold alignments to choose layer and head by" in caplog.text
    assert align.main([str(reverse), *files, "--at", "0,mean,output"]) == 0
    assert capsys.readouterr().out == links != ""
    found = qkv.load(reverse).align("猫吃苹果。", "the cat eats apples .")
    assert found and all(map(math.isnan, found.values()))


def test_what_needs_gold_links_or_cross_attention_is_refused_before_tensorflow_is_loaded(
    reverse, text, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("qkv.commands.cli.importing_tensorflow", None)
    files = ["--source", str(text / "text.zh"), "--target", str(text / "text.en")]
    assert align.main([str(reverse), *files, "--probabilities"]) == 2
    assert "probabilities are calibrated on gold alignments, and its config names none" in capsys.readouterr().err
    other = RunDirectory(tmp_path / "other")
    other.root.mkdir()
    settings = load_started_run(RunDirectory(reverse).config).model_dump(mode="json")
    settings["model"] = {"architecture": "recurrent", "cross_attention": "none"}
    other.config.write_text(dump_yaml(settings), encoding="utf-8")
    assert align.main([str(other.root), *files]) == 2
    assert "its model has no cross-attention, and so no links to read" in capsys.readouterr().err
