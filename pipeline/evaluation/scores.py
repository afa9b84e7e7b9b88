"""Scores of translations: corpus BLEU and chrF with their signatures, and the likelihood of the references."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sacrebleu
import tensorflow as tf

from pipeline.decoding.forced import forced_pass
from pipeline.text.batches import collate, plan_batches
from pipeline.text.encoded import EncodedSentences
from pipeline.text.tokenizer import PAD


def bleu_metric(tokenized: bool) -> sacrebleu.BLEU:
    """Corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it (Post 2018).

    Args:
        tokenized: the text is tokenised as published already, so it is split at spaces only.
    """
    return sacrebleu.BLEU(tokenize="none", force=True) if tokenized else sacrebleu.BLEU()


def score_translations(
    translations: Sequence[str], references: Sequence[str], *, tokenized: bool
) -> dict[str, Any]:
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


@dataclass(frozen=True)
class Likelihood:
    """Means over all target tokens of a set, EOS among them.

    Args:
        loss: negative log-likelihood, in nats a token, without label smoothing.
        token_accuracy: share of tokens that were the model's first choice, given those before.
    """

    loss: float
    token_accuracy: float

    @property
    def perplexity(self) -> float:
        """`exp(loss)`."""
        return math.exp(min(self.loss, 700.0))


class LikelihoodMeter:
    """Measures how likely a model holds the references to be.

    Args:
        model: anything with the surface of `pipeline.model.surface`.
        source: encoded sources.
        target: encoded references.
        batch_tokens: positions of a batch, padding included.
    """

    def __init__(
        self, model: Any, source: EncodedSentences, target: EncodedSentences, batch_tokens: int = 4096
    ) -> None:
        self.source, self.target = source, target
        plan = plan_batches(
            source.lengths, target.lengths, batch_tokens=batch_tokens, length_multiple=8, seed=0, epoch=0
        )
        self.batches = plan.batches

        def sums(source_ids, target_input, target_output):
            forced = forced_pass(model, source_ids, target_input, target_output)
            real = target_output != PAD
            right = tf.logical_and(real, forced.likeliest == target_output)
            return tf.reduce_sum(tf.where(real, -forced.log_probabilities, 0.0)), tf.reduce_sum(tf.cast(right, tf.int32))

        self._sums = tf.function(sums, input_signature=(tf.TensorSpec([None, None], tf.int32),) * 3)

    def measure(self) -> Likelihood:
        """The likelihood under the model as it is now."""
        loss, right = 0.0, 0
        for rows in self.batches:
            batch_loss, batch_right = self._sums(*collate(self.source, self.target, rows, length_multiple=8))
            loss, right = loss + float(batch_loss), right + int(batch_right)
        tokens = int(np.sum(self.target.lengths)) + len(self.target)
        return Likelihood(loss / tokens, right / tokens)
