"""A run's sentences as the page's data: gold links, plain text, facts, words hardly attended to."""

from dataclasses import replace

import numpy as np

from qkv.inspection.viewer.data import ViewerRun
from qkv.inspection.viewer.page import viewer_page
from tests.support.viewer import GOLD, RECORDS, embedded, make_record


def test_gold_links_are_shown_where_the_target_is_the_reference():
    beam = replace(RECORDS[0], mode="beam")
    other = replace(beam, reference="le chat noir")
    links = [[0, 0, 1], [1, 2, 1], [3, 3, 0]]
    for record, gold in ((RECORDS[0], links), (beam, links), (other, []), (replace(other, mode="forced"), links)):
        assert ViewerRun("one", GOLD).add_all([record]).sentences[0]["gold"] == gold


def test_words_hardly_attended_to_are_named_by_their_places():
    record = make_record(0, "the black cat sleeps", "le chat noir dort")
    weights = np.zeros_like(record.attention["cross"])
    weights[..., [0, 2, 3]] = 1 / 3  # "the"; "black" and "cat" are two tokens and one
    sentence = ViewerRun("one").add_all([replace(record, attention={"cross": weights})]).sentences[0]
    words = record.source_words
    attended = {words[0], words[2], words[3]}
    assert sentence["underAttendedWords"] == [word for word in range(4) if word not in attended]
    assert sentence["underAttended"] == " ".join(record.source.split()[i] for i in sentence["underAttendedWords"])


def test_a_run_says_what_it_is():
    run = ViewerRun("one", facts=["en → fr", "BLEU 41.3"], sentences_in_set=1156).add_all(RECORDS[:1])
    data = embedded(viewer_page("title", [run, ViewerRun("bare").add_all(RECORDS[:1])]))[0]["runs"]
    assert (data[0]["facts"], data[0]["sentencesInSet"]) == (["en → fr", "BLEU 41.3"], 1156)
    assert (data[1]["facts"], data[1]["sentencesInSet"]) == ([], None)
