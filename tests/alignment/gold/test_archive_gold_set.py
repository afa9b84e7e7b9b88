"""Gold alignments of an archive: the words that they count, in every unit."""

import numpy as np
import pytest

from qkv.alignment.gold import gold_set_of
from qkv.evaluation.archive_scores import score_alignments
from qkv.inspection import ArchiveWriter, AttentionArchive
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.records import build_record

LINK = GoldAlignment(frozenset({(0, 0)}), frozenset({(0, 0), (2, 1)}))


def archive_of(folder, **changes):
    with ArchiveWriter(folder, manifest={}) as writer:
        writer.append(build_record(7, **changes))
    return AttentionArchive(folder)


@pytest.mark.parametrize(
    ("changes", "counts", "units"),
    [
        ({"source": "a b c", "hypothesis": "d e"}, (3, 2), ("spaces", "spaces")),
        ({"source": "a b c cut off", "hypothesis": "d e"}, (5, 2), ("spaces", "spaces")),
        ({"source": "a", "hypothesis": "d e"}, (3, 2), ("spaces", "spaces")),  # the tokens' words are all there
        ({"source": "我喜欢 猫", "hypothesis": "d e", "source_unit": "characters"}, (4, 2), ("characters", "spaces")),
        ({"source": "一二三四五六七", "hypothesis": "d e", "source_unit": "subwords"}, (3, 2), ("subwords", "spaces")),
    ],
)
def test_words_are_counted_in_their_unit(tmp_path, changes, counts, units):
    found = gold_set_of(archive_of(tmp_path, **changes), "a", [LINK])
    assert (list(found.word_counts), found.units) == ([counts], units)
    assert (found.gold, found.dropped_links, len(found.corpus)) == ([LINK], 0, 1)
    assert found.corpus.location(0) == "a:7"


def test_links_out_of_range_are_dropped_and_counted(tmp_path, caplog):
    outside = GoldAlignment(LINK.sure, LINK.possible | {(3, 0)})
    archive = archive_of(tmp_path, source="a b c", hypothesis="d e")
    found = gold_set_of(archive, "a", [outside])
    assert (found.gold, found.dropped_links) == ([LINK], 1)
    assert f"{archive.gold_file}:1, of 3 and 2 words" in caplog.text


def test_an_archive_without_cross_attention_has_no_readout(tmp_path):
    archive = archive_of(tmp_path, attention={"cross": np.zeros((0, 0, 4, 5), np.float32)})
    assert score_alignments(archive, "a", [LINK]).readout is None
