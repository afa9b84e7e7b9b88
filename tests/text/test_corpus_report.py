"""The report on the text says what is shared, and what to do about it."""

from pipeline.text.corpus import Corpus
from pipeline.text.corpus_report import describe_overlap, report_overlap


def corpus_of(*pairs):
    return Corpus(*zip(*pairs, strict=True), range(1, len(pairs) + 1), "made.tsv")


def test_shared_sources_are_warned_of_with_a_remedy(caplog):
    training = corpus_of(("a", "A"), ("b", "B"), ("b", "BB"))
    overlap = report_overlap(training, corpus_of(("c", "A"), ("b", "other"), ("a", "A")), "validation")
    assert overlap == {"pairs": 1, "sources": 2, "targets": 2, "of": 3, "lines": [2, 3]}
    assert describe_overlap(overlap, "validation") in caplog.text
    assert "2 of 3 validation sources are in the training text" in caplog.text
    assert "set data.validation: {share: 0.01} to hold out a set" in caplog.text


def test_shared_targets_alone_are_no_reason_to_warn(caplog):
    assert report_overlap(corpus_of(("a", "A")), corpus_of(("b", "A")), "test")["targets"] == 1
    assert caplog.text == ""
