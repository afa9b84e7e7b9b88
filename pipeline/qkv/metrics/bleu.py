"""Corpus BLEU, chrF and TER of translations, with their signatures."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sacrebleu
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from ..config.names.translation import BLEU_TOKENIZERS
from ..errors import InputError

LEAST_BLEU_FOR_TER = 1.0
"""Below it, TER says nothing more, and can take seconds for each sentence."""


def check_bleu_tokenizer(name: str, key: str = "data.bleu_tokenizer") -> None:
    """Checks that a tokenizer of BLEU can be used here.

    Args:
        name: one of `config.names.translation.BLEU_TOKENIZERS`.
        key: the setting or option that names it, for the message.

    Raises:
        InputError: a package or a download of sacreBLEU is missing.
    """
    row = BLEU_TOKENIZERS[name]
    missing = [module for module in row.modules if find_spec(module) is None]
    if missing:
        raise InputError(
            f"{key}: {name} needs {' and '.join(missing)}, which are not installed: "
            f'pip install "sacrebleu[{row.extra}]", or choose another tokenizer, such as char'
        )
    if row.downloads and not _model_file(name).is_file():
        raise InputError(
            f"{key}: {name} needs {_model_file(name)}, which sacreBLEU must download once: "
            f"python -c \"import sacrebleu; sacrebleu.BLEU(tokenize='{name}')\""
        )


def _model_file(name: str) -> Path:
    """Returns where sacreBLEU keeps the subword model of a tokenizer."""
    return Path(SACREBLEU_DIR, "models", Path(SPM_MODELS[name]["url"]).name)


def make_bleu(tokenizer: str, effective_order: bool = False) -> sacrebleu.BLEU:
    """Makes sacreBLEU's BLEU (Papineni et al. 2002; Post 2018).

    Args:
        tokenizer: how text is split into words, one of `config.names.translation.BLEU_TOKENIZERS`.
        effective_order: whether to leave out n-grams longer than the text, as the score of a single sentence needs.
    """
    # "force" only silences the warning about tokenised text.
    return sacrebleu.BLEU(tokenize=tokenizer, force=tokenizer == "none", effective_order=effective_order)


def score_bleu(translations: Sequence[str], references: Sequence[str], *, tokenizer: str) -> float:
    """Computes the BLEU of a whole set, from 0 to 100."""
    return make_bleu(tokenizer).corpus_score(translations, [references]).score


def make_ter(tokenizer: str) -> sacrebleu.TER:
    """Makes sacreBLEU's translation edit rate (Snover et al. 2006), of words between spaces, case ignored; where BLEU
    has a tokenizer for Chinese, Japanese or Korean text, of ideographs and of words without punctuation.

    Args:
        tokenizer: that of BLEU, see `make_bleu`.
    """
    east_asian = BLEU_TOKENIZERS[tokenizer].east_asian
    return sacrebleu.TER(normalized=east_asian, asian_support=east_asian)


def score_translations(translations: Sequence[str], references: Sequence[str], *, tokenizer: str) -> dict[str, Any]:
    """Computes BLEU, chrF, chrF++ and TER of a whole set, with sacreBLEU's signatures, which say how they were
    computed.

    The first three are from 0 to 100. TER is a percentage that can exceed 100, and None if BLEU is below
    `LEAST_BLEU_FOR_TER`.
    """
    metrics: dict[str, Any] = {"bleu": make_bleu(tokenizer), "chrf": sacrebleu.CHRF()}
    metrics |= {"chrf++": sacrebleu.CHRF(word_order=2), "ter": make_ter(tokenizer)}
    bleu = metrics["bleu"].corpus_score(translations, [references])
    if bleu.score < LEAST_BLEU_FOR_TER:
        del metrics["ter"]
    return {
        "bleu_tokenizer": tokenizer,
        "ter": None,
        **{name: metric.corpus_score(translations, [references]).score for name, metric in metrics.items()},
        "brevity_penalty": bleu.bp,
        "reference_length": bleu.ref_len,
        "translation_length": bleu.sys_len,
        "signatures": {name: str(metric.get_signature()) for name, metric in metrics.items()},
    }
