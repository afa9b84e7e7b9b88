"""The numbers that the explain page cannot compute by itself."""

import csv
from dataclasses import replace

import pytest

from qkv.inspection.experiments.pronouns import PRONOUN_COLUMNS
from qkv.live import explained_numbers
from qkv.live.explained_numbers import PRONOUN_TABLE, explain_example, measure_accuracy, measure_pronouns, read_pronouns
from tests.support import ROOT
from tests.support.random_runs import random_run
from tests.support.tiny_runs import write_small_corpus

HEADER = "\t".join([*PRONOUN_COLUMNS, "use"])
CASE = "the cat sees it\tle chat voit Éva\tit\tcat\tvoit\tle\tcount"


@pytest.fixture(scope="module")
def run(tokenizer, tmp_path_factory):
    return random_run(tokenizer, tmp_path_factory.mktemp("run"))


def read_rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_the_counted_sentences_are_those_of_the_demo():
    counted = [row for row in read_rows(PRONOUN_TABLE) if row.pop("use") == "count"]
    assert counted == read_rows(ROOT / "data" / "demo" / "pronouns.tsv")


def test_one_sentence_is_an_example_and_one_about_the_subject():
    uses = [row["use"] for row in read_rows(PRONOUN_TABLE)]
    assert uses.count("example") == uses.count("subject") == 1
    assert set(uses) == {"example", "subject", "count"}


def read_table(run, folder, monkeypatch, *lines):
    (folder / "cases.tsv").write_text("\n".join([HEADER, *lines]), encoding="utf-8")
    monkeypatch.setattr(explained_numbers, "PRONOUN_TABLE", folder / "cases.tsv")
    return read_pronouns(run)


def test_sentences_are_read_if_the_tokenizer_knows_all_their_words(run, tmp_path, monkeypatch):
    ((case, row),) = read_table(run, tmp_path, monkeypatch, CASE)
    assert row["noun"] == "cat"
    assert run.tokenizer.decode([[case.source_ids[place] for place in case.noun]])[0].strip() == "cat"
    assert read_table(run, tmp_path, monkeypatch, CASE, CASE.replace("the cat", "猫 cat")) == [], "an unknown word"
    assert read_table(run, tmp_path, monkeypatch, CASE, CASE.replace("sees it", "it sees it")) == [], "two pronouns"


def test_a_run_of_other_languages_has_no_sentences(run, tmp_path, monkeypatch):
    data = run.config.data.model_copy(update={"target_language": "de"})
    german = replace(run, config=run.config.model_copy(update={"data": data}))
    assert read_table(german, tmp_path, monkeypatch, CASE) == []
    assert measure_pronouns(german, []) is None


def test_the_example_is_the_last_word_of_the_translation(run):
    facts = explain_example(run, "the cat sees the dog")
    example, logit = facts["example"], facts["logit"]
    tokens = run.tokenizer.of_target.pieces(example["target"])
    assert tokens[example["row"]] == example["token"]
    assert any(map(str.isalpha, example["token"]))
    assert not any(any(map(str.isalpha, token)) for token in tokens[example["row"] + 1 : -1])
    assert sum(logit["sources"]) == pytest.approx(logit["cross"])


def test_without_a_test_set_there_is_no_accuracy(run):
    assert measure_accuracy(run) == {}


@pytest.mark.minutes
def test_the_accuracy_is_that_of_the_command(tokenizer, tmp_path):
    write_small_corpus(tmp_path)
    run = random_run(tokenizer, tmp_path)
    facts = measure_accuracy(run)
    assert facts["tokens"] > 0
    assert {"as it is", "one-hot", "raw vectors", "keys := values", "values := keys"} <= facts["changes"].keys()
    assert all(0 <= share <= 1 for share in facts["changes"].values())
