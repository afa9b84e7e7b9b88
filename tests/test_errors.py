"""Messages of errors fit on a screen, whatever they quote."""

import pickle

from qkv.errors import LONGEST_MESSAGE, InputError


def test_the_middle_of_a_message_that_is_too_long_is_left_out():
    text = "a.yaml:3: expected text, found " + "x" * 400_000 + "; mend it so"
    message = str(InputError(text))
    assert len(message) <= LONGEST_MESSAGE
    assert message.startswith("a.yaml:3: expected text, found xxx") and message.endswith("xxx; mend it so")
    left_out = int(message.split("[... ")[1].split(" characters")[0].replace(",", ""))
    assert len(message) - len(f" [... {left_out:,} characters ...] ") + left_out == len(text)


def test_a_message_that_fits_is_as_it_was_written_and_survives_a_pickle():
    for text in ("", "a", "b" * LONGEST_MESSAGE):
        assert str(InputError(text)) == str(pickle.loads(pickle.dumps(InputError(text)))) == text
    assert str(pickle.loads(pickle.dumps(InputError("c" * 9000)))) == str(InputError("c" * 9000))
