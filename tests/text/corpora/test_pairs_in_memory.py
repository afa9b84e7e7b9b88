"""Pairs from Python become line-aligned files, whatever their form; what is no pair is told in one short message."""

import gzip
import hashlib
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from qkv.errors import InputError
from qkv.files.run_directory import RunDirectory
from qkv.text.corpora import pairs_in_memory
from qkv.text.corpora.formats import read_corpus_table
from qkv.text.corpora.pairs_in_memory import spool_pairs

SOURCES = ["the cat", "", "a dog sees e\u0301", "the\ttab", "dogs", "the cat"]
TARGETS = ["le chat", "rien", "un chien", "la\u2028ligne", "", "le chat"]
PAIRS = list(zip(SOURCES, TARGETS, strict=True))
LINKS = [[(0, 0), (1, 1)], [], [(1, 1), (0, 0)], [], [], [(1, 1)]]
LINK_LINES = ["0-0 1-1", "", "0-0 1-1", "", "", "1-1"]
FRAME = pd.DataFrame({"en": SOURCES, "fr": TARGETS})


def spool(pairs, folder, columns=(None, None)):
    return spool_pairs(pairs, folder, ("en", "fr"), columns)


def lines_of(spooled):
    return {key: path.read_text("utf-8").split("\n")[:-1] for key, path in spooled.spooled_files().items()}


class StandIn:
    """Has what `datasets.Dataset` offers: batches of columns, each a dictionary of lists."""

    def __init__(self, **columns):
        self.columns_by_name = columns
        self.column_names = list(columns)

    def iter(self, batch_size):
        for first in range(0, len(next(iter(self.columns_by_name.values()))), 4):
            yield {name: column[first : first + 4] for name, column in self.columns_by_name.items()}


FORMS = {
    "frame": FRAME,
    "swapped": FRAME[["fr", "en"]],  # columns are found by the languages
    "renamed": FRAME.rename(columns={"en": "source", "fr": "target"})[["target", "source"]],
    "unnamed": pd.DataFrame(PAIRS),
    "wide": FRAME.assign(score=0.5, ident=range(6))[["score", "fr", "ident", "en"]],
    "odd index": FRAME.set_index(pd.Index([3, 3, 2, 2, 1, 1])),
    "strings": FRAME.astype("string"),
    "categories": FRAME.astype("category"),
    "list": PAIRS,
    "lists": [list(pair) for pair in PAIRS],
    "iterator": iter(PAIRS),
    "generator": (pair for pair in PAIRS),
    "array": np.array(PAIRS),
    "objects": np.array(PAIRS, object),
    "two lists": (SOURCES, TARGETS),
    "two Series": (FRAME["en"], FRAME["fr"]),
    "two iterators": (iter(SOURCES), iter(TARGETS)),
    "two tuples": (tuple(SOURCES), tuple(TARGETS)),
    "list and Series": (SOURCES, FRAME["fr"]),
    "data set": StandIn(en=SOURCES, fr=TARGETS),
    "translations": StandIn(translation=[{"fr": target, "de": "x", "en": source} for source, target in PAIRS]),
}


