"""Attention that is taught where to look: one head's weights are drawn to given word alignments (Chen et al. 2016,
Garg et al. 2019, section 4.2).

Letters: B batch, T target positions, S source positions.
"""

from dataclasses import dataclass

import tensorflow as tf

from ..text.tokenizer import EOS, PAD

LEAST_WEIGHT = 1e-9


@dataclass(frozen=True)
class GuidedAttention:
    """Which head of the cross-attention is taught, and how strongly.

    Args:
        layer: of the decoder, from 0.
        head: of that layer, from 0.
        side: `output`: row t is to look where output token t is linked; `input`: where input token t is, which the row
            has read (Chen et al. 2020, section 3.1).
        weight: of this loss beside the cross-entropy.
        unlinked: what rows are taught whose token has no link: `eos`, to look at the source's EOS, as a statistical
            aligner's go to the empty word (Brown et al. 1993, section 4); `nothing`.
    """

    layer: int
    head: int
    side: str
    weight: float
    unlinked: str

    def loss(self, cross, links, source, target_output):
        """`guided_attention_loss` of the head, times the weight.

        Args:
            cross: tuple over layers of float32 `(B, H, T, S)`.
            links: bool `(B, T, S)`, of output tokens.
            source: int `(B, S)`.
            target_output: int `(B, T)`.
        """
        if self.unlinked == "eos":
            links = with_eos(links, source, target_output)
        return self.weight * guided_attention_loss(cross[self.layer][:, self.head], links, self.side)


def with_eos(links, source, target_output):
    """The links, and one with the source's EOS for each target token that has none; arguments as above."""
    alone = tf.logical_and(target_output != PAD, tf.logical_not(tf.reduce_any(links, -1)))
    return tf.logical_or(links, tf.logical_and(alone[:, :, None], (source == EOS)[:, None]))


def guided_attention_loss(weights, links, side):
    """`- sum_t mean_{s linked with t} log a_ts`, over the rows whose token has links.

    It is the cross-entropy between the attention and an even spread over what is linked.

    Args:
        weights: float32 `(B, T, S)`, a head's attention.
        links: bool `(B, T, S)`: output token t is linked with source token s.
        side: `output` or `input`, see `GuidedAttention`.

    Returns:
        float32 scalar: the sum over rows, to be divided by the number of target tokens.
    """
    linked = tf.cast(links, tf.float32)
    if side == "input":  # input token t is output token t - 1; the first is BOS
        linked = tf.pad(linked, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    wanted = tf.math.divide_no_nan(linked, tf.reduce_sum(linked, -1, keepdims=True))
    return -tf.reduce_sum(wanted * tf.math.log(tf.maximum(weights, LEAST_WEIGHT)))
