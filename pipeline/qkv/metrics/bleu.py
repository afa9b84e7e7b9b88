"""BLEU, chrF and TER of translations, with their signatures: of a set, and of drawn or exchanged sentences.

Letters: N sentences, C counts of a sentence, B samples.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sacrebleu
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from ..config.names.translation import BLEU_TOKENIZERS
from ..errors import InputError
from ..statistics.resampling import sentence_counts
from ..statistics.significance import p_of_exchanges

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


def score_translations(translations: Sequence[str], references: Sequence[str], *, tokenizer: str) -> dict[str, Any]:
    """Computes BLEU, chrF, chrF++ and TER of a whole set, with sacreBLEU's signatures of how that was done.

    The first three are from 0 to 100. TER (Snover et al. 2006) is of words between spaces, case ignored; where BLEU has
    a tokenizer for Chinese, Japanese or Korean text, of ideographs and of words without punctuation. It is a percentage
    that can exceed 100, and None if BLEU is below `LEAST_BLEU_FOR_TER`.
    """
    east_asian = BLEU_TOKENIZERS[tokenizer].east_asian
    metrics: dict[str, Any] = {"bleu": make_bleu(tokenizer), "chrf": sacrebleu.CHRF()}
    metrics["chrf++"] = sacrebleu.CHRF(word_order=2)
    metrics["ter"] = sacrebleu.TER(normalized=east_asian, asian_support=east_asian)
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


def score_sentences(
    translations: Sequence[str], references: Sequence[str], *, tokenizer: str
) -> dict[str, list[float]]:
    """Computes BLEU and chrF of each sentence, from 0 to 100."""
    metrics = {"bleu": make_bleu(tokenizer, effective_order=True), "chrf": sacrebleu.CHRF()}
    pairs = list(zip(translations, references, strict=True))
    return {name: [metric.sentence_score(text, [one]).score for text, one in pairs] for name, metric in metrics.items()}


class CorpusScore(NamedTuple):
    """A score of a corpus.

    - metric: sacreBLEU's.
    - counts: `(N, C)`, n-grams and lengths of each sentence, whose sums give the score.
    """

    metric: Any
    counts: np.ndarray

    @classmethod
    def of(cls, metric: Any, translations: Sequence[str], references: Sequence[str]) -> "CorpusScore":
        """Counts each sentence."""
        # As sacreBLEU's own tests of significance do it: there is no public name for it.
        return cls(metric, np.array(metric._extract_corpus_statistics(translations, [references]), np.float64))

    @property
    def value(self) -> float:
        """The score of all sentences."""
        return float(self.of_samples(np.ones((1, len(self.counts))))[0])

    def draw(self, samples: int) -> np.ndarray:
        """Returns the scores of bootstrap samples, `(B,)`."""
        return self.of_samples(sentence_counts(len(self.counts), samples=samples))

    def of_samples(self, sentence_counts: np.ndarray) -> np.ndarray:
        """Returns the scores, `(B,)`, of samples in which each sentence occurs as often as `(B, N)` says."""
        return self._of_sums(sentence_counts @ self.counts)

    def p_against(self, first: "CorpusScore", samples: int) -> float:
        """Tests two scores of the same sentences by approximate randomisation (Riezler and Maxwell 2005): two-sided."""

        def difference(of_first: np.ndarray) -> np.ndarray:
            exchanged = of_first, 1 - of_first
            one, other = (self._of_sums(kept @ first.counts + (1 - kept) @ self.counts) for kept in exchanged)
            return one - other

        return float(p_of_exchanges(difference, len(self.counts), samples=samples))

    def _of_sums(self, sums: np.ndarray) -> np.ndarray:
        # Sums of whole numbers, but for rounding.
        return np.array([self.metric._compute_score_from_stats(np.rint(row)).score for row in sums])


LOW_BLEU = 0.5
GOOD_ACCURACY = 0.4  # predicting the most frequent tokens reaches half of it
FEW_WORDS = 3  # BLEU counts up to four in a row


def count_words(references: Sequence[str], tokenizer: str) -> float:
    """Returns the mean number of words of a reference, as BLEU's tokenizer splits it; see `make_bleu`."""
    return make_bleu(tokenizer).corpus_score(references, [references]).ref_len / max(1, len(references))


def explain_low_bleu(bleu: float, token_accuracy: float, words: float, tokenizer: str) -> str | None:
    """Says in a line why BLEU is near zero though many tokens are predicted right; None if it is not so.

    Args:
        bleu: of a set.
        token_accuracy: of the same set, from 0 to 1.
        words: mean number of words of its references, see `count_words`.
        tokenizer: how BLEU splits text into words.
    """
    if bleu >= LOW_BLEU or token_accuracy < GOOD_ACCURACY or not words:
        return None
    finding = f"BLEU is {bleu:.2f}, though {100 * token_accuracy:.0f} % of tokens are right, given those before them: "
    if words < FEW_WORDS:
        return (
            f"{finding}its tokenizer {tokenizer} finds {words:.1f} words in a reference, and it counts four in a row; "
            "for text without spaces set data.bleu_tokenizer to char, or give evaluate.py --bleu_tokenizer char"
        )
    return (
        f"{finding}the model has learnt words, but its own translations hardly ever have four in a row as the "
        "references do. Train longer; if the translations read well, look at data.bleu_tokenizer and at chrF"
    )
