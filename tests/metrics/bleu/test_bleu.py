"""BLEU and chrF are sacreBLEU's, and BLEU is that of its definition."""

import math

import numpy as np
import pytest
import sacrebleu

from qkv.config.choices.translation import BLEU_TOKENIZERS
from qkv.errors import InputError
from qkv.metrics import bleu
from qkv.metrics.bleu import check_bleu_tokenizer, make_bleu, score_bleu, score_translations

TRANSLATIONS = ["the cat sat on the mat .", "a dog, maybe?", "it rains in the big town today"]
REFERENCES = ["the cat lay on the mat .", "a dog , maybe ?", "it rains in the town today"]


def bleu_by_hand(translations, references):
    """Papineni et al. 2002, section 2.3, on words between spaces; every n-gram order must have a match."""
    matches, totals, lengths = np.zeros(4), np.zeros(4), np.zeros(2)
    for translation, reference in zip(translations, references, strict=True):
        words = translation.split(), reference.split()
        lengths += [len(side) for side in words]
        for n in range(1, 5):
            grams, others = ([tuple(side[i : i + n]) for i in range(len(side) - n + 1)] for side in words)
            matches[n - 1] += sum(min(grams.count(gram), others.count(gram)) for gram in set(grams))
            totals[n - 1] += len(grams)
    return 100 * min(1, math.exp(1 - lengths[1] / lengths[0])) * math.exp(np.log(matches / totals).mean())


def test_bleu_splits_tokenised_text_at_spaces_only():
    found = score_translations(TRANSLATIONS, REFERENCES, tokenizer="none")
    assert found["bleu"] == pytest.approx(bleu_by_hand(TRANSLATIONS, REFERENCES))
    assert found["bleu"] == score_bleu(TRANSLATIONS, REFERENCES, tokenizer="none")
    assert "|tok:none|" in found["signatures"]["bleu"]
    assert (found["translation_length"], found["reference_length"]) == (7 + 3 + 7, 7 + 5 + 6)
    assert found["brevity_penalty"] == pytest.approx(math.exp(1 - 18 / 17))


def test_text_that_is_tokenised_on_purpose_is_not_warned_of(caplog):
    lines = ["a b c d ."] * 200
    assert score_bleu(lines, lines, tokenizer="none") == pytest.approx(100)
    assert not caplog.records
    score_bleu(lines, lines, tokenizer="13a")
    assert "tokenized period" in caplog.text


def test_bleu_of_plain_text_is_tokenised_by_sacrebleu():
    found = score_translations(TRANSLATIONS, REFERENCES, tokenizer="13a")
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES]).score)
    spaced = [text.replace("dog, maybe?", "dog , maybe ?") for text in TRANSLATIONS]
    assert found["bleu"] == pytest.approx(bleu_by_hand(spaced, REFERENCES))
    assert "|tok:13a|" in found["signatures"]["bleu"]


@pytest.mark.parametrize("tokenizer", ["none", "13a", "zh"])
def test_chrf_is_sacrebleus_and_has_its_signature(tokenizer):
    found = score_translations(TRANSLATIONS, REFERENCES, tokenizer=tokenizer)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(TRANSLATIONS, [REFERENCES]).score)
    assert "nc:6|nw:0" in found["signatures"]["chrf"]
    assert all(f"version:{sacrebleu.__version__}" in signature for signature in found["signatures"].values())


def test_a_short_sentence_equal_to_its_reference_scores_100():
    assert make_bleu("13a", effective_order=True).sentence_score("a dog", ["a dog"]).score == pytest.approx(100)


def test_bleu_of_text_without_spaces_counts_its_characters():
    references = ["猫坐在垫子上。", "我们今天去北京。"]
    translations = ["猫躺在垫子上。", "我们今天去北京。"]
    spaced = [[" ".join(text) for text in side] for side in (translations, references)]
    assert score_bleu(translations, references, tokenizer="13a") < 60
    for tokenizer in ("zh", "char"):
        assert score_bleu(translations, references, tokenizer=tokenizer) == pytest.approx(bleu_by_hand(*spaced))


@pytest.mark.parametrize("name", ["none", "13a", "intl", "zh", "char"])
def test_a_tokenizer_that_needs_nothing_can_be_used(name):
    check_bleu_tokenizer(name)
    assert f"|tok:{name}|" in score_translations(REFERENCES, REFERENCES, tokenizer=name)["signatures"]["bleu"]


@pytest.mark.parametrize(("name", "extra"), [("ja-mecab", "ja"), ("ko-mecab", "ko")])
def test_a_tokenizer_whose_package_is_missing_names_it(name, extra, monkeypatch):
    monkeypatch.setattr(bleu, "find_spec", lambda module: None)
    with pytest.raises(InputError, match=rf"data.bleu_tokenizer: {name} needs .* pip install \"sacrebleu\[{extra}\]\""):
        check_bleu_tokenizer(name)
    monkeypatch.setattr(bleu, "find_spec", lambda module: object())
    check_bleu_tokenizer(name)


@pytest.mark.parametrize("name", [name for name, row in BLEU_TOKENIZERS.items() if row.downloads])
def test_a_tokenizer_whose_model_is_not_downloaded_says_how_to(name, monkeypatch, tmp_path):
    monkeypatch.setattr(bleu, "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(InputError, match=rf"--bleu_tokenizer: {name} needs .*download once: .*tokenize='{name}'"):
        check_bleu_tokenizer(name, "--bleu_tokenizer")
    (tmp_path / "models").mkdir()
    path = bleu._model_file(name)
    assert path.parent == tmp_path / "models"
    path.touch()
    check_bleu_tokenizer(name)


def test_chrf_plus_plus_and_ter_are_sacrebleus_with_their_signatures():
    found = score_translations(TRANSLATIONS, REFERENCES, tokenizer="13a")
    assert found["chrf++"] == pytest.approx(sacrebleu.corpus_chrf(TRANSLATIONS, [REFERENCES], word_order=2).score)
    assert "nc:6|nw:2" in found["signatures"]["chrf++"]
    # Edits by hand: lay; dog, and maybe? into two words each; big left out.
    assert found["ter"] == pytest.approx(100 * (1 + 4 + 1) / (7 + 5 + 6))
    assert "tok:tercom|norm:no|punct:yes|asian:no" in found["signatures"]["ter"]


def test_ter_of_chinese_counts_its_characters():
    found = score_translations(["猫躺在垫子上。"], ["猫坐在垫子上。"], tokenizer="zh")
    assert found["ter"] == pytest.approx(100 / 7)
    assert "norm:yes|punct:yes|asian:yes" in found["signatures"]["ter"]


def test_ter_is_left_out_where_bleu_says_that_nothing_is_translated():
    found = score_translations(["b c d e f"] * 3, ["g h i j k"] * 3, tokenizer="none")
    assert found["bleu"] == 0 and found["ter"] is None and "ter" not in found["signatures"]
