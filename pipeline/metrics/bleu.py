"""Corpus BLEU and chrF of translations, with their signatures."""

from collections.abc import Sequence
from typing import Any

import sacrebleu


def make_bleu(tokenized: bool, effective_order: bool = False) -> sacrebleu.BLEU:
    """Makes sacreBLEU's BLEU (Papineni et al. 2002; Post 2018).

    Args:
        tokenized: whether the text is tokenised already, so that it is split at spaces only.
        effective_order: whether to leave out n-grams longer than the text, as the score of a single sentence needs.
    """
    # "force" only silences the warning about tokenised text.
    return sacrebleu.BLEU(tokenize="none" if tokenized else "13a", force=tokenized, effective_order=effective_order)


def score_bleu(translations: Sequence[str], references: Sequence[str], *, tokenized: bool) -> float:
    """Computes the BLEU of a whole set, from 0 to 100."""
    return make_bleu(tokenized).corpus_score(translations, [references]).score


def score_translations(translations: Sequence[str], references: Sequence[str], *, tokenized: bool) -> dict[str, Any]:
    """Computes BLEU and chrF of a whole set, from 0 to 100, with sacreBLEU's signatures, which say how they were
    computed."""
    bleu, chrf = make_bleu(tokenized), sacrebleu.CHRF()
    bleu_score = bleu.corpus_score(translations, [references])
    chrf_score = chrf.corpus_score(translations, [references])
    return {
        "bleu": bleu_score.score,
        "chrf": chrf_score.score,
        "brevity_penalty": bleu_score.bp,
        "reference_length": bleu_score.ref_len,
        "translation_length": bleu_score.sys_len,
        "signatures": {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())},
    }
