"""The tokenizer of BLEU follows the language of the translations."""

import pytest

from qkv.config.choices.translation import bleu_tokenizer_of
from qkv.config.data import DataSettings

FILES = {"source": "a", "target": "b"}
CASES = {
    "zh": ["zh", "zh-CN", "zh_Hant", "ZH-tw", "zho_Hans", "cmn", "cmn_Hans", "yue", "lzh"],
    "char": ["ja", "jpn", "ko", "ko-KR", "th", "tha_Thai", "lo", "km", "my", "mya_Mymr"],
    "13a": ["en", "de", "fr", "he", "ar", "vi", "mn", "thx", "kok", "lob", ""],
}


@pytest.mark.parametrize(("language", "tokenizer"), [(code, name) for name, codes in CASES.items() for code in codes])
def test_the_tokenizer_is_that_of_the_language(language, tokenizer):
    assert bleu_tokenizer_of(language) == tokenizer


@pytest.mark.parametrize(
    ("tokenized", "given", "language", "found"),
    [
        (False, None, "zh", "zh"),
        (True, None, "zh", "none"),
        (False, None, "de", "13a"),
        (True, None, "de", "none"),
        (True, "char", "zh", "char"),
        (False, "flores200", "de", "flores200"),
    ],
)
def test_a_given_tokenizer_wins_and_tokenised_text_is_split_at_spaces(tokenized, given, language, found):
    settings = DataSettings(
        source_language="en",
        target_language=language,
        train=FILES,
        validation=FILES,
        tokenized=tokenized,
        bleu_tokenizer=given,
    )
    assert settings.scoring_tokenizer == found
