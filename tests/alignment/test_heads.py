import time

import numpy as np
import pandas as pd
import pytest

from pipeline.alignment.error_rate import alignment_error_rate
from pipeline.alignment.heads import choose, score_heads
from pipeline.alignment.links import LINKS, as_links, link_words
from pipeline.alignment.readout import eos_argmax_share, row_words, word_matrix
from pipeline.alignment.symmetrise import grow_diag
from pipeline.text.pharaoh import GoldAlignment

SOURCE = (0, 0, 1, 2, 2, None)  # three words in five pieces, then EOS
TARGET = (0, 1, 1, 1, 2, 3, 3, None)


def word_matrix_by_loops(weights, source_words, row_words, n_source, n_target):
    matrix = np.zeros((n_target, n_source))
    for j in range(n_target):
        rows = [t for t, word in enumerate(row_words) if word == j]
        for i in range(n_source):
            for t in rows:
                for s, word in enumerate(source_words):
                    if word == i:
                        matrix[j, i] += weights[t, s] / len(rows)
    return matrix


def one_hot(columns, width):
    return np.eye(width, dtype=np.float32)[list(columns)]


def gold_of(*links):
    return GoldAlignment(frozenset(links), frozenset(links))


@pytest.mark.parametrize("side", ["output", "input"])
def test_word_matrix_sums_source_pieces_and_averages_target_pieces(make_record, side):
    weights = make_record(4, SOURCE, TARGET).attention["cross"]
    rows = row_words(TARGET, side)
    matrices = word_matrix(weights, SOURCE, rows, 3, 4)
    assert matrices.shape == (2, 3, 4, 3)
    for index in np.ndindex(2, 3):
        expected = word_matrix_by_loops(weights[index], SOURCE, rows, 3, 4)
        np.testing.assert_allclose(matrices[index], expected, atol=1e-6)
        np.testing.assert_allclose(word_matrix(weights[index], SOURCE, rows, 3, 4), expected, atol=1e-6)


def test_eos_column_is_left_out_and_the_rest_is_not_renormalised(make_record):
    weights = make_record(4, SOURCE, TARGET).attention["cross"][0, 0]
    matrix = word_matrix(weights, SOURCE, TARGET, 3, 4)
    assert matrix.sum(axis=1) == pytest.approx(
        [1 - weights[[t for t, word in enumerate(TARGET) if word == j], -1].mean() for j in range(4)], abs=1e-6
    )


def test_a_target_word_without_tokens_is_a_zero_row_and_gets_no_link():
    matrix = word_matrix(one_hot([0, 1], 3), [0, 1, None], [0, None], 2, 3)
    np.testing.assert_array_equal(matrix, [[1, 0], [0, 0], [0, 0]])
    assert as_links(link_words(matrix, "target")) == {(0, 0)}


def test_lists_that_do_not_fit_and_words_outside_are_refused(make_record):
    weights = make_record(4, SOURCE, TARGET).attention["cross"]
    with pytest.raises(ValueError, match=r"8 rows, 6 columns"):
        word_matrix(weights.swapaxes(2, 3), SOURCE, TARGET, 3, 4)
    with pytest.raises(ValueError, match="source token 3 belongs to word 2 of 2"):
        word_matrix(weights, SOURCE, TARGET, 2, 4)
    with pytest.raises(ValueError, match="side"):
        row_words(TARGET, "both")


def test_input_side_reads_each_word_one_row_later():
    assert row_words([0, 1, 1, None], "output") == [0, 1, 1, None]
    assert row_words([0, 1, 1, None], "input") == [None, 0, 1, 1]  # the row that predicts EOS read the last word


def test_input_side_of_a_truncated_sentence_lacks_its_last_token():
    assert row_words([0, 1, 2], "input") == [None, 0, 1]


@pytest.mark.parametrize(
    ("linked", "expected"),
    [
        ("target", {(1, 0), (0, 1)}),
        ("source", {(0, 1), (1, 0), (2, 1)}),
        ("mutual", {(1, 0), (0, 1)}),
        ("grow-diag", {(1, 0), (0, 1), (2, 1)}),  # source word 2 had no link, and 2-1 touches 1-0
        ("over-0.3", {(1, 0), (0, 1), (2, 1)}),
        ("over-0.4", {(1, 0)}),
    ],
)
def test_words_are_linked_by_the_first_of_the_largest_weights_of_either_side(linked, expected):
    matrix = np.array([[0.1, 0.7, 0.1], [0.4, 0.1, 0.4], [0, 0, 0]])
    assert as_links(link_words(matrix, linked)) == expected
    assert as_links(link_words(np.stack([matrix.T, matrix.T]), linked)[1]) == {
        (i, j) for j, i in as_links(link_words(matrix, {"target": "source", "source": "target"}.get(linked, linked)))
    }


def test_grown_links_of_hardly_any_weight_can_be_left_out():
    matrix = np.array([[0.9, 0.01, 0], [0.005, 0.004, 0.03]])
    assert as_links(link_words(matrix, "grow-diag")) == {(0, 0), (1, 0), (2, 1)}
    assert as_links(link_words(matrix, "grow-diag-over-0.02")) == {(0, 0), (2, 1)}


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (2, 0, 3)])
def test_where_there_are_no_words_there_are_no_links(shape):
    assert not any(link_words(np.zeros(shape), linked).any() for linked in LINKS)


def test_eos_argmax_share_counts_words_rows_alone():
    weights = one_hot([2, 0, 2, 1, 2], 3)  # the last row is EOS's own and does not count
    share = eos_argmax_share(np.stack([weights, np.roll(weights, 1, axis=1)]), [0, 1, None], [0, 0, 1, 2, None])
    np.testing.assert_allclose(share, [2 / 4, 1 / 4])
    assert np.isnan(eos_argmax_share(weights[:1], [0, 1, None], [None]))


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
    best = choose(table)
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
    assert list(table.columns) == places + shares
    assert len(table) == 2 * len(LINKS) * 2 * (3 + 1)
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
    assert table.loc[(0, "input"), ["aer", "precision", "recall"]].tolist() == [
        score.aer,
        score.precision,
        score.recall,
    ]
    assert score.aer == 1


def test_a_table_needs_forced_pairs_equal_lengths_and_links_in_range(corpus, make_record):
    records, golds, counts = corpus
    with pytest.raises(ValueError, match="zip"):
        score_heads(records[:-1], golds, counts)
    with pytest.raises(ValueError, match=r"mode 'forced'.*'beam'"):
        score_heads([make_record(mode="beam")], golds[:1], [(3, 2)])
    with pytest.raises(ValueError, match="gold link 3-0 lies outside"):
        score_heads(records[:1], [gold_of((3, 0))], counts[:1])


def test_choose_takes_the_first_of_equals_and_skips_missing_rates():
    table = pd.DataFrame({"aer": [float("nan"), 0.5, 0.25, 0.25], "head": ["mean", 0, 1, 2]}, index=[7, 7, 7, 7])
    assert choose(table)["head"] == 1
    with pytest.raises(ValueError, match="no row"):
        choose(table[:1])


def test_a_thousand_sentences_of_sixteen_heads_take_seconds(make_record):
    words = (*range(20), None)
    record = make_record(0, words, (*range(24), None), layers=2, heads=8)
    started = time.process_time()
    score_heads([record] * 200, [gold_of((0, 0))] * 200, [(20, 24)] * 200)
    assert time.process_time() - started < 2
