"""The automaton finds what a search through the text finds."""

from hypothesis import example, given
from hypothesis import strategies as st

from qkv.text.phrases.automaton import PhraseAutomaton
from qkv.text.phrases.token_text import END, TokenText
from tests.support.text import SPECIAL, ToyTokenizer, contains_words

LETTERS = st.text(st.sampled_from("ab. é"), max_size=10)
PHRASES = st.lists(LETTERS.map(lambda text: " ".join(text.split())).filter(bool), min_size=1, max_size=4, unique=True)


@given(text=LETTERS, phrases=PHRASES, tokenized=st.booleans())
@example(text="a   b", phrases=["a b"], tokenized=True)
def test_phrases_are_found_as_whole_words_and_pending_where_the_text_may_end(text, phrases, tokenized):
    tokens = TokenText(ToyTokenizer(), tokenized)
    marks = [1 << place for place in range(len(phrases))]
    automaton = PhraseAutomaton([tokens.of_text(phrase) for phrase in phrases], marks, unsure_divides=True)
    for end in range(len(text) + 1):  # what follows must not matter
        symbols = [symbol for character in text[:end] for symbol in tokens._symbols_of_character(character)]
        expected = sum(
            mark for phrase, mark in zip(phrases, marks, strict=True) if contains_words(text[:end], phrase, tokenized)
        )
        state, found = automaton.read(symbols)
        assert found | automaton.pending[state] == expected
        assert automaton.read([*symbols, END])[1] == expected


def test_a_character_of_which_the_first_byte_alone_is_known_is_read_to_be_on_the_safe_side():
    pieces = [*SPECIAL, "a", "<0xC3>", "<0xA9>", "<0x97>"]  # é is a letter, × is none
    tokens = TokenText(ToyTokenizer(pieces), tokenized=False)
    for phrase, ids, sure in (("aé", [4, 5, 6], True), ("a", [4, 5, 6], False), ("a", [4, 5, 7], False)):
        for too_many in (True, False):
            automaton = PhraseAutomaton([tokens.of_text(phrase)], [1], unsure_divides=too_many)
            assert automaton.read([*tokens.of_tokens(ids), END])[1] == (sure or too_many)
