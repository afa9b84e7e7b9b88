"""The facts of the live page: what a page may hold of the text of a run."""

from dataclasses import replace

import pytest

from qkv.config import RunConfig
from qkv.live.page import find_split_words, find_units
from tests.support.random_runs import random_run
from tests.support.text import chinese_like
from tests.support.tiny_runs import write_small_corpus


@pytest.fixture
def run(tokenizer, tmp_path):
    write_small_corpus(tmp_path)
    return random_run(tokenizer, tmp_path)


def test_split_words_are_the_words_of_the_training_text_that_are_several_tokens(run, tmp_path, tokenizer):
    words = {word for line in (tmp_path / "train.en").read_text("utf-8").splitlines() for word in line.split()}
    (whole, *_) = [word for word in sorted(words) if len(tokenizer.encode([word])[0]) == 1]
    split = find_split_words(run)
    assert split and set(split) < words and whole not in split
    assert all(len(ids) > 1 for ids in tokenizer.encode(split))


def test_a_page_holds_no_sentence_of_a_training_text_without_spaces(run, tmp_path):
    for name in ("train", "validation"):
        path = tmp_path / f"{name}.en"
        path.write_text("".join(f"{chinese_like(line)}\n" for line in path.read_text("utf-8").splitlines()), "utf-8")
    settings = run.config.model_dump()
    settings["inspection"]["probes"] = None  # which are English
    settings["data"] |= {"tokenized": False, "normalize": None}
    run = replace(run, config=RunConfig.model_validate(settings))
    assert find_units(run).source != "spaces"
    assert find_split_words(run) is None
