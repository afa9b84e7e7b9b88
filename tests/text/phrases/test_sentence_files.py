"""Files of prefixes have a line for each sentence, which fits the model."""

import pytest

from qkv.errors import InputError
from qkv.text.phrases.sentence_files import ConstraintFiles
from qkv.text.phrases.token_text import TokenText


@pytest.fixture
def read(tmp_path, tokenizer):
    def make(text, max_positions=24):
        (tmp_path / "prefix.fr").write_text(text, encoding="utf-8")
        return ConstraintFiles(tmp_path / "prefix.fr", None, None, TokenText(tokenizer, tokenized=True), max_positions)

    return make


def test_prefixes_are_taken_in_turn_and_empty_lines_give_nothing(read, tokenizer):
    prefixes = read("le chat\n\nÉva\n")
    assert prefixes.take(2)[0] == [*tokenizer.encode(["le chat"]), []]
    assert prefixes.take(1)[0] == tokenizer.encode(["Éva"])
    prefixes.check_all_taken()


@pytest.mark.parametrize("counts", [[4], [2, 2]])
def test_fewer_lines_than_sentences_are_refused(read, counts):
    prefixes = read("a\nb\nc\n")
    with pytest.raises(InputError, match=r"prefix\.fr: 3 lines, and there are more sentences to translate"):
        for count in counts:
            prefixes.take(count)


def test_a_prefix_leaves_room_for_a_token(read, tokenizer):
    (ids,) = tokenizer.encode(["le petit chien"])
    assert read("a\nle petit chien\n", len(ids) + 1).take(2)[0][1] == ids
    with pytest.raises(
        InputError, match=rf"prefix\.fr:2: {len(ids)} tokens; expected fewer than model\.max_positions \({len(ids)}\)"
    ):
        read("a\nle petit chien\n", len(ids)).take(2)
