"""Tokens and arrays of any program become an archive; what does not fit is refused by name."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from qkv.errors import InputError
from qkv.inspection import AttentionArchive, Sentence, write_archive
from qkv.text.corpora.word_links import GoldAlignment
from tests.support.oracles import softmax
from tests.support.processes import run_without

SENTENCES = [
    Sentence(["▁the", "▁ca", "t", "</s>"], ["▁le", "▁chat", "</s>"], start="<pad>", reference="un chat"),
    Sentence(["▁a", "</s>"], ["▁un", "▁de", "ux", "</s>"], log_probabilities=[-1, -0.5, 0, -2], truncated=True),
]
GOLD = [GoldAlignment(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)})), GoldAlignment(frozenset(), frozenset())]


def weights_of(sentences, layers=2, heads=3, dtype="float64"):
    generator = np.random.default_rng(5)
    shapes = [(layers, heads, len(one.target_tokens), len(one.source_tokens)) for one in sentences]
    return [softmax(generator.normal(size=shape)).astype(dtype) for shape in shapes]


@pytest.fixture
def weights():
    return weights_of(SENTENCES)


def test_what_is_given_is_read_back(tmp_path, weights):
    archive = write_archive(tmp_path / "new" / "a", SENTENCES, iter(weights), gold=GOLD, manifest={"model": "x"})
    assert archive.manifest["model"] == "x" and archive.manifest["sites"] == {"cross": [2, 3]}
    assert archive.ids == [0, 1] and archive.gold == GOLD
    first, second = AttentionArchive(tmp_path / "new" / "a")
    for record, given in zip((first, second), weights, strict=True):
        np.testing.assert_array_equal(record.attention["cross"], given.astype("float32"))
    assert (first.source, first.hypothesis, first.reference) == ("the cat", "le chat", "un chat")
    assert (first.source_words, first.target_words) == ([0, 1, 1, None], [0, 1, None])
    assert first.target_input_tokens == ["<pad>", "▁le", "▁chat"]
    assert (first.mode, first.truncated, first.token_log_probabilities) == ("forced", False, [])
    assert (second.target_words, second.truncated) == ([0, 1, 1, None], True)
    assert second.token_log_probabilities == [-1, -0.5, 0, -2]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_16_bits_are_enough(tmp_path, dtype):
    (given,) = weights_of([SENTENCES[0]], dtype=dtype)
    archive = write_archive(tmp_path / "a", SENTENCES[:1], [given])
    np.testing.assert_array_equal(archive[0].attention["cross"], given.astype("float32"))


def test_further_sites_are_archived_and_lists_of_layers_are_arrays(tmp_path, weights):
    encoder = softmax(np.random.default_rng(0).normal(size=(1, 2, 4, 4))).astype("float32")
    archive = write_archive(tmp_path / "a", SENTENCES[:1], [{"cross": list(weights[0]), "encoder": encoder}])
    np.testing.assert_array_equal(archive[0].attention["encoder"], encoder)
    assert archive.manifest["sites"] == {"cross": [2, 3], "encoder": [1, 2]}


def test_rows_may_sum_to_less_than_one_where_that_is_said(tmp_path, weights):
    halves = [one / 2 for one in weights]
    archive = write_archive(tmp_path / "a", SENTENCES, halves, partial_rows=True)
    np.testing.assert_array_equal(archive[1].attention["cross"], halves[1].astype("float32"))
    with pytest.raises(InputError, match=r"sentence 1: cross, layer 0, head 0, row 0: .* sum to at most 1, .* of 1\.5"):
        write_archive(tmp_path / "b", SENTENCES, [halves[0], weights[1] * 1.5], partial_rows=True)


def test_words_may_be_given_and_the_sides_may_be_spelled_differently(tmp_path):
    sentence = Sentence(
        ["[CLS]", "don", "'", "t", "!", "[SEP]"],
        ["n", "Ġnon", "</s>"],
        source="don't !",
        source_words=np.array([None, 0, 0, 0, 1, None]),
    )
    archive = write_archive(tmp_path / "a", [sentence], weights_of([sentence]), marks=("wordpiece", "byte_level"))
    assert archive[0].source_words == [None, 0, 0, 0, 1, None]
    assert (archive[0].source, archive[0].hypothesis) == ("don't !", "n non")
    assert archive[0].spell_source_words() == {0: "don't", 1: "!"}


def test_every_token_is_a_word_of_text_without_spaces(tmp_path):
    sentence = Sentence(["▁我", "喜欢", "</s>"], ["I", "like", "</s>"], source="我喜欢")
    archive = write_archive(tmp_path / "a", [sentence], weights_of([sentence], dtype="float32"), marks="none")
    assert (archive[0].source, archive[0].source_unit, archive[0].target_unit) == ("我喜欢", "subwords", "subwords")
    assert archive[0].spell_source_words() == {0: "我", 1: "喜欢"}


def test_a_text_that_was_cut_short_may_have_more_words_than_the_tokens(tmp_path, weights):
    longer = replace(SENTENCES[1], target="un deux trois quatre")
    assert write_archive(tmp_path / "a", [longer], weights[1:])[0].hypothesis == "un deux trois quatre"


def change(place, **fields):
    return lambda sentences, weights: (
        [replace(one, **fields) if i == place else one for i, one in enumerate(sentences)],
        weights,
    )


def exchange(place, make):
    return lambda sentences, weights: (sentences, [make(w) if i == place else w for i, w in enumerate(weights)])


def with_one(value):
    def spoil(weights):
        weights = weights.copy()
        weights[1, 2, 0, 0] = value
        return weights

    return spoil


BAD = {
    "axes exchanged": (
        exchange(0, lambda w: w.swapaxes(2, 3)),
        r"sentence 0: cross: expected shape \(layers, heads, 3 target tokens, 4 source tokens\), found "
        r"\(2, 3, 4, 3\); exchange the last two axes",
    ),
    "padding": (exchange(1, lambda w: np.pad(w, [(0, 0)] * 3 + [(0, 2)])), r"sentence 1: .*cut the padding off"),
    "a batch": (exchange(0, lambda w: w[:, None]), r"sentence 0: .*take one sentence out of the batch"),
    "another layer": (exchange(1, lambda w: w[:1]), r"sentence 1: expected sites .*\[2, 3\].*, found .*\[1, 3\]"),
    "not finite": (exchange(1, with_one(np.nan)), r"sentence 1: cross, layer 1: expected finite numbers, found nan"),
    "infinite": (exchange(0, with_one(np.inf)), r"sentence 0: cross, layer 1: expected finite numbers, found inf"),
    "scores": (exchange(0, lambda w: np.log(w)), r"sentence 0: cross, layer 0: expected weights after the softmax"),
    "after dropout": (
        exchange(1, with_one(0)),
        r"sentence 1: cross, layer 1, head 2, row 0: expected weights that sum to 1 \(at most 1 with "
        r"partial_rows=True\), found a sum of 0\.\d+; give weights after the softmax and before dropout",
    ),
    "integers": (exchange(0, lambda w: (w > 0.5).astype(int)), r"sentence 0: cross: expected floating-point .* int64"),
    "no array": (exchange(0, lambda w: [[1, 2], [3]]), r"sentence 0: cross: cannot be read as an array"),
    "no cross": (exchange(0, lambda w: {"encoder": np.full((2, 3, 4, 4), 0.25)}), r"sentence 0: .*the site 'cross'"),
    "unknown site": (exchange(0, lambda w: {"cros": w}), r"sentence 0: expected attention of sites among cross,"),
    "too few": (lambda s, w: (s, w[:1]), r"weights: expected weights of 2 sentences, found 1"),
    "too many": (lambda s, w: (s, [*w, w[0]]), r"weights: expected weights of 2 sentences, found more"),
    "ids": (change(1, source_tokens=[5, 2]), r"sentence 1: source_tokens: .* found 5: convert ids to tokens"),
    "half a character": (
        change(1, source_tokens=["\ud800", "b"]),
        r"sentence 1: source_tokens: expected tokens as text",
    ),
    "no token": (change(0, target_tokens=[]), r"sentence 0: target_tokens: expected at least one token"),
    "other words": (
        change(0, source="the black cat"),
        r"sentence 0: source: its tokens spell 2 words \(the cat\), and the text has 3 between spaces",
    ),
    "more words than the text": (change(1, target_words=[0, 1, 2, None], target="a b"), r"spell 3 words"),
    "words of other tokens": (change(0, source_words=[0, None]), r"sentence 0: source_words: expected 4 entries"),
    "a word below 0": (change(0, source_words=[0, -1, 1, None]), r"source_words: .* from 0 on, or None, found -1"),
    "a huge word": (change(0, source_words=[0, 10**9, 1, None]), r"source_words: .*, found 1000000000"),
    "a word in letters": (change(0, source_words=["a", 0, 1, None]), r"source_words: .*, found 'a'"),
    "a word without a token": (change(0, source_words=[1, 2, 2, None]), r"no token has word 0, so the text is needed"),
    "probabilities": (change(1, log_probabilities=[0.9] * 4), r"sentence 1: log_probabilities: .* found 0\.9"),
    "few probabilities": (change(1, log_probabilities=[-1.0]), r"token_log_probabilities: expected 4 .* found 1"),
    "no number": (change(1, log_probabilities=[-1, 0, 0, None]), r"log_probabilities: .* found None"),
    "huge": (change(1, log_probabilities=[-1, 0, 0, 10**5000]), r"log_probabilities: .* found a number of thousands"),
    "huge negative": (change(1, log_probabilities=[-1, 0, 0, -(10**400)]), r"log_probabilities: .* found -1000"),
    "huge word": (change(1, source_words=[10**5000, None]), r"source_words: .* found a number of thousands"),
    "no text": (change(0, target=7), r"sentence 0: target: expected text, found 7"),
    "no reference": (change(0, reference=b"x"), r"sentence 0: reference: expected text, found b'x'"),
    "no start": (change(0, start=None), r"sentence 0: start: expected text, found None"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_by_its_sentence(tmp_path, weights, case):
    spoil, message = BAD[case]
    with pytest.raises(InputError, match=message):
        write_archive(tmp_path / "a", *spoil(SENTENCES, weights))
    assert not (tmp_path / "a" / "manifest.json").exists()
    assert len(write_archive(tmp_path / "a", SENTENCES, weights)) == 2  # the same folder, once it is mended


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"marks": "byte_level"},
            "marks: byte_level for the source, but no token has 'Ġ', some have '▁': expected sen",
        ),
        ({"marks": ("sentencepiece", "wordpiece")}, "marks: wordpiece for the target, but"),
        ({"marks": "bpe"}, "marks: expected one of sentencepiece, .*, found 'bpe'"),
        ({"mode": "sampled"}, "mode: expected one of greedy, beam, sampling, forced, found 'sampled'"),
        ({"mode": "greedy", "gold": GOLD}, "gold: expected mode 'forced'.*found 'greedy'"),
        ({"gold": GOLD[:1]}, "gold: expected one alignment for each of 2 sentences, found 1"),
        ({"manifest": {"model": object()}}, "manifest: expected values that JSON can hold"),
        ({"manifest": {"loss": float("nan")}}, "manifest: expected values that JSON can hold"),
        ({"manifest": {"sites": {}}}, "manifest: expected no keys .*, found sites"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, weights, arguments, message):
    with pytest.raises(InputError, match=message):
        write_archive(tmp_path / "a", SENTENCES, weights, **arguments)
    assert not (tmp_path / "a").exists()


def test_a_finished_archive_and_a_file_are_not_overwritten(tmp_path, weights):
    write_archive(tmp_path / "a", SENTENCES, weights)
    before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    with pytest.raises(InputError, match="the folder has an attention archive"):
        write_archive(tmp_path / "a", SENTENCES, weights, gold=GOLD)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    (tmp_path / "b").touch()
    with pytest.raises(InputError, match="b: this is a file; expected the name of a folder"):
        write_archive(tmp_path / "b", SENTENCES, weights)


def test_gold_alignments_of_an_interrupted_archive_do_not_outlive_it(tmp_path, weights):
    with pytest.raises(InputError):
        write_archive(tmp_path / "a", SENTENCES, weights[:1], gold=GOLD)
    assert (tmp_path / "a" / "gold.pharaoh").exists()
    assert write_archive(tmp_path / "a", SENTENCES, weights).gold is None


def test_weights_are_taken_one_by_one(tmp_path, weights):
    """A generator's arrays need not fit into memory together."""
    taken = []

    def one_by_one():
        for number, one in enumerate(weights):
            taken.append(number)
            yield one
            one[:] = np.nan  # the program uses its buffer again

    archive = write_archive(tmp_path / "a", SENTENCES, one_by_one())
    assert taken == [0, 1] and np.isfinite(archive[0].attention["cross"]).all()