class TestForms:
    @pytest.mark.parametrize("pairs", FORMS.values(), ids=FORMS)
    def test_each_form_gives_the_same_files(self, pairs, tmp_path):
        spooled = spool(pairs, tmp_path)
        expected = {"source": [*SOURCES], "target": TARGETS}
        expected["source"][2] = "a dog sees \u00e9"
        assert lines_of(spooled) == expected and spooled.count == 6
        for key, path in spooled.spooled_files().items():
            data = path.read_bytes()
            assert spooled.sha256[key] == hashlib.sha256(data).hexdigest() and spooled.sizes[key] == len(data)

    @pytest.mark.minutes
    @pytest.mark.filterwarnings("ignore")  # of its imports
    def test_data_sets_of_hugging_face_are_read(self, tmp_path):
        datasets = pytest.importorskip("datasets")
        columns = datasets.Dataset.from_dict({"fr": TARGETS, "en": SOURCES, "score": [0.5] * 6})
        translations = [{"en": source, "fr": target} for source, target in PAIRS]
        nested = datasets.Dataset.from_dict({"id": range(6), "translation": translations})
        linked = datasets.Dataset.from_dict({"en": SOURCES, "fr": TARGETS, "alignments": LINKS})
        expected = lines_of(spool(PAIRS, tmp_path))
        for data in (
            columns,
            nested,
            nested.to_iterable_dataset(),
            columns.with_format("numpy"),
            nested.shuffle(1).sort("id"),
        ):
            assert lines_of(spool(data, tmp_path)) == expected
        assert lines_of(spool(linked, tmp_path))["alignments"] == LINK_LINES
        with pytest.raises(InputError, match=r"dictionary with the keys 'train': .*pairs\['train'\]"):
            spool(datasets.DatasetDict(train=columns), tmp_path)
        with pytest.raises(InputError, match="column translation has no de; it has en, fr"):
            spool_pairs(nested, tmp_path, ("en", "de"))

    @pytest.mark.parametrize(
        "pairs",
        [
            [(*pair, links) for pair, links in zip(PAIRS, LINKS, strict=True)],
            [(*pair, line) for pair, line in zip(PAIRS, LINK_LINES, strict=True)],
            (SOURCES, TARGETS, LINKS),
            (SOURCES, TARGETS, [dict.fromkeys(links, 0.5) for links in LINKS]),  # as `Run.align` gives them
            (SOURCES, TARGETS, [np.array(links) for links in LINKS]),
            FRAME.assign(alignments=LINK_LINES)[["alignments", "fr", "en"]],
            pd.DataFrame({0: SOURCES, 1: TARGETS, 2: [links or None for links in LINKS]}),
            StandIn(en=SOURCES, fr=TARGETS, alignments=LINKS),
        ],
    )
    def test_links_are_a_third_value_or_column(self, pairs, tmp_path):
        assert lines_of(spool(pairs, tmp_path))["alignments"] == LINK_LINES

    def test_a_third_column_is_no_links_if_columns_are_named(self, tmp_path):
        frame = pd.DataFrame({"id": range(6), "en": SOURCES, "fr": TARGETS})
        assert list(lines_of(spool(frame, tmp_path))) == ["source", "target"]

    @pytest.mark.parametrize("columns", [("b", "a"), (2, 0), ("b", 0), (None, "a")])
    def test_columns_are_named_or_numbered(self, columns, tmp_path):
        frame = pd.DataFrame({"a": TARGETS, "en": SOURCES, "b": SOURCES, "fr": SOURCES})
        if columns[0] is None:  # it is column 0
            frame = frame[["b", "en", "a", "fr"]]
        found = lines_of(spool(frame, tmp_path, columns))
        assert found["target"] == TARGETS and found["source"][0] == SOURCES[0]

    @pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT])
    def test_a_missing_value_is_an_empty_line(self, missing, tmp_path, caplog):
        caplog.set_level("INFO", "qkv")
        found = lines_of(spool([("a", missing), (missing, "b"), ("c", "d")], tmp_path))
        assert found == {"source": ["a", "", "c"], "target": ["", "b", "d"]}
        assert "pairs: 2 of 3 have a missing value" in caplog.text

    @pytest.mark.parametrize("dtype", [object, None, "string", "category"])
    def test_missing_values_of_a_frame_are_empty_lines(self, dtype, tmp_path):
        sides = {"en": ["a", None, "c"], "fr": ["x", "y", None]}
        frame = pd.DataFrame({key: pd.Series(side, dtype=dtype) for key, side in sides.items()})
        assert lines_of(spool(frame, tmp_path)) == {"source": ["a", "", "c"], "target": ["x", "y", ""]}

    def test_lines_are_those_that_are_read_from_a_table(self, tmp_path):
        """A byte order mark, line ends and accents, too."""
        rows = [("\ufeffa", "b\r"), ("\ufeffe\u0301\n", "c\x85d"), (" e ", "")]
        table = tmp_path / "table.tsv"
        table.write_bytes("".join(f"{a.rstrip(chr(10))}\t{b}\n" for a, b in rows).encode())
        corpus = read_corpus_table(table, 0, 1)
        assert lines_of(spool(rows, tmp_path)) == {"source": [*corpus.source], "target": [*corpus.target]}


