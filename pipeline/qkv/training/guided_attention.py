"""Guided attention: a loss that pulls one head's weights towards given word alignments (Chen et al. 2016, Garg et al.
2019, section 4.2).

Letters: B batch, T target positions, S source positions.
"""

from dataclasses import dataclass

import tensorflow as tf

from ..text.tokenizer import EOS, PAD

LEAST_WEIGHT = 1e-9  # lower bound inside the logarithm: a weight of zero would have an infinite loss


@dataclass(frozen=True)
class GuidedAttention:
    """Which head of the cross-attention is guided, and how strongly.

    Args:
        layer: the decoder layer, from 0.
        head: the head of that layer, from 0.
        side: `output` guides row t to the links of output token t, which it predicts; `input` to those of input token
            t, which it has read (Chen et al. 2020, section 3.1).
        weight: the weight of this loss beside the cross-entropy.
        unlinked: how rows are guided whose token has no link. `eos`: to the source's EOS, as statistical aligners link
            such words with an empty word (Brown et al. 1993, section 4); `nothing`: not at all.
    """

    layer: int
    head: int
    side: str
    weight: float
    unlinked: str

    def loss(self, cross, links, source, target_output):
        """Computes `guided_attention_loss` of the head, times the weight.

        Args:
            cross: tuple over layers of float32 `(B, H, T, S)`.
            links: bool `(B, T, S)`, true where output token t is linked with source token s.
            source: int `(B, S)`.
            target_output: int `(B, T)`.
        """
        if self.unlinked == "eos":
            links = with_eos(links, source, target_output)
        return self.weight * guided_attention_loss(cross[self.layer][:, self.head], links, self.side)


def with_eos(links, source, target_output):
    """Adds a link with the source's EOS for each target token without links; arguments as above."""
    unlinked = tf.logical_and(target_output != PAD, tf.logical_not(tf.reduce_any(links, -1)))
    return tf.logical_or(links, tf.logical_and(unlinked[:, :, None], (source == EOS)[:, None]))


def guided_attention_loss(weights, links, side):
    """Computes `- sum_t mean_{s linked with t} log a_ts`, over the rows whose token has links.

    That is the cross-entropy between the attention and a uniform distribution over the linked source tokens.

    Args:
        weights: float32 `(B, T, S)`, a head's attention.
        links: bool `(B, T, S)`, true where output token t is linked with source token s.
        side: `output` or `input`, see `GuidedAttention`.

    Returns:
        float32 scalar: the sum over rows, to be divided by the number of target tokens.
    """
    linked = tf.cast(links, tf.float32)
    if side == "input":  # input token t is output token t - 1; the first is BOS
        linked = tf.pad(linked, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    targets = tf.math.divide_no_nan(linked, tf.reduce_sum(linked, -1, keepdims=True))
    return -tf.reduce_sum(targets * tf.math.log(tf.maximum(weights, LEAST_WEIGHT)))
