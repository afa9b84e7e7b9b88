"""Scores of drawn and exchanged sentences are those of sacreBLEU on the sentences themselves."""

import numpy as np
import pytest
import sacrebleu

from qkv.metrics.bleu import CorpusScore, make_bleu

REFERENCES = [f"the {a} {b} sees a {c} tree ." for a in "abc" for b in "def" for c in "ghi"]
FIRST = [text.replace("sees a", "saw one") if i % 3 else text for i, text in enumerate(REFERENCES)]
OTHER = [text.replace("tree", "bush") if i % 2 else text for i, text in enumerate(REFERENCES)]


@pytest.mark.parametrize("metric", [make_bleu("none"), sacrebleu.CHRF()], ids=["bleu", "chrf"])
def test_scores_of_samples_are_those_of_the_drawn_sentences(metric):
    score = CorpusScore.of(metric, FIRST, REFERENCES)
    assert score.value == pytest.approx(metric.corpus_score(FIRST, [REFERENCES]).score)
    counts = np.random.default_rng(1).multinomial(27, np.full(27, 1 / 27), size=3).astype(float)
    for row, found in zip(counts.astype(int), score.of_samples(counts), strict=True):
        drawn = np.repeat(np.arange(27), row)
        texts, references = ([lines[i] for i in drawn] for lines in (FIRST, REFERENCES))
        assert found == pytest.approx(metric.corpus_score(texts, [references]).score)


@pytest.mark.parametrize("metric", [make_bleu("none"), sacrebleu.CHRF()], ids=["bleu", "chrf"])
def test_p_is_1_of_the_same_and_small_of_what_differs_in_every_sentence(metric):
    first, other = (CorpusScore.of(metric, texts, REFERENCES) for texts in (FIRST, OTHER))
    assert first.p_against(first, 200) == 1
    assert 0 < other.p_against(first, 200) == first.p_against(other, 200) <= 1
    worst = CorpusScore.of(metric, [text[:8] for text in REFERENCES], REFERENCES)
    assert worst.p_against(first, 200) == pytest.approx(1 / 201)
