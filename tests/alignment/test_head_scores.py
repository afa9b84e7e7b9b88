"""The table of every layer and head against gold alignments, by loops and on planted heads."""

import numpy as np
import pandas as pd
import pytest

from qkv.alignment.error_rate import alignment_error_rate
from qkv.alignment.head_scores import HeadCounts, best_row
from qkv.alignment.links import grow_diag
from qkv.alignment.readout import AlignmentReadout
from qkv.config.choices.inspection import EXTRACTIONS
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.oracles import one_hot, word_matrix_by_loops
from tests.support.records import score_heads


def gold_of(*links):
    return GoldAlignment(frozenset(links), frozenset(links))


def planted(make_record, shift, links=((2, 0), (0, 1), (1, 2), (3, 3))):
    """A head whose rows point at the gold source word of the output token (shift 0) or the input token (shift 1)."""
    words = {j: i for i, j in links}
    target = (0, 1, 1, 2, 3, None)
    pointed = [4 if word is None else words[word] for word in target]
    columns = pointed if shift == 0 else [4, *pointed[:-1]]
    right, wrong = one_hot(columns, 5), np.full((6, 5), 0.2, np.float32)
    return make_record(
        0, source_words=(0, 1, 2, 3, None), target_words=target, attention={"cross": np.array([[wrong, right]])}
    )


@pytest.mark.parametrize(("shift", "right_side", "wrong_side"), [(0, "output", "input"), (1, "input", "output")])
def test_a_head_shifted_by_one_row_is_right_on_its_side_alone(make_record, shift, right_side, wrong_side):
    links = ((2, 0), (0, 1), (1, 2), (3, 3))
    table = score_heads([planted(make_record, shift)], [gold_of(*links)], [(4, 4)])
    aer = table[table["linked"] == "target"].set_index(["head", "side"])["aer"]
    assert aer[1, right_side] == pytest.approx(0)
    assert aer[1, wrong_side] > 0.4
    best = best_row(table)
    assert (best["layer"], best["head"], best["side"]) == (0, 1, right_side)


@pytest.fixture
def corpus(make_record):
    generator = np.random.default_rng(3)
    records, golds, counts = [], [], []
    for id_, (n_source, n_target) in enumerate([(3, 5), (9, 2), (1, 4), (6, 7)]):
        source = (*sorted([*range(n_source), int(generator.integers(n_source))]), None)
        target = (*sorted([*range(n_target), *generator.integers(n_target, size=2).tolist()]), None)
        records.append(make_record(id_, source, target, layers=2, heads=3))
        links = [(int(i), j) for j, i in enumerate(generator.integers(n_source, size=n_target))]
        golds.append(GoldAlignment(frozenset(links[1:]), frozenset(links)))
        counts.append((n_source, n_target))
    return records, golds, counts


def _threshold(row):
    return row["linked"].removeprefix("over-") if row["linked"].startswith("over-") else "inf"


def test_the_table_equals_scores_by_loops_for_every_side_layer_and_head(corpus):
    records, golds, counts = corpus
    table = score_heads(iter(records), golds, counts)
    places, shares = ["site", "layer", "head", "side", "linked"], ["aer", "precision", "recall", "eos_share"]
    assert list(table.columns) == [*places, *shares, "aer_low", "aer_high"]
    assert len(table) == 2 * len(EXTRACTIONS) * 2 * (3 + 1)
    for row in table.to_dict("records"):
        links, on_eos, rows_of_words = [], 0, 0
        for record, (n_source, n_target) in zip(records, counts, strict=True):
            layer = record.attention["cross"][row["layer"]]
            weights = layer.mean(axis=0) if row["head"] == "mean" else layer[row["head"]]
            words = list(record.target_words) if row["side"] == "output" else [None, *record.target_words[:-1]]
            matrix = word_matrix_by_loops(weights, record.source_words, words, n_source, n_target)
            target = {(max(range(n_source), key=lambda i, m=matrix, j=j: m[j, i]), j) for j in range(n_target)}
            source = {(i, max(range(n_target), key=lambda j, m=matrix, i=i: m[j, i])) for i in range(n_source)}
            ways = {"target": target, "source": source, "mutual": target & source}
            ways["grow-diag"] = grow_diag(target, source)
            ways["grow-diag-over-0.02"] = {(i, j) for i, j in ways["grow-diag"] if matrix[j, i] > 0.02}
            over = {(i, j) for i in range(n_source) for j in range(n_target) if matrix[j, i] > float(_threshold(row))}
            links.append(ways.get(row["linked"], over))
            for t, word in enumerate(words):
                rows_of_words += word is not None
                on_eos += word is not None and weights[t].argmax() == len(record.source_words) - 1
        score = alignment_error_rate(links, golds)
        assert (row["aer"], row["precision"], row["recall"]) == pytest.approx(
            (score.aer, score.precision, score.recall)
        )
        assert row["eos_share"] == pytest.approx(on_eos / rows_of_words)


def test_a_word_that_a_truncated_sentence_never_reads_gets_no_link_on_the_input_side(make_record):
    weights = one_hot([0, 1, 2], 4)[None, None]
    record = make_record(0, (0, 1, 2, None), (0, 1, 2), truncated=True, attention={"cross": weights})
    links = [(0, 0), (1, 1), (2, 2), (2, 3)]  # the reference's fourth word was cut off
    table = score_heads([record], [gold_of(*links)], [(3, 4)])
    table = table[table["linked"] == "target"].set_index(["head", "side"])
    assert table.loc[(0, "output"), ["precision", "recall"]].tolist() == [1, 3 / 4]
    score = alignment_error_rate([{(1, 0), (2, 1)}], [gold_of(*links)])
    found = table.loc[(0, "input"), ["aer", "precision", "recall"]].tolist()
    assert found == [score.aer, score.precision, score.recall]
    assert score.aer == 1


def test_a_table_needs_as_many_counts_as_gold_alignments(corpus):
    records, golds, counts = corpus
    with pytest.raises(ValueError, match="zip"):
        score_heads(records, golds, counts[:-1])


def test_the_best_row_is_the_first_of_equals_that_has_a_rate():
    table = pd.DataFrame({"aer": [float("nan"), 0.5, 0.25, 0.25], "head": ["mean", 0, 1, 2]}, index=[7, 7, 7, 7])
    assert best_row(table)["head"] == 1


def test_what_sentences_count_sums_to_the_table_and_lies_in_its_intervals():
    random = np.random.default_rng(5)
    sure = random.integers(1, 9, size=(40, 1, 1))
    links = random.integers(1, 9, size=(40, 2, 3))
    in_sure = np.minimum(links, sure) // 2
    in_possible = np.minimum(links, in_sure + 1)
    counts = HeadCounts([], [])
    columns = [links, sure + 0 * links, in_sure, in_possible, links, 0 * links]
    counts.counts["cross", "output"] = [*np.stack([np.stack(columns, axis=-1)] * len(EXTRACTIONS), axis=1)]
    table, sentences = counts.table(), counts.of_sentences(AlignmentReadout(0, 0, "output", next(iter(EXTRACTIONS))))
    assert len(table) == len(EXTRACTIONS) * 2 * 3
    assert len(sentences) == 40 * 2 * 3
    for row in table.itertuples():
        own = sentences[(sentences["layer"] == row.layer) & (sentences["head"] == str(row.head))]
        a, s, a_s, a_p = (own[name].sum() for name in ("links", "sure", "links_in_sure", "links_in_possible"))
        assert row.aer == 1 - (a_s + a_p) / (a + s)
        assert row.aer_low < row.aer < row.aer_high