NUMPY_ALONE = """
import sys, numpy
from qkv.inspection import Sentence, write_archive
archive = write_archive(sys.argv[1], [Sentence(["▁a", "b"], ["▁c"])], [numpy.full((1, 1, 1, 2), 0.5)])
print(archive[0].source)
known = set(sys.stdlib_module_names) | {"numpy", "qkv", "__mp_main__", "sitecustomize"}
sys.exit(sorted({name.partition(".")[0] for name in sys.modules} - known - set(sys.argv[2:])) or 0)
"""


def test_writing_and_reading_need_numpy_alone(tmp_path):
    at_start = run_without(
        [], tmp_path / "none", "-c", "import sys, numpy; print(*{m.partition('.')[0] for m in sys.modules})"
    )
    ended = run_without(
        ["tensorflow", "keras", "pandas", "pydantic", "yaml", "h5py", "matplotlib", "sacrebleu"],
        tmp_path / "site",
        "-c",
        NUMPY_ALONE,
        tmp_path / "a",
        *at_start.stdout.split(),
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ab\n", "")


def test_the_files_are_those_of_our_own_writer(tmp_path, weights):
    write_archive(tmp_path / "a", SENTENCES, weights)
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"manifest.json", "sentences.jsonl", "shard-00000.npz"}
    lines = (tmp_path / "a" / "sentences.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [0, 1]
    assert re.match(r'\{"id": 0, "shard": "shard-00000\.npz", "source": "the cat"', lines[0])
