"""The hand-made word alignments belong to the text beside them, which is what the tokeniser makes of the pairs."""

from pathlib import Path

import pytest

from data.manythings import prepare as manythings
from data.manythings.tokenize_text import tokenize
from qkv.alignment.error_rate import alignment_error_rate, check_ranges, diagonal_links
from qkv.text.corpora.word_links import read_pharaoh

DIRECTORY = Path(manythings.__file__).parent / "alignments"


def lines(name):
    return (DIRECTORY / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")


@pytest.fixture(scope="module")
def words():
    return [[line.split(" ") for line in lines(name)] for name in ("dev.en", "dev.fr")]


@pytest.fixture(scope="module")
def gold():
    return read_pharaoh(DIRECTORY / "dev.align")


def test_the_text_is_that_of_the_pairs_as_the_tokeniser_divides_it():
    rows = [row.split("\t") for row in lines("pairs.tsv")]
    assert [tokenize(english, "en") for _, english, _ in rows] == lines("dev.en")
    assert [tokenize(french, "fr") for _, _, french in rows] == lines("dev.fr")


def test_the_pairs_stand_in_the_known_table_and_in_its_validation_split():
    table = Path(manythings.__file__).with_name(manythings.TABLE)
    if not table.is_file() or manythings.sha256(table.read_bytes()) != manythings.CHECKSUM:
        pytest.skip("needs data/manythings/fra.txt of 2019-04-07: python data/manythings/prepare.py")
    content = table.read_bytes()
    pairs = manythings.read_pairs(content, str(table))
    labels = manythings.read_known_labels()
    for number, english, french in (row.split("\t") for row in lines("pairs.tsv")):
        assert pairs[int(number) - 1] == (english, french)
        assert labels[int(number) - 1] == "val"


def test_every_pair_has_sure_links_and_none_points_outside(gold, words):
    english, french = words
    counts = [(len(source), len(target)) for source, target in zip(english, french, strict=True)]
    assert (len(gold), check_ranges(gold, counts, "the links")[1]) == (64, 0)
    assert all(alignment.sure for alignment in gold)


def test_nearly_every_word_is_linked(gold, words):
    for side in (0, 1):
        linked = sum(len({link[side] for link in alignment.possible}) for alignment in gold)
        assert linked > 0.97 * sum(len(sentence) for sentence in words[side])


def test_final_punctuation_is_linked_with_final_punctuation(gold, words):
    for alignment, english, french in zip(gold, *words, strict=True):
        assert (len(english) - 1, len(french) - 1) in alignment.sure


def test_words_written_alike_twice_over_are_linked(gold, words):
    """Names are: a link that is off by one would part them."""
    for alignment, english, french in zip(gold, *words, strict=True):
        for i, word in enumerate(english):
            if word in ("tom", "obama", "dunham", "cowboy", "banquet"):
                assert (i, french.index(word)) in alignment.sure


def test_the_order_of_words_differs_as_much_as_elsewhere(gold, words):
    diagonals = [diagonal_links(len(english), len(french)) for english, french in zip(*words, strict=True)]
    aer = alignment_error_rate(diagonals, gold).aer
    print(f"diagonal AER {aer:.1%}")
    assert 0.4 < aer < 0.65
