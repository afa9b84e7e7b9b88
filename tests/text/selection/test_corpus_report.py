"""The report on the text says what is shared, and what to do about it."""

import numpy as np

from qkv.config.choices.text import CORPUS_PROBLEMS
from qkv.text.corpora.corpus import Corpus
from qkv.text.corpora.overlap import MOST_LINES, SharedSentences, report_overlap
from qkv.text.selection import Findings, Selection, describe_invisible, report_selection


def corpus_of(*pairs):
    return Corpus(*zip(*pairs, strict=True), range(1, len(pairs) + 1), "made.tsv")


def overlap_of(training, other, name):
    return report_overlap(SharedSentences.of(other).shared_with(training.source, training.target), other, name)


def test_shared_sources_are_warned_of_with_a_remedy(caplog):
    training = corpus_of(("a", "A"), ("b", "B"), ("b", "BB"))
    overlap = overlap_of(training, corpus_of(("c", "A"), ("b", "other"), ("a", "A")), "validation")
    assert overlap == {"pairs": 1, "sources": 2, "targets": 2, "of": 3, "lines": [2, 3]}
    assert "2 of 3 validation sources are in the training text" in caplog.text
    assert "set data.validation: {share: 0.01} to hold out a set" in caplog.text


def test_shared_targets_alone_are_no_reason_to_warn(caplog):
    assert overlap_of(corpus_of(("a", "A")), corpus_of(("b", "A")), "test")["targets"] == 1
    assert caplog.text == ""


def test_all_findings_are_counted_and_the_first_are_listed():
    count = MOST_LINES + 5
    training = corpus_of(*[("a", "A")] * count)
    reasons = np.full(count, 1 + list(CORPUS_PROBLEMS).index("duplicate"), np.uint8)
    reasons[0] = 0
    findings, none = Findings(tuple(CORPUS_PROBLEMS), reasons), Findings((), reasons[:0])
    selection = Selection(np.arange(count), findings, dict.fromkeys(CORPUS_PROBLEMS, "keep"), none)
    report = report_selection(training, selection)
    assert "filtered" not in report
    assert report["found"]["duplicate"]["count"] == count - 1
    assert report["lines"]["duplicate"] == list(range(2, MOST_LINES + 2))
    overlap = overlap_of(training, training, "test")
    assert overlap["sources"] == count and overlap["lines"] == list(range(1, MOST_LINES + 1))


def test_invisible_characters_are_named_by_how_many_there_are():
    many = {f"U+200{digit}": digit for digit in range(1, 11)}
    told = describe_invisible({"source": {}, "target": {"U+00AD": 1234, "U+00A0": 3, "U+FEFF": 3}, "third": many})
    assert told.startswith("target U+00AD (1,234), U+00A0 (3), U+FEFF (3); third U+20010 (10), U+2009 (9), ")
    assert told.endswith(", U+2003 (3) and 2 more")
    assert describe_invisible({"source": {}, "target": {}}) == ""
