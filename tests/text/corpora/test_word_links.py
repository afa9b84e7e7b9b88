"""Links with probabilities, `i-j:0.93`, in Pharaoh files."""

from functools import partial

import pytest

from qkv.errors import InputError
from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.word_links import (
    GoldAlignment,
    format_pharaoh_line,
    iterate_links_inside,
    read_pharaoh,
    write_pharaoh,
)
from qkv.text.tokens.words import AT_SPACES, BETWEEN_SPACES


def test_links_with_probabilities_are_written_sorted_and_read_as_links(tmp_path):
    links = [{(2, 0): 0.936, (0, 1): 1.0, (0, 0): 0.004}, {}, {(1, 1): 0.5}]
    assert format_pharaoh_line(links[0]) == "0-0:0.00 0-1:1.00 2-0:0.94\n"
    write_pharaoh(tmp_path / "links", links)
    assert [one.sure for one in read_pharaoh(tmp_path / "links")] == [frozenset(one) for one in links]


def test_links_are_written_through_a_link(tmp_path):
    (tmp_path / "links").symlink_to("other")
    write_pharaoh(tmp_path / "links", [[(0, 1)]])
    assert (tmp_path / "links").is_symlink() and (tmp_path / "other").read_text() == "0-1\n"


def test_every_kind_of_link_may_have_a_probability(tmp_path):
    (tmp_path / "links").write_text("0-1:0 1?2:1 2p0:1.0 3-3:9e-05 4-4\n")
    sure = frozenset({(0, 1), (3, 3), (4, 4)})
    assert read_pharaoh(tmp_path / "links") == [GoldAlignment(sure, sure | {(1, 2), (2, 0)})]


@pytest.mark.parametrize("number", ["1.01", "2", "-0.1", "nan", "inf", "", "0,5", "0.5x", "1:1", "٠", "1e5"])
def test_what_is_no_probability_is_refused(tmp_path, number):
    (tmp_path / "links").write_text(f"0-0\n0-0:0.5 1-1:{number}\n")
    with pytest.raises(InputError, match=r"links:2: '1-1:.*' has no probability .*a number from 0 to 1.*0\.93"):
        read_pharaoh(tmp_path / "links")


@pytest.mark.parametrize(
    "link",
    [pytest.param("9" * 5000 + "-0", id="digits"), "0-" + "9" * 19, "-1-0", "1_0-0", "٠-0", "0.0-0", "0-0-0", "nan-0"],
)
def test_what_is_no_link_is_refused_in_few_words(tmp_path, link):
    (tmp_path / "links").write_text(f"0-0\n0-0 {link}\n")
    with pytest.raises(InputError, match=r"links:2: '.* is not a link; expected i-j") as caught:
        read_pharaoh(tmp_path / "links")
    assert len(str(caught.value)) < 300


def test_links_to_learn_that_seem_to_be_counted_from_one_are_refused(tmp_path):
    corpus = Corpus(["a b c"] * 2, ["d e"] * 2, [1, 2], "two pairs")
    (tmp_path / "links").write_text("1-1 3-2\n2-1\n")

    def read(first_index):
        count = partial(AT_SPACES.count, units=BETWEEN_SPACES)
        return [*iterate_links_inside(corpus, tmp_path / "links", False, first_index, count)]

    with pytest.raises(InputError, match=r"links:1, of 3 and 2 words: .* from 1, set alignments_first_index: 1 beside"):
        read(0)
    assert [set(one.sure) for one in read(1)] == [{(0, 0), (2, 1)}, {(1, 0)}]
