"""Scores of translations: corpus BLEU and chrF with their signatures."""

from collections.abc import Sequence
from typing import Any

import sacrebleu


def bleu_metric(tokenized: bool, effective_order: bool = False) -> sacrebleu.BLEU:
    """Corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it (Post 2018).

    Args:
        tokenized: the text is tokenised as published already, so it is split at spaces only.
        effective_order: leaves out n-grams longer than the text, as the score of a single sentence needs.
    """
    # "force" only says that tokenised text is meant.
    return sacrebleu.BLEU(tokenize="none" if tokenized else "13a", force=tokenized, effective_order=effective_order)


def score_translations(translations: Sequence[str], references: Sequence[str], *, tokenized: bool) -> dict[str, Any]:
    """BLEU and chrF of a whole set, in percent, with the signatures that say how they were computed."""
    bleu, chrf = bleu_metric(tokenized), sacrebleu.CHRF()
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