LONG = ["x" * 1000] * 2000


class TestMistakes:
    @pytest.mark.parametrize(
        ("pairs", "told"),
        [
            ([], "pairs: expected sentence pairs, found none"),
            (FRAME[:0], "found none"),
            (iter([]), "found none"),
            (5, "pairs: expected a DataFrame, a list .*, found 5"),
            ("pairs.tsv", r"found 'pairs.tsv'; text in files is named in the config.*data.train"),
            (FRAME["en"], r"pairs:1: expected \(source, target\), found text, 'the cat'; .*pairs=\(sources, targets\)"),
            (LONG, r"pairs:1: expected \(source, target\), found text"),
            ([LONG, LONG], r"pairs:1: .*found 2,000 values; .*given as a tuple, pairs=\(sources, targets\)"),
            (np.array([LONG, LONG]), r"expected an array of the shape \(pairs, 2\), found \(2, 2000\)"),
            (np.array(5), "shape"),
            ({"train": FRAME, "test": FRAME}, r"dictionary with the keys 'train, test': .*pairs\['train'\]"),
            ({("a", "b")}, "a set, which has no order"),
            ([{"en": "a", "fr": "b"}], r"pairs:1: expected \(source, target\), found a dictionary.*pandas.DataFrame"),
            (
                [("a", "b"), ("c",)],
                r"pairs:2: expected \(source, target\) or \(source, target, links\), found 1 values",
            ),
            ([("a", "b"), 5], r"pairs:2: expected \(source, target\), found 5"),
            ([("a", "b"), ("c", "d", "")], "pairs:2: expected 2 values, as in row 1, found 3"),
            ([("a", "b"), ("c", 5)], "pairs:2: target: expected text, found 5"),
            ([(b"a", "b")], "pairs:1: source: expected text, found b'a'"),
            ([("a", "b"), ("c\nd", "e")], r"pairs:2: source: 'c\\nd' has several lines"),
            ([("a", "\ud800")], "pairs:1: target: .*half a character"),
            ([("a", "b", "0-x")], "pairs:1: alignments: '0-x' is not a link"),
            ([("a", "b", 0.25)], "pairs:1: alignments: expected word links, .*, found 0.25"),
            ([("a", "b", [(0, -1)])], r"pairs:1: alignments: expected word links, .*, found \[\(0, -1\)\]"),
            ([("a", "b", [(0, "x")])], "pairs:1: alignments: expected word links"),
            (FRAME.assign(ident=7)[["en", "fr", "ident"]].set_axis([0, 1, 2], axis=1), "alignments: .*found 7"),
            (FRAME[["en"]], "expected a column of sources and one of targets, found 1 column"),
            (FRAME.set_axis(["en", "en"], axis=1).assign(fr=""), "2 columns are named 'en'"),
            ((SOURCES,), r"a tuple holds columns, .*found 1 values, the first a list; give pairs as a list"),
            ((), "a tuple holds columns"),
            (tuple(PAIRS), "a tuple holds columns, .*found 6 values, the first a tuple; .*list"),
            (("a", "b"), "a tuple holds columns, .*the first a str"),
            ((("a", "b"), ("c", "d")), "a tuple of short tuples may be two columns or two pairs"),
            ((SOURCES, TARGETS[:3]), "expected columns of one length, found 6 and 3 rows"),
            ((iter(SOURCES), iter(TARGETS[:3])), "columns of one length, found one that ends after 3 rows"),
            ((SOURCES, 5), r"pairs\[1\]: expected a list or a Series for target, found 5"),
            ((FRAME, FRAME), r"pairs\[0\]: expected one column for source, found a table"),
            ((FRAME["en"], FRAME["fr"][::-1]), "the Series have different indexes"),
            (StandIn(translation=[{"de": "a", "fr": "b"}]), "column translation has no en; it has de, fr"),
            (StandIn(text=["a"]), "found 1 column"),
        ],
    )
    def test_one_short_message_names_the_row(self, pairs, told, tmp_path):
        with pytest.raises(InputError, match=told) as caught:
            spool(pairs, tmp_path)
        assert len(str(caught.value)) < 500 and str(caught.value).count("\n") == 0

    @pytest.mark.parametrize(
        ("pairs", "columns", "told"),
        [
            (FRAME, ("english", 1), "pairs: no column 'english'; there are en, fr"),
            (FRAME, (0, 5), "pairs: no column 5; the 2 columns are numbered from 0 to 1"),
            (FRAME, ("en", "en"), "column 'en' is named for sources and for targets"),
            (FRAME, ("fr", None), "column 'fr' is named for sources and for targets"),
            (
                PAIRS,
                ("en", "fr"),
                "source_column and target_column choose columns of a table, and the pairs are a list",
            ),
        ],
    )
    def test_a_column_that_is_not_there_is_named(self, pairs, columns, told, tmp_path):
        with pytest.raises(InputError, match=told):
            spool(pairs, tmp_path, columns)


