"""A run on text without spaces: what it counts as words in its files, and how it aligns text."""

import json
from itertools import product

import pytest

import evaluate
import train
from pipeline import align
from pipeline.inspection import AttentionArchive
from pipeline.text.pharaoh import read_pharaoh
from tests.tiny_runs import ROOT

pytestmark = pytest.mark.slow

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


def train_run(text, folder, source, target, **settings):
    files = {"source": text / f"text.{source}", "target": text / f"text.{target}"}
    given = {f"data.{name}.{key}": path for name in ("train", "validation", "test") for key, path in files.items()}
    gold = text / "text.align" if source == "en" else "null"
    given |= {f"data.{name}.alignments": gold for name in ("validation", "test")}
    given |= {"data.train.alignments": "null", "data.tokenized": "false", "tokenizer.vocabulary_size": 64}
    given |= {"training.max_updates": 2, "training.warmup_updates": 1, "training.validate_every_updates": 2}
    given |= {"inspection.probes": "[]", "run.directory": folder, "run.name": f"{source}_{target}"} | settings
    arguments = [part for key, value in given.items() for part in (f"--{key}", str(value))]
    assert train.main(["--config", str(ROOT / "configs/tiny.yaml"), *arguments]) == 0
    return folder / f"{source}_{target}"


@pytest.fixture(scope="module")
def runs(text, tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(text, runs):
    return train_run(text, runs, "en", "zh")


def links_of(path):
    return [sentence.sure for sentence in read_pharaoh(path)]


def test_an_evaluation_counts_subwords_and_says_so(run, caplog):
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


def test_align_numbers_subwords_characters_or_given_words(run, text, tmp_path, caplog, monkeypatch):
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh"), "--at", "0,0,output"]
    with caplog.at_level("INFO"):
        assert align.main([str(run), *files, "--output", str(tmp_path / "subwords")]) == 0
    assert any("its subwords count as words" in line for line in caplog.messages)
    tokens = AttentionArchive(run / "evaluations/forced/attention").to_frame()["target_tokens"] - 1  # without EOS
    subwords = links_of(tmp_path / "subwords")
    assert [{j for _, j in links} for links in subwords] == [set(range(count)) for count in tokens]
    given = ["--target_words", str(text / "text.words")]
    caplog.clear()
    assert align.main([str(run), *files, *given, "--output", str(tmp_path / "words")]) == 0
    assert not any("count as words" in line for line in caplog.messages)
    words = links_of(tmp_path / "words")
    assert [{j for _, j in links} for links in words] == [set(range(len(line.split()))) for line in SEGMENTED]


def test_two_runs_link_characters(run, text, runs, tmp_path, caplog):
    reverse = train_run(text, runs, "zh", "en")
    files = ["--source", str(text / "text.en"), "--target", str(text / "text.zh"), "--symmetrise", "union"]
    files += ["--at", "0,0,output", "--reverse_at", "0,0,output"]
    with caplog.at_level("INFO"):
        assert align.main([str(run), str(reverse), *files, "--output", str(tmp_path / "links")]) == 0
    assert any("its characters count as words" in line for line in caplog.messages)
    found = [{j for _, j in links} for links in links_of(tmp_path / "links")]
    assert found == [set(range(count)) for count in CHARACTERS]
