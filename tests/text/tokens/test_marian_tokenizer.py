"""The tokenizer of an imported run gives the ids of Hugging Face's, and every token knows its word."""

import json
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.text.lines.line import words_of
from qkv.text.tokens.marian_tokenizer import MarianTokenizer, read_model
from qkv.text.tokens.run_tokenizer import load_tokenizer
from qkv.text.tokens.special_tokens import BOS, EOS, PAD, UNK
from tests.support.marian import MARIAN, our_ids, read_expected

TEXTS = st.text(st.sampled_from("abelmoqst½ﬁ漢 \u00a0"), max_size=25)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The tokenizer's files, as the importer writes them."""
    from qkv.exchange.marian_config import read_marian_config
    from qkv.exchange.marian_import import _write_tokenizer
    from qkv.exchange.marian_vocabulary import read_marian_vocabulary
    from qkv.files.run_directory import RunDirectory

    run = RunDirectory(tmp_path_factory.mktemp("given"))
    models = {side: read_model(MARIAN / f"{side}.spm") for side in ("source", "target")}
    _write_tokenizer(run, read_marian_vocabulary(MARIAN, read_marian_config(MARIAN)), models)
    return run.given_tokenizer


@pytest.fixture(scope="module")
def model(path):
    return load_tokenizer(path)


@pytest.mark.parametrize(("side", "key"), [("source", "ids"), ("target", "target_ids")])
def test_ids_are_those_of_hugging_face(model, side, key):
    """With tags, names of special tokens, unknown characters and odd spaces."""
    expected, _ = read_expected()
    # The name of PAD is BOS in text: a token with the same vector, but no padding.
    ours = {number: BOS if token == PAD else token for number, token in our_ids(model).items()}
    tokenizer = model if side == "source" else model.of_target
    assert tokenizer.encode(expected["lines"]) == [[ours[i] for i in ids] for ids in expected[key]]
    found = set().union(*tokenizer.encode(expected["lines"]))
    assert {UNK, BOS, EOS} <= found and PAD not in found


def test_a_tag_is_one_token_and_one_word(model):
    ids, words = model.encode([">>fra<< the cat"])[0], model.words_from_text([">>fra<< the cat"])[0]
    assert model.pieces(ids)[0] == ">>fra<<" and words[0] == 0 and words[1] == 1 and words[-1] == 2
    assert model.encode([">>xyz<< the"])[0][0] == UNK


@given(text=TEXTS)
def test_every_token_of_a_text_ends_within_it(model, text):
    ids, words = model.encode([text])[0], model.words_from_text([text])[0]
    assert len(ids) == len(words) == model.count_tokens([text])[0]
    found = [word for word in words if word is not None]
    assert found == sorted(found) and max(found, default=0) <= max(len(words_of(text)) - 1, 0)


@given(ids=st.lists(st.integers(4, 151), max_size=12))
def test_words_by_spelling_are_those_of_the_text(model, ids):
    words = [word for word in model.words_from_ids(ids) if word is not None]
    assert max(words, default=-1) + 1 == len(words_of(model.decode([ids])[0]))


def test_special_tokens_are_no_text(model):
    ids = model.encode(["the cat"])[0]
    assert model.decode([[PAD, *ids, EOS, PAD], []]) == [model.decode([ids])[0], ""]
    assert model.decode([[UNK]]) == ["\u2047"]


DAMAGE = {
    "no JSON": lambda listed: "{",
    "no pieces": lambda listed: json.dumps({**listed, "pieces": 3}),
    "another model": lambda listed: json.dumps({**listed, "sha256": {"source": "0", "target": "0"}}),
    "another side": lambda listed: json.dumps({**listed, "decodes": "both"}),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_refused(path, tmp_path, kind):
    folder = shutil.copytree(path.parent, tmp_path / "tokenizer")
    listed = json.loads(path.read_text(encoding="utf-8"))
    (folder / "given.json").write_text(DAMAGE[kind](listed), encoding="utf-8")
    with pytest.raises(InputError, match=r"given\.json: not the tokenizer of an imported run"):
        MarianTokenizer(folder / "given.json")


def test_a_model_that_is_missing_is_refused(path, tmp_path):
    folder = shutil.copytree(path.parent, tmp_path / "tokenizer")
    (folder / "target.spm").unlink()
    with pytest.raises(InputError, match=r"target\.spm: expected a SentencePiece model"):
        MarianTokenizer(folder / "given.json")
    os.mkfifo(folder / "target.spm")  # which would be waited for
    with pytest.raises(InputError, match=r"target\.spm: expected a SentencePiece model"):
        MarianTokenizer(folder / "given.json")


def test_a_model_that_is_cut_off_anywhere_is_refused(tmp_path):
    whole, path = (MARIAN / "target.spm").read_bytes(), tmp_path / "target.spm"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"target\.spm: (not a SentencePiece model|.*empty or cut off)"):
            read_model(path)
