"""BLEU, chrF and TER of sacreBLEU, and bootstrap samples and significance tests of such scores.

Letters: N sentences, C counts per sentence, B bootstrap samples.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sacrebleu
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from ..config.choices.translation import BLEU_TOKENIZERS
from ..errors import InputError
from ..statistics.resampling import sentence_counts
from ..statistics.significance import p_of_exchanges

LEAST_BLEU_FOR_TER = 1.0
"""TER is not computed below this BLEU: it would add no information, and can take seconds for each sentence."""


def check_bleu_tokenizer(name: str, key: str = "data.bleu_tokenizer") -> None:
    """Checks that the packages and files that a tokenizer of BLEU needs are installed.

    Args:
        name: one of `config.choices.translation.BLEU_TOKENIZERS`.
        key: the setting or option that the user chose the tokenizer with, for the message.

    Raises:
        InputError: a package, or a file that sacreBLEU downloads, is missing.
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
        tokenizer: the tokenizer that splits text into words, one of `config.choices.translation.BLEU_TOKENIZERS`.
        effective_order: if True, orders of n-grams longer than the text are left out. Sentence BLEU needs it.
    """
    # "force" only silences the warning about tokenised text.
    return sacrebleu.BLEU(tokenize=tokenizer, force=tokenizer == "none", effective_order=effective_order)


def score_bleu(translations: Sequence[str], references: Sequence[str], *, tokenizer: str) -> float:
    """Computes the BLEU of a set, 0 to 100. For `tokenizer` see `make_bleu`."""
    return make_bleu(tokenizer).corpus_score(translations, [references]).score


def score_translations(translations: Sequence[str], references: Sequence[str], *, tokenizer: str) -> dict[str, Any]:
    """Computes BLEU, chrF, chrF++ and TER of a set.

    BLEU, chrF and chrF++ are from 0 to 100. TER (Snover et al. 2006) is a percentage that can exceed 100. It ignores
    case and splits text at spaces; with a tokenizer for Chinese, Japanese or Korean it also separates ideographs and
    removes punctuation.

    Args:
        translations: the model's translation of each source.
        references: the reference translation of each source.
        tokenizer: the tokenizer of BLEU, see `make_bleu`.

    Returns:
        The scores `bleu`, `chrf`, `chrf++` and `ter`; the `bleu_tokenizer`; the `brevity_penalty` of BLEU and its
        lengths in words, `reference_length` and `translation_length`; and `signatures`, sacreBLEU's signature of each
        score. `ter` is None, and has no signature, if BLEU is below `LEAST_BLEU_FOR_TER`.
    """
    east_asian = BLEU_TOKENIZERS[tokenizer].east_asian
    metrics: dict[str, Any] = {"bleu": make_bleu(tokenizer), "chrf": sacrebleu.CHRF()}
    metrics["chrf++"] = sacrebleu.CHRF(word_order=2)
    metrics["ter"] = sacrebleu.TER(normalized=east_asian, asian_support=east_asian)
    bleu = metrics["bleu"].corpus_score(translations, [references])
    if bleu.score < LEAST_BLEU_FOR_TER:
        del metrics["ter"]
    others = {name: metric for name, metric in metrics.items() if name != "bleu"}
    return {
        "bleu_tokenizer": tokenizer,
        "ter": None,
        "bleu": bleu.score,
        **{name: metric.corpus_score(translations, [references]).score for name, metric in others.items()},
        "brevity_penalty": bleu.bp,
        "reference_length": bleu.ref_len,
        "translation_length": bleu.sys_len,
        "signatures": {name: str(metric.get_signature()) for name, metric in metrics.items()},
    }


def score_sentences(
    translations: Sequence[str], references: Sequence[str], *, tokenizer: str
) -> dict[str, list[float]]:
    """Computes the `bleu` and the `chrf` of each sentence, 0 to 100. For `tokenizer` see `make_bleu`."""
    metrics = {"bleu": make_bleu(tokenizer, effective_order=True), "chrf": sacrebleu.CHRF()}
    pairs = list(zip(translations, references, strict=True))
    return {
        name: [metric.sentence_score(text, [reference]).score for text, reference in pairs]
        for name, metric in metrics.items()
    }


class CorpusScore(NamedTuple):
    """A corpus score that is computed from the summed counts of its sentences, such as BLEU.

    - metric: a metric of sacreBLEU, such as the result of `make_bleu`.
    - counts: the numbers of n-grams and the lengths of each sentence, float64 `(N, C)`.
    """

    metric: Any
    counts: np.ndarray

    @classmethod
    def of(cls, metric: Any, translations: Sequence[str], references: Sequence[str]) -> "CorpusScore":
        """Returns the score of translations.

        Args:
            metric: a metric of sacreBLEU, such as the result of `make_bleu`.
            translations: the translation of each sentence.
            references: the reference of each sentence.
        """
        # sacreBLEU's own significance tests do the same: there is no public name for it.
        return cls(metric, np.array(metric._extract_corpus_statistics(translations, [references]), np.float64))

    @property
    def value(self) -> float:
        """The score of the whole corpus."""
        return float(self.of_samples(np.ones((1, len(self.counts))))[0])

    def draw(self, samples: int) -> np.ndarray:
        """Draws bootstrap samples of the sentences, and returns the score of each sample, `(samples,)`."""
        return self.of_samples(sentence_counts(len(self.counts), samples=samples))

    def of_samples(self, sentence_counts: np.ndarray) -> np.ndarray:
        """Returns the score of each bootstrap sample, float64 `(B,)`.

        `sentence_counts` has the number of times that each sentence is in each sample, `(B, N)`.
        """
        return self._of_sums(sentence_counts @ self.counts)

    def p_against(self, first: "CorpusScore", samples: int) -> float:
        """Returns the two-sided p-value of the difference from `first`, a score of the same sentences.

        The test is approximate randomisation (Riezler and Maxwell 2005) with `samples` exchanges.
        """

        def difference(is_kept: np.ndarray) -> np.ndarray:
            mixed_first = self._of_sums(is_kept @ first.counts + (1 - is_kept) @ self.counts)
            mixed_second = self._of_sums((1 - is_kept) @ first.counts + is_kept @ self.counts)
            return mixed_first - mixed_second

        return float(p_of_exchanges(difference, len(self.counts), samples=samples))

    def _of_sums(self, sums: np.ndarray) -> np.ndarray:
        # The sums are whole numbers but for rounding errors.
        return np.array([self.metric._compute_score_from_stats(np.rint(row)).score for row in sums])


LOW_BLEU = 0.5
GOOD_ACCURACY = 0.4  # a model that only predicts frequent tokens reaches half of this
FEW_WORDS = 3  # in a reference: BLEU counts up to four words in a row


def count_words(references: Sequence[str], tokenizer: str) -> float:
    """Returns the mean number of words in a reference, as the tokenizer of BLEU splits it; see `make_bleu`."""
    return make_bleu(tokenizer).corpus_score(references, [references]).ref_len / max(1, len(references))


def explain_low_bleu(bleu: float, token_accuracy: float, words: float, tokenizer: str) -> str | None:
    """Returns a line of advice if BLEU is near zero although many tokens are predicted correctly; None otherwise.

    Args:
        bleu: the BLEU of a set, 0 to 100.
        token_accuracy: the token accuracy on the same set, 0 to 1.
        words: the mean number of words in its references, see `count_words`.
        tokenizer: the tokenizer of BLEU.
    """
    if bleu >= LOW_BLEU or token_accuracy < GOOD_ACCURACY or not words:
        return None
    finding = f"BLEU is {bleu:.2f}, although {100 * token_accuracy:.0f} % of the tokens are predicted correctly: "
    if words < FEW_WORDS:
        return (
            f"{finding}its tokenizer {tokenizer} finds {words:.1f} words in a reference, and it counts four in a row; "
            "for text without spaces set data.bleu_tokenizer to char, or give evaluate.py --bleu_tokenizer char"
        )
    return (
        f"{finding}the model has learnt words, but its translations hardly ever share four words in a row with the "
        "references. Train longer; if the translations read well, look at data.bleu_tokenizer and at chrF"
    )
