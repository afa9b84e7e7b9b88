"""BLEU and chrF are sacreBLEU's, and BLEU is that of its definition."""

import math

import numpy as np
import pytest
import sacrebleu

from pipeline.metrics.bleu import make_bleu, score_bleu, score_translations

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
    found = score_translations(TRANSLATIONS, REFERENCES, tokenized=True)
    assert found["bleu"] == pytest.approx(bleu_by_hand(TRANSLATIONS, REFERENCES))
    assert found["bleu"] == score_bleu(TRANSLATIONS, REFERENCES, tokenized=True)
    assert "|tok:none|" in found["signatures"]["bleu"]
    assert (found["translation_length"], found["reference_length"]) == (7 + 3 + 7, 7 + 5 + 6)
    assert found["brevity_penalty"] == pytest.approx(math.exp(1 - 18 / 17))


def test_bleu_of_plain_text_is_tokenised_by_sacrebleu():
    found = score_translations(TRANSLATIONS, REFERENCES, tokenized=False)
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES]).score)
    spaced = [text.replace("dog, maybe?", "dog , maybe ?") for text in TRANSLATIONS]
    assert found["bleu"] == pytest.approx(bleu_by_hand(spaced, REFERENCES))
    assert "|tok:13a|" in found["signatures"]["bleu"]


@pytest.mark.parametrize("tokenized", [True, False])
def test_chrf_is_sacrebleus_and_has_its_signature(tokenized):
    found = score_translations(TRANSLATIONS, REFERENCES, tokenized=tokenized)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(TRANSLATIONS, [REFERENCES]).score)
    assert "nc:6|nw:0" in found["signatures"]["chrf"]
    assert all(f"version:{sacrebleu.__version__}" in signature for signature in found["signatures"].values())


def test_translations_equal_to_the_references_score_100():
    found = score_translations(REFERENCES, REFERENCES, tokenized=True)
    assert found["bleu"] == pytest.approx(100) and found["chrf"] == pytest.approx(100)


def test_a_short_sentence_equal_to_its_reference_scores_100():
    assert make_bleu(False, effective_order=True).sentence_score("a dog", ["a dog"]).score == pytest.approx(100)
