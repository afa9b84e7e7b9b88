"""Tags stand before the sources of their parts, and links follow."""

from qkv.text.tokens import encoding
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences, put_tags


def test_tags_are_put_before_the_sources_of_their_parts_and_links_follow(monkeypatch):
    monkeypatch.setattr(encoding, "CHUNK_SENTENCES", 2)
    source = [[10, 11], [], [12], [13, 14, 15], [16]]
    links = [[0, 0, 1, 2], [], [0, 1], [2, 0], []]
    pairs = EncodedPairs(*(EncodedSentences.from_rows(rows) for rows in (source, [[7]] * 5, links)))
    tagged = put_tags(pairs, [(0, 3, 4), (3, 4, None), (4, 5, 5)])
    assert [row.tolist() for row in tagged.source] == [[4, 10, 11], [4], [4, 12], [13, 14, 15], [5, 16]]
    assert [row.tolist() for row in tagged.target] == [[7]] * 5
    assert [row.tolist() for row in tagged.links] == [[1, 0, 2, 2], [], [1, 1], [2, 0], []]
    assert tagged.source.ids.dtype == pairs.source.ids.dtype
    assert put_tags(pairs, [(0, 5, None)]) is pairs
