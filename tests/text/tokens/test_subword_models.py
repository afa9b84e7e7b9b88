"""TensorFlow Text and SentencePiece apply a model alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from qkv.text.tokens.subword_models import BPE, NORMAL, SentencePieceModel, load_subword_model, parse_model
from tests.support.processes import run_without
from tests.support.text import SENTENCES

KINDS = ["bpe", "unigram"]
TEXTS = st.lists(
    st.one_of(
        st.text(st.sampled_from("aeoéßœÉStdchu?  \u2581\u00a0\0\t😀e\u0301漢"), max_size=25),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
        st.sampled_from(SENTENCES),
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def of_tensorflow():
    """The class that applies a model by TensorFlow Text; without the package, tests of it are left out."""
    pytest.importorskip("tensorflow_text")
    from qkv.text.tokens.subword_models import TensorFlowTextModel

    return TensorFlowTextModel


@pytest.fixture(scope="module", params=KINDS)
def both(request, tokenizers, of_tensorflow):
    model = tokenizers[request.param].model
    return of_tensorflow(model), SentencePieceModel(model)


@given(texts=TEXTS)
def test_ids_and_ends_are_equal(both, texts):
    op, library = both
    assert op.encode(texts) == library.encode(texts)
    assert op.ends(texts) == library.ends(texts)


@given(ids=st.lists(st.lists(st.integers(4, 49), max_size=8), max_size=4))
def test_text_is_equal(both, ids):
    op, library = both
    assert op.decode(ids) == library.decode(ids)


def test_ends_count_bytes(both):
    text = "Éva  où"
    for model in both:
        (ends,) = model.ends([text])
        assert len(ends) == len(model.encode([text])[0])
        assert ends == sorted(ends) and ends[-1] == len(text.encode())


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_parsed_as_by_the_class_of_sentencepiece(tokenizers, kind):
    model = tokenizers[kind].model
    ours, theirs = parse_model(model), ModelProto.FromString(model)
    assert [piece.type for piece in ours.pieces] == [piece.type for piece in theirs.pieces]
    assert {piece.type == NORMAL for piece in ours.pieces} == {True, False}
    assert ours.trainer_spec.model_type == theirs.trainer_spec.model_type
    assert (ours.trainer_spec.model_type == BPE) == (kind == "bpe")
    assert ours.HasField("trainer_spec") and ours.HasField("normalizer_spec")
    assert not parse_model(b"").HasField("trainer_spec")


@pytest.mark.parametrize("kind", KINDS)
def test_tensorflow_text_is_used_for_unigram_models_where_it_is_installed(tokenizers, kind, of_tensorflow):
    assert isinstance(load_subword_model(tokenizers[kind].model), of_tensorflow) == (kind == "unigram")


WHICH = """
import sys
from pathlib import Path
from qkv.text.tokens.subword_models import load_subword_model
print(type(load_subword_model(Path(sys.argv[1]).read_bytes())).__name__)
"""


@pytest.mark.minutes
def test_sentencepiece_is_used_where_tensorflow_text_is_missing_or_cannot_be_loaded(tokenizers, tmp_path):
    (tmp_path / "model").write_bytes(tokenizers["unigram"].model)
    missing = run_without(["tensorflow_text"], tmp_path / "missing", "-c", WHICH, tmp_path / "model")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tensorflow_text.py").write_text("raise OSError('undefined symbol')", encoding="utf-8")
    broken = run_without([], tmp_path / "broken", "-c", WHICH, tmp_path / "model")
    assert [missing.stdout, broken.stdout] == ["SentencePieceModel\n"] * 2, missing.stderr + broken.stderr


@pytest.mark.parametrize("content", [b"", b"no model"])
def test_what_is_no_model_is_refused_by_both(content, of_tensorflow):
    for model in (SentencePieceModel, of_tensorflow):
        with pytest.raises(RuntimeError):
            model(content)