class TestFiles:
    def test_an_iterator_is_never_in_memory_as_a_whole(self, tmp_path):
        pairs = 20_000
        rows = ((f"source {number} {'x' * 500}", f"target {number} {'y' * 500}") for number in range(pairs))
        spool(iter([("a", "b")]), tmp_path)  # what is imported or cached at the first call
        tracemalloc.start()
        spooled = spool(rows, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(spooled.sizes.values()) > 20e6 and peak < sum(spooled.sizes.values()) / 4

    @pytest.mark.parametrize("large", [False, True])
    def test_a_run_gets_the_files_and_their_record_last(self, tmp_path, monkeypatch, large):
        monkeypatch.setattr(pairs_in_memory, "LARGE_BYTES", 10 if large else 1 << 20)
        spooled = spool([(*pair, links) for pair, links in zip(PAIRS, LINKS, strict=True)], tmp_path)
        run = RunDirectory(tmp_path / "run")
        files = spooled.files_in(run)
        assert not run.pairs.exists() and set(files) == {"source", "target", "alignments"}
        spooled.copy_into(run)
        for key, path in files.items():
            data = gzip.decompress(path.read_bytes()) if large else path.read_bytes()
            assert data == spooled.spooled_files()[key].read_bytes()
        assert json.loads(run.pairs_origin.read_text()) == {
            "from": "pairs in memory",
            "pairs": 6,
            "sha256": dict(spooled.sha256),
        }

    def test_a_copy_that_fails_leaves_no_record_and_is_made_again(self, tmp_path, monkeypatch):
        spooled = spool(PAIRS, tmp_path)
        run = RunDirectory(tmp_path / "run")
        spooled.spooled_files()["target"].rename(tmp_path / "gone")
        with pytest.raises(FileNotFoundError):
            spooled.copy_into(run)
        assert not run.pairs_origin.exists()
        (tmp_path / "gone").rename(spooled.spooled_files()["target"])
        spooled.copy_into(run)
        assert run.pairs_origin.exists() and sorted(path.name for path in run.pairs.iterdir()) == [
            "origin.json",
            "source.txt",
            "target.txt",
        ]

    def test_other_pairs_are_refused_and_the_same_are_not(self, tmp_path):
        run = RunDirectory(tmp_path / "run")
        spooled = spool(PAIRS, tmp_path)
        spooled.check_same(run)  # it has none
        spooled.copy_into(run)
        spooled.check_same(run)
        for number, other in enumerate([PAIRS[::-1], PAIRS[:5], [(*pair, "") for pair in PAIRS]]):
            folder = Path(tmp_path / str(number))
            folder.mkdir()
            with pytest.raises(InputError, match=r"the run was started with other pairs: with 6, and these are"):
                spool(other, folder).check_same(run)
