"""The projector's files, read as TensorBoard reads them."""

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.plugins.projector import ProjectorConfig
from tensorboard.plugins.projector.projector_plugin import _read_tensor_tsv_file

from qkv.files.run_directory import RunDirectory
from qkv.training.callbacks.tensorboard import count_ids, write_projector

TRIMMED = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What JavaScript's `trim` takes away."""


def read_names(folder):
    """Reads names as the page of TensorBoard 2.20 does (`parseMetadata`)."""
    config = text_format.Parse((folder / "projector_config.pbtxt").read_text(), ProjectorConfig())
    (embedding,) = config.embeddings
    lines = (folder / embedding.metadata_path).read_bytes().decode().split("\n")
    lines = [line for line in lines if line.strip(TRIMMED)]
    headings, *rows = [line.split("\t") for line in lines]
    assert headings == ["subword", "characters", "language", "log10 of frequency"]
    assert all(len(row) == len(headings) for row in rows)
    names = [row[0] for row in rows]
    assert len(_read_tensor_tsv_file(str(folder / embedding.tensor_path))) == len(names)
    return names


def write(folder, pieces):
    write_projector(RunDirectory(folder), pieces, np.arange(2.0 * len(pieces)).reshape(-1, 2))
    return read_names(folder)


@given(pieces=st.lists(st.text(st.sampled_from(TRIMMED + "ab\u2581\u0085\x1c\u200b\ud800\\"), max_size=3), min_size=1))
def test_every_vector_has_one_name(tmp_path_factory, pieces):
    assert len(write(tmp_path_factory.mktemp("projector"), pieces)) == len(pieces)


@pytest.mark.parametrize(
    ("piece", "name"),
    [
        ("\u2581the", "\u2581the"),
        ("</s>", "</s>"),
        ("a b", "a b"),
        ("\u0645\u06cc\u200c", "\u0645\u06cc\u200c"),  # a letter's own joiner stays
        ("\u00a0", "\\u00a0"),
        ("\u2581\u00a0!", "\u2581\\u00a0!"),
        ("\u2028x\n", "\\u2028x\\u000a"),
        (" ", "\\u0020"),
        ("\u200b", "\\u200b"),
        ("", "''"),
    ],
)
def test_white_space_is_spelt_out_in_names(tmp_path, piece, name):
    assert write(tmp_path, ["<pad>", piece, "z"]) == ["<pad>", name, "z"]


def test_subwords_have_their_length_language_and_frequency(tmp_path):
    pieces = ["</s>", "\u2581the", "\u2581la", ".", "x"]
    counts = {"en": np.array([0, 95, 0, 50, 9]), "fr": np.array([0, 5, 10, 50, 1])}
    write_projector(RunDirectory(tmp_path), pieces, np.zeros((5, 2)), counts)
    rows = [line.split("\t")[1:] for line in (tmp_path / "projector/subwords_names.tsv").read_text().splitlines()[1:]]
    assert rows == [
        ["4", "none", "0.0"],
        ["3", "en", "2.0"],
        ["2", "fr", "1.0"],
        ["1", "both", "2.0"],
        ["1", "en", "1.0"],
    ]


def test_ids_are_counted_by_their_number():
    assert count_ids(np.array([1, 3, 3], np.uint16), 5).tolist() == [0, 1, 0, 2, 0]
