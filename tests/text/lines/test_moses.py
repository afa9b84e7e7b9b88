"""Words and marks divided as Moses divides them, and put together again."""

import pytest

from qkv.text.lines.moses import detokenize, tokenize


@pytest.mark.parametrize(
    ("language", "plain", "words"),
    [
        ("en", "The cat doesn't eat the apple.", "The cat doesn 't eat the apple ."),
        ("en", "Emma’s “old” boat – why?", 'Emma \'s " old " boat - why ?'),
        ("en_GB", "Mr. Smith came at 5 p.m. today.", "Mr. Smith came at 5 p.m. today ."),
        ("fr", "L'homme n'aime pas l'eau.", "L' homme n' aime pas l' eau ."),
        ("de", "Ein Mann, der lächelt.", "Ein Mann , der lächelt ."),
        ("xx", "one, two.", "one , two ."),
        ("en", "", ""),
    ],
)
def test_marks_and_contractions_are_words(language, plain, words):
    assert tokenize(plain, language) == words


def test_characters_are_escaped_if_asked_for():
    assert tokenize('it\'s "so" & so', "en", escaped=True) == "it &apos;s &quot; so &quot; &amp; so"


@pytest.mark.parametrize(
    ("language", "words", "plain"),
    [
        ("fr", "le chat mange la pomme .", "Le chat mange la pomme."),
        ("fr", "aujourd'hui , j' ai soif .", "Aujourd'hui, j'ai soif."),
        ("fr", "où est l' eau ?", "Où est l'eau ?"),
        ("fr-CA", "l' été", "L'été"),
        ("en", "emma &apos;s &quot; old &quot; boat ( the red one ) .", 'Emma\'s "old" boat (the red one).'),
        ("de", "ändern wir das !", "Ändern wir das!"),
        ("zh", "猫 吃 苹果 。", "猫吃苹果。"),
        ("en", "", ""),
        ("en", "   ", ""),
    ],
)
def test_words_become_plain_text_that_begins_with_a_capital(language, words, plain):
    assert detokenize(words, language) == plain


@pytest.mark.parametrize("language", ["en", "fr", "de", "it", "es"])
def test_plain_text_comes_back_from_its_words(language):
    plain = "Anna, who sings (well), has 2,000 songs; why?"
    if language == "fr":  # spaces before these marks
        plain = plain.replace(";", " ;").replace("?", " ?")
    assert detokenize(tokenize(plain, language), language) == plain
