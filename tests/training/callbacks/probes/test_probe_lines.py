"""What a person reads of the probes while a run trains."""

import io
import random
from types import SimpleNamespace

import pytest

from qkv.text.corpora.corpus import Corpus
from qkv.training.callbacks.probes import ProbeLines, middle_pairs


def corpus_of(pairs):
    source, target = zip(*pairs, strict=True) if pairs else ((), ())
    return Corpus(source, target, range(len(pairs)), "text")


PAIRS = [("a" * length, f"{length} long") for length in range(1, 102)]


def test_chosen_pairs_are_of_middle_length_and_do_not_depend_on_the_order_of_the_text():
    chosen = middle_pairs(corpus_of(PAIRS))
    assert [len(source) for source, _ in chosen] == [41, 51, 61]
    shuffled = random.Random(1).sample(PAIRS, len(PAIRS))
    assert middle_pairs(corpus_of([*shuffled, *PAIRS[:9], ("", "empty"), ("b" * 51, "")])) == chosen


@pytest.mark.parametrize("number", range(4))
def test_of_a_few_pairs_none_is_chosen_twice(number):
    chosen = middle_pairs(corpus_of(PAIRS[:number]))
    assert len(chosen) == len(set(chosen)) and bool(chosen) == bool(number)


def shown(probes, translated, stream=None):
    stream = stream or io.StringIO()
    translator = SimpleNamespace(translate=lambda sources: [SimpleNamespace(text=translated) for _ in sources])
    ProbeLines(translator, probes, stream).on_test_end({"update": 5})
    stream.seek(0)
    return stream.read().splitlines()


def test_each_probe_has_a_line_for_source_reference_and_translation():
    assert shown([("un chat", "a cat"), ("oui", None)], "a dog") == [
        "  source       un chat",
        "  reference    a cat",
        "  translation  a dog",
        "  source       oui",
        "  translation  a dog",
    ]


def test_only_three_probes_are_printed_and_long_lines_are_cut():
    lines = shown([("x" * 500, None)] * 9, "y" * 500)
    assert len(lines) == 6 and max(map(len, lines)) < 120 and all(line.endswith("…") for line in lines)


def test_no_probe_ends_the_training_or_steers_the_terminal_whatever_the_encoding():
    probes = [("x" * 500, "red \x1b[31m \x9b31m \u202edoc.exe"), ("\udc80", None)]
    for encoding, cut in (("latin-1", "\\u2026"), ("ascii", "\\u2026"), ("utf-8", "…")):
        stream = io.TextIOWrapper(io.BytesIO(), encoding)
        lines = shown(probes, "où", stream)
        assert lines[0] == f"  source       {'x' * 99}{cut}"
        assert lines[1] == r"  reference    red \x1b[31m \x9b31m \u202edoc.exe"
        assert lines[3] == r"  source       \udc80"


def test_without_probes_nothing_is_printed_or_translated():
    assert shown([], None) == []
