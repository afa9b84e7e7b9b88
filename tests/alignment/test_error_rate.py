from pathlib import Path

import numpy as np
import pytest

from qkv.alignment.error_rate import AlignmentScore, alignment_error_rate, check_ranges, diagonal_links, random_links
from qkv.errors import InputError
from qkv.text.corpora.word_links import GoldAlignment, read_pharaoh, write_pharaoh

SHARED = Path("/work/shared/corpora/gold_alignments")


def gold(sure, possible=()):
    return GoldAlignment(frozenset(sure), frozenset(sure) | frozenset(possible))


def rate_by_loops(links, golds):
    """Och and Ney 2003, written out: one pass over all links of the corpus."""
    a = s = a_in_s = a_in_p = 0
    for given, one in zip(links, golds, strict=True):
        for link in given:
            a += 1
            if link in one.sure:
                a_in_s += 1
            if link in one.possible:
                a_in_p += 1
        for _ in one.sure:
            s += 1
    return AlignmentScore(1 - (a_in_s + a_in_p) / (a + s), a_in_p / a, a_in_s / s)


def test_sure_and_possible_links_are_read_in_both_notations(tmp_path):
    path = tmp_path / "links"
    path.write_text("0-1 2?0 3p4\n\n5-0 5-0\n")
    assert read_pharaoh(path) == [gold({(0, 1)}, {(2, 0), (3, 4)}), gold(()), gold({(5, 0)})]


