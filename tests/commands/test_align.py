"""A run on text without spaces: what it counts as words in its files, and how it aligns text."""

import contextlib
import io
import json
import math
import os
import pickle
import re
import select
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

import evaluate
import qkv
import train
from qkv.alignment import linking
from qkv.commands import align
from qkv.config.run import load_started_run
from qkv.config.yaml import dump_yaml
from qkv.decoding import forced
from qkv.files.run_directory import RunDirectory
from qkv.inspection import AttentionArchive
from qkv.text.corpora.word_links import read_pharaoh
from tests.support import ROOT
from tests.support.processes import PATIENCE_SECONDS
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


EMPTY_SIDES = [("the cat eats", ""), ("", "猫吃"), ("", "")]


def write_pairs(folder, pairs):
    """Writes pairs as two files, whose options are returned, and as the bytes of a stream in both forms by turns."""
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    stream = "".join(f"{source}{(chr(9), ' ||| ')[n % 2]}{target}\n" for n, (source, target) in enumerate(pairs))
    return ["--source", str(folder / "source"), "--target", str(folder / "target")], stream.encode()


@pytest.mark.usefixtures("spread_here")
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--probabilities", "--workers", "2"],
        ["--subwords"],
        ["REVERSE", "--symmetrise", "mean-weights", "--workers", "2"],
        ["REVERSE", "--symmetrise", "union"],
    ],
)
def test_a_stream_is_aligned_as_files_are(options, run, reverse, tmp_path, monkeypatch, capsys):
    files, stream = write_pairs(tmp_path, [*PAIRS, *EMPTY_SIDES])
    at = ["--at", "0,0,output"] + (["--reverse_at", "0,1,output"] if "REVERSE" in options else [])
    command = [str(run), *(str(reverse) if option == "REVERSE" else option for option in options), *at]
    assert align.main([*command, *files]) == 0
    expected = capsys.readouterr().out
    assert expected.splitlines()[-3:] == ["", "", ""] and all(expected.splitlines()[:-3])
    monkeypatch.setattr(align, "PART_PAIRS", 16)  # several windows
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stream)))
    assert align.main([*command, "--stdin"]) == 0
    assert capsys.readouterr().out == expected


def test_each_pair_is_answered_before_the_next_is_sent_and_the_model_is_traced_once(run, tmp_path, monkeypatch):
    pairs = [(" ".join(["the cat"] * n), "猫吃" * (8 - n)) for n in range(1, 8)]  # no two of the same lengths
    files, stream = write_pairs(tmp_path, pairs)
    write_links(tmp_path / "links", [str(run), *files, "--at", "0,0,output"])
    traced = []
    original = forced.forced_pass
    monkeypatch.setattr(forced, "forced_pass", lambda *given: traced.append(given) or original(*given))
    (sent_to, writer), (reader, printed) = os.pipe(), os.pipe()

    def send_and_wait():
        answers = []
        with os.fdopen(writer, "wb", buffering=0) as into, os.fdopen(reader, "rb") as answered:
            for line in stream.splitlines(keepends=True):
                into.write(line)
                if not select.select([answered], [], [], PATIENCE_SECONDS)[0]:
                    break
                answers.append(answered.readline().decode())
        return answers

    with ThreadPoolExecutor(1) as pool, os.fdopen(sent_to) as given, os.fdopen(printed, "w") as output:
        answers = pool.submit(send_and_wait)
        monkeypatch.setattr("sys.stdin", given)
        monkeypatch.setattr("sys.stdout", output)
        assert align.main([str(run), "--stdin", "--at", "0,0,output"]) == 0
        assert "".join(answers.result()) == (tmp_path / "links").read_text(encoding="utf-8")
    assert len(traced) <= 1


def test_links_before_a_line_that_is_no_pair_are_written(run, tmp_path, monkeypatch, capsys):
    _, stream = write_pairs(tmp_path, PAIRS[:3])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stream + b"the cat\n" + stream)))
    assert align.main([str(run), "--stdin", "--at", "0,0,output"]) == 2
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 3
    assert "standard input:4: expected a sentence pair" in said.err and "found 'the cat'" in said.err


def test_words_without_spaces_are_known_though_the_first_pair_has_none(run, monkeypatch, capsys, caplog):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("the cat\t\nthe cat\t猫吃\n".encode())))
    monkeypatch.setattr(align, "PART_PAIRS", 1)
    with caplog.at_level("INFO"):
        assert align.main([str(run), "--stdin", "--at", "0,0,output"]) == 0
    assert "the target has no spaces between words: its subwords count as words (data.words.target)" in caplog.messages
    assert capsys.readouterr().out.splitlines()[0] == ""


def test_each_run_warns_of_the_side_that_it_reads_in_another_form(run, reverse, monkeypatch, caplog):
    stream = "the cat\t猫吃\nthe ☂\t猫吃\nthe cat\t☀吃\n".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stream)))
    monkeypatch.setattr(align, "PART_PAIRS", 2)
    places = ["--at", "0,0,output", "--reverse_at", "0,0,output"]
    assert align.main([str(run), str(reverse), "--stdin", *places]) == 0
    expected = {"☂": "source in standard input:2:", "☀": "target in standard input:3:"}
    for character, location in expected.items():
        warnings = [message for message in caplog.messages if character in message]
        assert len(warnings) == 2 and all(location in message for message in warnings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source_words", "WORDS"], "with --stdin, leave them out"),
        (["--set", "test"], "expected a text to align: --source and --target, or --set, or --stdin"),
        (["--source", "WORDS", "--target", "WORDS"], "or --set, or --stdin"),
        (["REVERSE"], "its config names no gold alignments, so layer and head would be chosen by the agreement"),
    ],
)
def test_what_needs_a_whole_text_is_refused_for_a_stream(options, message, run, reverse, text, monkeypatch, capsys):
    given = {"WORDS": str(text / "text.words"), "REVERSE": str(reverse)}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the cat\t\n")))
    assert align.main([str(run), *(given.get(option, option) for option in options), "--stdin"]) == 2
    assert message in capsys.readouterr().err
