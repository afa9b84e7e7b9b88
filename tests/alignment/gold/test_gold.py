"""Gold alignments: the head is chosen on one set and reported on another, with baselines beside it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from qkv.alignment.error_rate import alignment_error_rate
from qkv.alignment.gold import read_configured_gold, read_gold_set
from qkv.alignment.head_scores import alignment_metrics, best_row
from qkv.alignment.readout import AlignmentReadout
from qkv.config.choices.inspection import EXTRACTIONS
from qkv.config.corpus import CorpusSettings
from qkv.errors import InputError
from qkv.inspection.record import Record
from qkv.text.corpora.corpus import Corpus
from qkv.text.tokens.words import AT_SPACES
from tests.support.records import score_heads


class PlantedRecorder:
    """Gives records whose head h links target word j with source word (j + shift h) modulo 3."""

    def __init__(self, shifts, side="output"):
        self.shifts = shifts
        self.side = side

    def record_references(self, sources, references):
        for id_, (source, reference) in enumerate(zip(sources, references, strict=True)):
            S, T = (len(text.split()) + 1 for text in (source, reference))
            weights = np.full((1, len(self.shifts), T, S), 0.01, np.float32)
            for head, shift in enumerate(self.shifts):
                for word in range(T - 1):
                    row = word + (self.side == "input")
                    weights[0, head, row, (word + shift) % (S - 1)] = 1
            target = [*(f"▁{word}" for word in reference.split()), "</s>"]
            yield Record(
                id=id_,
                source=source,
                reference=reference,
                hypothesis=reference,
                source_tokens=[*source.split(), "</s>"],
                target_input_tokens=["<s>", *target[:-1]],
                target_output_tokens=target,
                source_words=[*range(S - 1), None],
                target_words=[*range(T - 1), None],
                token_log_probabilities=[-1.0] * T,
                mode="forced",
                truncated=False,
                attention={"cross": weights / weights.sum(-1, keepdims=True)},
            )


def metrics_of_diagonal(gold_set):
    choice = AlignmentReadout(0, 0, "output", chosen_on="test")
    return alignment_metrics(score_pairs(PlantedRecorder([0]), gold_set), choice, gold_set)


def score_pairs(recorder, gold_set):
    records = recorder.record_references(gold_set.corpus.source, gold_set.corpus.target)
    return score_heads(records, gold_set.gold, gold_set.word_counts)


@pytest.fixture
def gold_set(tmp_path):
    def make(name, *lines):
        corpus = Corpus(["x y z"] * len(lines), ["a b c d"] * len(lines), list(range(1, len(lines) + 1)), name)
        path = tmp_path / f"{name}.align"
        path.write_text("".join(f"{line}\n" for line in lines))
        return read_gold_set(name, corpus, path)

    return make


SHIFTED_BY_1, SHIFTED_BY_0 = "1-0 2-1 0-2 1-3", "0-0 1-1 2-2 0-3"


def test_the_readout_is_the_best_of_one_set_and_is_scored_on_the_other(gold_set):
    development = gold_set("development", SHIFTED_BY_1, SHIFTED_BY_1, SHIFTED_BY_0)
    test = gold_set("test", SHIFTED_BY_0, SHIFTED_BY_0, SHIFTED_BY_0, SHIFTED_BY_1)
    recorder = PlantedRecorder([0, 1])
    choice = AlignmentReadout.from_row(best_row(score_pairs(recorder, development)), chosen_on="development")
    assert choice == AlignmentReadout(0, 1, "output", chosen_on="development")
    metrics = alignment_metrics(score_pairs(recorder, test), choice, test)
    assert metrics["aer"] == pytest.approx(75)  # head 1 is right in one sentence of four
    assert metrics["precision"] == metrics["recall"] == pytest.approx(25)
    assert (metrics["layer"], metrics["head"], metrics["side"], metrics["chosen_on"]) == (0, 1, "output", "development")
    best = metrics["best_on_this_set"]
    assert (best["head"], best["aer"]) == (0, pytest.approx(25))
    assert metrics["sentences"] == 4


@pytest.mark.parametrize("side", ["output", "input"])
def test_the_side_on_which_the_links_were_planted_is_chosen(gold_set, side):
    test = gold_set("test", SHIFTED_BY_1)
    table = score_pairs(PlantedRecorder([2, 1], side), test)
    choice = AlignmentReadout.from_row(best_row(table), chosen_on="test")
    assert (choice.head, choice.side) == (1, side)
    assert alignment_metrics(table, choice, test)["aer"] == pytest.approx(0)


def test_links_of_a_readout_have_the_error_rate_of_its_row_of_the_table(gold_set):
    test = gold_set("test", SHIFTED_BY_1, "0-0 1?1", SHIFTED_BY_0, "2-3")
    recorder = PlantedRecorder([0, 1, 2])
    table = score_pairs(recorder, test)
    assert len(table) == 2 * len(EXTRACTIONS) * (3 + 1)  # both sides; every extraction; three heads and their mean
    for _, row in table.iterrows():
        choice = AlignmentReadout(int(row["layer"]), row["head"], row["side"], row["linked"], chosen_on="test")
        records = recorder.record_references(test.corpus.source, test.corpus.target)
        score = alignment_error_rate([choice.links(record) for record in records], test.gold)
        assert (score.aer, score.precision, score.recall) == pytest.approx(
            (row["aer"], row["precision"], row["recall"]), nan_ok=True
        )


def test_a_readout_of_the_weighted_norms_is_chosen_where_it_is_best(gold_set):
    class AttentionRecorder(PlantedRecorder):
        def record_references(self, sources, references):
            norms = PlantedRecorder([1, 0]).record_references(sources, references)
            for record, other in zip(super().record_references(sources, references), norms, strict=True):
                yield replace(record, attention={**record.attention, "norms": other.attention["cross"]})

    test, recorder = gold_set("test", SHIFTED_BY_1), AttentionRecorder([0, 2])
    table = score_pairs(recorder, test)
    assert sorted(table["site"].unique()) == ["cross", "norms"] and len(table) == 2 * 2 * len(EXTRACTIONS) * (2 + 1)
    choice = AlignmentReadout.from_row(best_row(table), chosen_on="test")
    assert (choice.site, choice.head, choice.side) == ("norms", 0, "output")
    record = next(recorder.record_references(test.corpus.source, test.corpus.target))
    assert choice.links(record) == test.gold[0].sure
    metrics = alignment_metrics(table, choice, test)
    assert (metrics["site"], metrics["aer"]) == ("norms", pytest.approx(0))
    assert metrics["best_on_this_set"]["site"] == "norms"
    raw = replace(choice, site="cross")
    assert alignment_metrics(table, raw, test)["aer"] > 50


def test_diagonal_and_random_links_are_scored_beside_the_readout(gold_set):
    diagonal = "0-0 1-1 1-2 2-3"  # four words over three: middles 1/8, 3/8, 5/8, 7/8 of the way
    test = gold_set("test", *[diagonal] * 200)
    metrics = metrics_of_diagonal(test)
    assert metrics["diagonal_aer"] < 30
    assert metrics["random_aer"] == pytest.approx(100 * (1 - 1 / 3), abs=5)  # one of three source words is right
    assert metrics_of_diagonal(test) == metrics


def test_links_out_of_range_are_dropped_counted_and_named(gold_set, caplog):
    test = gold_set("test", "0-0 3-1 1-4 2?9", "", SHIFTED_BY_0)
    assert test.dropped_links == 3
    assert test.gold[0].sure == test.gold[0].possible == {(0, 0)}
    assert metrics_of_diagonal(test)["gold_links_out_of_range"] == 3
    assert test.word_counts == [(3, 4)] * 3 and re.search(r"at .*/test\.align:1, of 3 and 4 words", caplog.text)


@pytest.mark.parametrize(("lines", "dropped"), [("\n\n\n", 0), ("0-7\n\n\n", 1)])
def test_alignments_without_a_link_are_refused(tmp_path, lines, dropped):
    corpus = Corpus(["x"] * 3, ["a b"] * 3, [1, 2, 3], "three pairs")
    path = tmp_path / "gold"
    path.write_text(lines)
    with pytest.raises(InputError, match=rf"gold: no line has a link .*\({dropped} links are out of range\)"):
        read_gold_set("test", corpus, path)


def test_links_that_a_config_names_may_count_from_one(tmp_path):
    files = {"source": "a b c\n", "target": "d e\n", "alignments": "1-1 3-2\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = {name: tmp_path / name for name in files}
    with pytest.raises(
        InputError, match=r"alignments:1, .* from 1, set alignments_first_index: 1 beside alignments in "
    ):
        read_configured_gold(CorpusSettings(**paths), "test", AT_SPACES)
    (links,) = read_configured_gold(CorpusSettings(**paths, alignments_first_index=1), "test", AT_SPACES).gold
    assert links.sure == {(0, 0), (2, 1)}