@pytest.mark.parametrize("text", ["1", "1-", "-1-2", "1-2-3", "a-b", "1+2", "1 - 2", "١-٢", "9" * 5000 + "-1"])
def test_a_malformed_link_is_refused_with_file_and_line(tmp_path, text):
    (tmp_path / "links").write_text(f"0-0\n0-0 {text}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"links:2: "):
        read_pharaoh(tmp_path / "links")


def test_a_missing_alignment_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        read_pharaoh(tmp_path / "nowhere")


def test_written_links_are_read_back_with_empty_sentences_in_their_places(tmp_path):
    links = [set(), {(10, 2), (9, 3)}, set(), {(0, 0)}, set()]
    write_pharaoh(tmp_path / "links", links)
    assert (tmp_path / "links").read_text() == "\n9-3 10-2\n\n0-0\n\n"
    assert [set(one.sure) for one in read_pharaoh(tmp_path / "links")] == links
    assert list(tmp_path.iterdir()) == [tmp_path / "links"]


def test_possible_links_must_include_the_sure_ones():
    with pytest.raises(ValueError, match="all sure links"):
        GoldAlignment(frozenset({(0, 0)}), frozenset())


def test_links_out_of_range_are_dropped_and_reported_by_line(caplog):
    golds = [gold({(0, 0), (1, 2)}), gold({(2, 0)}, {(0, 3), (1, 0)}), gold({(1, 1)})]
    checked, dropped = check_ranges(golds, [(2, 3), (2, 3), (2, 2)], "a.align")
    assert checked == [golds[0], gold((), {(1, 0)}), golds[2]] and dropped == 2
    assert caplog.messages == [
        "2 word links on 1 lines point outside their sentences and are left out, the first ones at a.align:2, of 2 and "
        "3 words, counted from 0"
    ]


@pytest.mark.parametrize("links", [[{(1, 1), (2, 3)}, {(1, 2)}], [{(1, 1), (2, 4)}, set()], [{(1, 1), (1, 3)}, set()]])
def test_links_that_seem_to_be_counted_from_one_are_refused(links):
    golds = [gold(one) for one in links]
    with pytest.raises(InputError, match=r"^a\.align:1, of 2 and 3 words: 1 word links .* If they .* from 1, do this;"):
        check_ranges(golds, [(2, 3)] * 2, "a.align", remedy="do this")
    with pytest.raises(InputError, match=r"from 1, write the file again, counted from 0: perl -pe "):
        check_ranges(golds, [(2, 3)] * 2, "a.align")


@pytest.mark.parametrize(
    ("links", "outside"),
    [
        ([{(1, 1), (2, 3)}, {(0, 2)}], True),  # there is a word 0
        ([{(1, 0), (2, 3)}, {(1, 2)}], True),
        ([{(1, 1), (1, 2)}, {(1, 2)}], False),
    ],
)
def test_links_with_a_zero_or_all_inside_are_taken_as_counted_from_zero(caplog, links, outside):
    check_ranges([gold(one) for one in links], [(2, 3)] * 2, "a.align")
    assert bool(caplog.messages) == outside


def test_links_that_were_read_as_counted_from_one_are_not_refused_again(tmp_path, caplog):
    (tmp_path / "links").write_text("1-1 2?3\n\n3-3\n")
    golds = read_pharaoh(tmp_path / "links", first_index=1)
    assert golds == [gold({(0, 0)}, {(1, 2)}), gold(()), gold({(2, 2)})]
    assert check_ranges(golds, [(2, 3)] * 3, "links", first_index=1) == ([*golds[:2], gold(())], 1)
    moved = [gold({(1, 1), (2, 2)})]
    assert check_ranges(moved, [(2, 3)], "links", first_index=1)[1] == 1
    assert "the first ones at links:1, of 2 and 3 words, counted from 1" in caplog.text
    (tmp_path / "links").write_text("1-1 2-0\n")
    with pytest.raises(InputError, match=r"links:1: '2-0' has a word 0; expected words counted from 1"):
        read_pharaoh(tmp_path / "links", first_index=1)


def test_error_rate_equals_loops_over_all_links_and_is_not_the_mean_of_sentences():
    generator = np.random.default_rng(0)
    links, golds = [], []
    for n_source, n_target in [(2, 5), (7, 3), (30, 26), (1, 4)]:
        sure = random_links(n_source, n_target, generator) | {(0, 0)}
        golds.append(gold(sure, random_links(n_source, n_target, generator)))
        links.append(diagonal_links(n_source, n_target) | set(list(sure)[: n_target // 2]))
    pooled = alignment_error_rate(links, golds)
    assert pooled == pytest.approx(rate_by_loops(links, golds))
    mean = np.mean([alignment_error_rate([a], [g]).aer for a, g in zip(links, golds, strict=True)])
    assert abs(pooled.aer - mean) > 0.01


def test_error_rate_equals_one_worked_out_by_hand():
    """A = {00, 11, 20}, S = {00, 22}, P = S + {11}: 1 - (1 + 2) / (3 + 2)."""
    score = alignment_error_rate([[(0, 0), (1, 1), (2, 0), (2, 0)]], [gold({(0, 0), (2, 2)}, {(1, 1)})])
    assert score == pytest.approx(AlignmentScore(aer=0.4, precision=2 / 3, recall=0.5))


def test_error_rate_of_the_gold_links_themselves_is_zero_and_of_nothing_is_not_a_number():
    one = gold({(0, 0)}, {(1, 1)})
    assert alignment_error_rate([one.sure], [one]).aer == 0
    assert alignment_error_rate([one.possible], [one]).aer == 0
    assert np.isnan(alignment_error_rate([[]], [gold(())]).aer)
    with pytest.raises(ValueError, match="zip"):
        alignment_error_rate([[]], [])


def test_diagonal_takes_the_nearest_source_middle():
    for n_source in range(1, 9):
        for n_target in range(1, 9):
            links = diagonal_links(n_source, n_target)
            assert sorted(j for _, j in links) == list(range(n_target))
            for i, j in links:
                distances = [abs((s + 0.5) / n_source - (j + 0.5) / n_target) for s in range(n_source)]
                assert distances[i] == pytest.approx(min(distances))
    assert diagonal_links(0, 3) == set()


def test_random_links_repeat_with_their_seed_and_stay_in_range():
    first, second, other = (random_links(3, 50, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == second != other
    assert {i for i, _ in first} == {0, 1, 2}
    assert sorted(j for _, j in first) == list(range(50))
    assert random_links(0, 3, np.random.default_rng(0)) == set()


@pytest.mark.skipif(not SHARED.exists(), reason="the published gold alignments are not on this machine")
def test_diagonal_baseline_on_published_english_french_links():
    links = read_pharaoh(SHARED / "graca_enfr.align")
    texts = ((SHARED / f"graca_enfr.{language}").read_text().splitlines() for language in ("en", "fr"))
    counts = [(len(source.split()), len(target.split())) for source, target in zip(*texts, strict=True)]
    checked, dropped = check_ranges(links, counts, "graca_enfr.align")
    assert (len(links), dropped) == (100, 0)
    diagonal = alignment_error_rate([diagonal_links(*pair) for pair in counts], checked)
    assert 100 * diagonal.aer == pytest.approx(61.4, abs=0.05)


def test_a_file_of_the_opposite_direction_is_turned(tmp_path):
    (tmp_path / "links").write_text("0-2 1?0\n\n")
    assert read_pharaoh(tmp_path / "links", turned=True) == [gold({(2, 0)}, {(0, 1)}), gold(())]
    one = read_pharaoh(tmp_path / "links")
    assert [alignment.turned.turned for alignment in one] == one
