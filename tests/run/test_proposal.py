"""Settings proposed for the minutes at hand."""

import re
from dataclasses import astuple, replace

import pytest

from qkv.config.yaml import parse_yaml
from qkv.run.proposal import BATCHES, PRESETS, ModelSize, propose, token_cost
from tests.support import ROOT

SIZE = ModelSize(2, 1, 128, 256, 4)
WORK_PER_SECOND = 10_000 * token_cost(SIZE, 4000, 2048)  # of a machine that reads 10,000 tokens/s with this size


def proposed(pairs=100_000, minutes=5.0, work_per_second=WORK_PER_SECOND):
    return propose(pairs, 10, minutes, work_per_second)


@pytest.mark.parametrize("pairs", [100, 5_000, 50_000, 500_000])
def test_more_minutes_never_give_a_smaller_model_or_a_shorter_training(pairs):
    choices = [proposed(pairs, minutes) for minutes in (0.1, 1, 5, 20, 60, 500, 10_000)]
    sizes = [[choice.size for choice in PRESETS].index(proposal.size) for proposal in choices]
    assert sizes == sorted(sizes) and sizes[0] == 0 < sizes[-1]
    assert [proposal.vocabulary_size for proposal in choices] == sorted(p.vocabulary_size for p in choices)


def test_no_vocabulary_is_proposed_that_the_text_cannot_fill():
    assert propose(100, 10, 5.0, WORK_PER_SECOND, vocabulary_limit=300).vocabulary_size == 300
    assert propose(100, 10, 5.0, WORK_PER_SECOND, vocabulary_limit=5000) == proposed(100)


def test_a_machine_of_twice_the_speed_is_given_what_twice_the_minutes_are():
    fast, long = proposed(work_per_second=2 * WORK_PER_SECOND), proposed(minutes=10.0)
    assert replace(long, minutes=5.0) == fast


def test_updates_and_epochs_are_those_of_the_measured_speed():
    proposal = proposed(minutes=5.0)
    assert proposal.size == SIZE
    speed = WORK_PER_SECOND / token_cost(SIZE, proposal.vocabulary_size, proposal.batch_tokens)
    tokens = 0.9 * 300 * speed
    assert proposal.epochs == pytest.approx(tokens / 1_000_000)
    assert proposal.updates == pytest.approx(tokens / proposal.batch_tokens, abs=1)
    assert 9_000 * 0.7 < speed < 11_000


def test_the_vocabulary_follows_the_text_and_dropout_the_passes_over_it():
    small, large = proposed(3_000, 60), proposed(3_000_000, 60)
    assert small.vocabulary_size < large.vocabulary_size
    assert small.dropout > large.dropout
    assert small.size == large.size


def test_batches_are_smaller_where_there_are_few_updates():
    batches = [proposed(minutes=minutes).batch_tokens for minutes in (0.1, 5, 28)]
    assert batches == sorted(batches) and batches[0] == BATCHES[0] < batches[-1]


@pytest.mark.parametrize("field", range(4))
def test_a_larger_size_costs_more(field):
    sizes = list(astuple(SIZE))
    sizes[field] *= 2
    assert token_cost(ModelSize(*sizes), 4000, 2048) > token_cost(SIZE, 4000, 2048)
    assert token_cost(SIZE, 8000, 2048) > token_cost(SIZE, 4000, 2048) > token_cost(SIZE, 4000, 4096)


def test_a_proposal_is_a_sentence_and_sections_of_a_config():
    proposal = proposed()
    assert str(proposal).startswith("2 + 1 layers, d_model 128, vocabulary 4,000: about ")
    assert {key.split(".")[0] for key in proposal.settings()} == {"tokenizer", "batches", "model", "training"}
    assert proposal.settings()["training.max_minutes"] == 5.0


OWN = (ROOT / "configs" / "own.yaml").read_text(encoding="utf-8")
REFERENCE = 1e6  # the speed of the machine on which the cost of a token was measured


def test_the_table_of_own_yaml_has_what_is_proposed_for_each_size_and_time():
    numbers = [
        [float(one.replace(",", "")) for one in line[1:].split()]
        for line in OWN.splitlines()
        if re.fullmatch(r"#( +[\d,.]+){10}", line)
    ]
    expected = []
    for pairs in (5_000, 50_000, 150_000):
        for minutes in (5, 60, 480):
            one = propose(pairs, 10, minutes, REFERENCE)
            sizes = astuple(one.size)[:4]
            rest = (one.vocabulary_size, one.batch_tokens, *sizes, one.dropout, one.learning_rate)
            expected.append([pairs, minutes, *rest])
    assert numbers == expected


def test_own_yaml_has_the_values_of_one_row_of_its_table():
    values = parse_yaml(OWN)
    for key, value in propose(150_000, 10, 5, REFERENCE).settings().items():
        section, name = key.split(".")
        assert values[section].get(name) == value, key
