"""The loss that training minimises, a sum over the target tokens of a batch.

`TrainStep` divides it by the number of target tokens of all replicas. Its terms:

- the cross-entropy of the target, with label smoothing
- the cross-entropy of the source, for models that predict it
- guided attention, which pulls the weights of one head towards word alignments (Chen et al. 2016; Garg et al. 2019,
  section 4.2)
- R-Drop, which pulls two passes with different dropout towards the same predictions (Liang et al. 2021, equation 2)

Letters: B batch, T target positions, S source positions, N tokens, D model width, V vocabulary, n tokens of a chunk.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import keras
import tensorflow as tf

from ..runtime.devices import sizes
from ..text.batch import Batch
from ..text.tokens.special_tokens import EOS, PAD


@dataclass(eq=False)
class TotalLoss:
    """The loss of a model on a batch, with dropout.

    Args:
        model: any `model.interface.TranslationModel`.
        label_smoothing: see `fused_cross_entropy`.
        r_drop: the weight of the divergence between two passes over the batch (Liang et al. 2021, equation 4, halved to
            the scale of a single cross-entropy); 0 for one pass.
        guided_attention: the guidance of a head, which needs batches with `links`; None for no guidance.
    """

    model: keras.Model
    _: KW_ONLY
    label_smoothing: float = 0.0
    r_drop: float = 0.0
    guided_attention: "GuidedAttention | None" = None

    def __call__(self, batch: Batch) -> tuple[Any, Any]:
        """Computes the loss of a batch.

        Returns:
            The cross-entropy of the target, for reports, and the total loss, for the gradient: float32 scalars, summed
            over target tokens.
        """
        if not self.r_drop:
            cross_entropy, total, _ = self._forward(batch)
            return cross_entropy, total
        # Both passes are in one batch: each copy of a sentence has its own dropout.
        twice = batch.map(lambda x: tf.concat([x, x], 0))
        cross_entropy, total, states = self._forward(twice)
        states, table = self.model.output_embedding.factors(tf.reshape(states, (-1, states.shape[-1])))
        first, second = tf.split(states, 2)
        weights = tf.cast(tf.reshape(batch.target_output, (-1,)) != PAD, tf.float32)
        total += self.r_drop * fused_divergence(first, second, table, weights)
        return cross_entropy / 2, total / 2

    def _forward(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Computes one pass over a batch, without R-Drop.

        Returns:
            The cross-entropy of the target, and the sum of all losses: float32 scalars, summed over tokens. Then the
            decoder's states, `(B, T, D)`.
        """
        model = self.model
        memory = model.encode(batch.source, training=True)
        output = model.decode(batch.target_input, memory, training=True)
        cross_entropy = self._cross_entropy(output.states, batch.target_output)
        total = cross_entropy
        if model.source_loss:  # the states of source tokens predict the next source token
            total += model.source_loss * self._cross_entropy(memory.states[:, :-1], batch.source[:, 1:])
        if self.guided_attention is not None:
            total += self.guided_attention.loss(output.cross, batch.links, batch.source, batch.target_output)
        return cross_entropy, total, output.states

    def _cross_entropy(self, states, ids):
        """Returns the cross-entropy of the tokens `ids`, int `(B, T)`, given the states that predict them, `(B, T, D)`.

        It is summed over the tokens except padding.
        """
        targets = tf.reshape(ids, (-1,))
        states, table = self.model.output_embedding.factors(tf.reshape(states, (-1, states.shape[-1])))
        weights = tf.cast(targets != PAD, tf.float32)
        return fused_cross_entropy(states, table, targets, weights, self.label_smoothing)


def fused_cross_entropy(states, table, targets, token_weights, label_smoothing=0.0, chunk_tokens=None):
    """Computes the cross-entropy with label smoothing, and its gradient, a chunk of tokens at a time.

    The value is `sum_n w_n (logsumexp(l_n) - (1 - e) l_n[target] - e mean(l_n))` (Szegedy et al. 2016, section 7) for
    the logits `l = states table^T`.

    The `(N, V)` logits are by far the largest array of an update, and the plain formula writes and reads them about ten
    times. Here only one chunk of them exists at a time, and stays in the cache.

    Args:
        states: float `(N, D)`.
        table: `(V, D)`, the output embedding.
        targets: int `(N,)`.
        token_weights: float32 `(N,)`: w, 1 for a token that counts, 0 for padding.
        label_smoothing: e, the probability that is spread evenly over the vocabulary.
        chunk_tokens: number of tokens whose logits exist at the same time; None for the number that suits the device.

    Returns:
        The sum over tokens, a float32 scalar. Divide it by the number of tokens of all replicas.
    """

    def chunk(rows, kernel, weights):
        logits = _logits(rows, kernel)
        highest = tf.reduce_max(logits, -1, keepdims=True)
        powers = tf.exp(logits - highest)
        total = tf.reduce_sum(powers, -1, keepdims=True)
        powers = tf.cast(powers, kernel.dtype)
        scale = weights / total
        scaled_rows = tf.cast(tf.cast(rows, tf.float32) * scale, kernel.dtype)
        gradient = tf.cast(tf.matmul(powers, kernel), tf.float32) * scale
        table_gradient = tf.cast(tf.matmul(powers, scaled_rows, transpose_a=True), tf.float32)
        return (highest + tf.math.log(total))[:, 0], [gradient], [table_gradient]

    def value_and_gradients(states, table):
        most = chunk_tokens or sizes().loss_chunk_tokens
        normalizers, states_gradient, table_gradient = _by_chunks(chunk, [states], table, token_weights, most)
        right_logits, expected_rows, right_table, mean_table = _label_terms(
            states, table, targets, token_weights, label_smoothing
        )
        loss = tf.reduce_sum(token_weights * (normalizers - right_logits))
        return loss, [states_gradient - expected_rows, table_gradient - right_table - mean_table]

    return _with_gradients(value_and_gradients, states, table)


def _label_terms(states, table, targets, token_weights, label_smoothing):
    """Returns the terms of the reference token and of label smoothing, to be subtracted from loss and gradients.

    These terms need no logits: the reference token needs a row of the table, label smoothing the mean of all rows.

    Returns:
        The term of each token's loss `(N,)`, not multiplied by the weight of the token. The other terms are multiplied
        by it: the term of the gradient with respect to the states, `(N, D)`; and two terms of the gradient with respect
        to the table: of the reference tokens, `(V, D)`, and of label smoothing, `(D,)`, which is the same for every
        row.
    """
    states = tf.cast(states, tf.float32)
    right_rows = tf.gather(tf.cast(table, tf.float32), targets)
    mean_row = tf.reduce_mean(tf.cast(table, tf.float32), 0)
    expected_rows = (1 - label_smoothing) * right_rows + label_smoothing * mean_row
    weighted = states * token_weights[:, None]
    right_table = (1 - label_smoothing) * tf.math.unsorted_segment_sum(weighted, targets, table.shape[0])
    mean_table = label_smoothing / table.shape[0] * tf.reduce_sum(weighted, 0)
    return tf.reduce_sum(states * expected_rows, -1), token_weights[:, None] * expected_rows, right_table, mean_table


LEAST_WEIGHT = 1e-9  # lower bound inside the logarithm: a weight of zero would have an infinite loss


@dataclass(frozen=True)
class GuidedAttention:
    """The guidance of one head of the cross-attention by word alignments.

    Args:
        layer: the decoder layer, from 0.
        head: the head of that layer, from 0.
        side: the token whose links guide row t. `output`: output token t, which the row predicts; `input`: input token
            t, which the row has read (Chen et al. 2020, section 3.1).
        weight: the factor of this loss, which is added to the cross-entropy.
        unlinked: the guidance of rows whose token has no link. `eos` guides them to the source's EOS, as statistical
            aligners link such words with an empty word (Brown et al. 1993, section 4); `nothing` does not guide them.
    """

    layer: int
    head: int
    side: str
    weight: float
    unlinked: str

    def loss(self, cross, links, source, target_output):
        """Computes the loss of the guided head: `- weight sum_t mean_{s linked with t} log a_ts`.

        The sum is over the rows t whose token has links. A row's term is the cross-entropy between its attention a and
        a uniform distribution over the linked source tokens.

        Args:
            cross: tuple over layers of float32 `(B, H, T, S)`.
            links: bool `(B, T, S)`, True if output token t is linked with source token s.
            source: int `(B, S)`.
            target_output: int `(B, T)`.

        Returns:
            The sum over rows, a float32 scalar. Divide it by the number of target tokens.
        """
        if self.unlinked == "eos":
            unlinked = tf.logical_and(target_output != PAD, tf.logical_not(tf.reduce_any(links, -1)))
            links = tf.logical_or(links, tf.logical_and(unlinked[:, :, None], (source == EOS)[:, None]))
        linked = tf.cast(links, tf.float32)
        if self.side == "input":  # input token t is output token t - 1; the first is BOS
            linked = tf.pad(linked, ((0, 0), (1, 0), (0, 0)))[:, :-1]
        targets = tf.math.divide_no_nan(linked, tf.reduce_sum(linked, -1, keepdims=True))
        weights = tf.maximum(cross[self.layer][:, self.head], LEAST_WEIGHT)
        return self.weight * -tf.reduce_sum(targets * tf.math.log(weights))


def fused_divergence(first, second, table, token_weights, chunk_tokens=None):
    """Computes the divergence of two passes, and its gradient, a chunk of tokens at a time.

    The value is `sum_n w_n (KL(p_n || q_n) + KL(q_n || p_n)) / 2` for `p = softmax(first table^T)` and
    `q = softmax(second table^T)`.

    Args:
        first: float `(N, D)`, the states of the first pass.
        second: float `(N, D)`, the states of the second pass.
        table: `(V, D)`, the output embedding.
        token_weights: float32 `(N,)`: w, 1 for a token that counts, 0 for padding.
        chunk_tokens: number of tokens of each pass whose logits exist at the same time; None for the number that suits
            the device.

    Returns:
        The sum over tokens, a float32 scalar. Divide it by the number of tokens of all replicas.
    """

    def chunk(first, second, kernel, weights):
        values, logit_gradients = _divergence_gradients(_logits(first, kernel), _logits(second, kernel), weights / 2)
        logit_gradients = [tf.cast(gradient, kernel.dtype) for gradient in logit_gradients]
        return (
            values,
            [tf.cast(tf.matmul(gradient, kernel), tf.float32) for gradient in logit_gradients],
            [
                tf.cast(tf.matmul(gradient, rows, transpose_a=True), tf.float32)
                for gradient, rows in zip(logit_gradients, (first, second), strict=True)
            ],
        )

    def value_and_gradients(first, second, table):
        most = chunk_tokens or sizes().divergence_chunk_tokens
        values, *gradients = _by_chunks(chunk, [first, second], table, token_weights, most)
        return tf.reduce_sum(values), gradients

    return _with_gradients(value_and_gradients, first, second, table)


def _divergence_gradients(first, second, weights):
    """Computes the divergence of two passes and its gradients with respect to the logits.

    Args:
        first, second: the logits of the two passes, `(n, V)`.
        weights: the factor of each token, `(n, 1)`.

    Returns:
        Each token's divergence times its factor, `(n,)`; and a pair of the gradients with respect to `first` and to
        `second`, `(n, V)`.
    """
    p = tf.nn.softmax(first)
    q = tf.nn.softmax(second)
    # log p - log q without the two normalisers. They cancel in the value, as p and q have the same sum, and in the
    # gradients, from which the means are subtracted.
    log_ratio = first - second
    change = p - q
    values = tf.reduce_sum(weights * change * log_ratio, -1)
    first_gradient = weights * (change + p * (log_ratio - tf.reduce_sum(p * log_ratio, -1, keepdims=True)))
    second_gradient = weights * (-change - q * (log_ratio - tf.reduce_sum(q * log_ratio, -1, keepdims=True)))
    return values, (first_gradient, second_gradient)


def _logits(states, kernel):
    """Returns the logits, float32 `(n, V)`, of states `(n, D)` and the table `kernel`, `(V, D)`."""
    return tf.cast(tf.matmul(states, kernel, transpose_b=True), tf.float32)


def _by_chunks(compute: Callable, states: Sequence[Any], table, token_weights, most: int) -> list[Any]:
    """Computes values and gradients that depend on the logits, a chunk of tokens at a time.

    Args:
        compute: takes a chunk of each array in `states`, the table in the type of the states, and the weights of the
            chunk's tokens `(n, 1)`. It returns the value of each token, float32 `(n,)`; a list of the gradients with
            respect to each chunk `(n, D)`; and a list of terms of the gradient with respect to the table `(V, D)`.
        states: arrays `(N, D)`.
        table: `(V, D)`.
        token_weights: `(N,)`.
        most: the maximum number of tokens of a chunk.

    Returns:
        The values `(N,)`, the gradient with respect to each array in `states` `(N, D)`, and the gradient with respect
        to the table `(V, D)`, all float32.
    """
    kernel = tf.cast(table, states[0].dtype)  # bfloat16 where the model computes in it; sums are float32
    count = tf.shape(states[0])[0]
    # Chunks are as even as possible, since the padding of the last chunk costs time too.
    chunks = tf.maximum((count + most - 1) // most, 1)
    size = (count + chunks - 1) // chunks
    padding = (0, chunks * size - count)
    filled = [tf.pad(rows, (padding, (0, 0))) for rows in states]
    filled_weights = tf.pad(token_weights, (padding,))

    def chunk(index, table_gradient, *arrays):
        rows = [tf.slice(array, (index * size, 0), (size, array.shape[1])) for array in filled]  # XLA must know sizes
        weights = tf.slice(filled_weights, (index * size,), (size,))[:, None]
        values, gradients, table_terms = compute(*rows, kernel, weights)
        for term in table_terms:
            table_gradient += term
        written = [array.write(index, part) for array, part in zip(arrays, [values, *gradients], strict=True)]
        return index + 1, table_gradient, *written

    shapes = [(None,), *[(None, table.shape[-1])] * len(states)]
    arrays = [tf.TensorArray(tf.float32, chunks, element_shape=shape) for shape in shapes]
    _, table_gradient, *arrays = tf.while_loop(
        lambda index, *_: index < chunks,
        chunk,
        (0, tf.zeros(table.shape, tf.float32), *arrays),
        parallel_iterations=1,  # several chunks at once would not fit into the cache
    )
    return [*(array.concat()[:count] for array in arrays), table_gradient]


def _with_gradients(value_and_gradients: Callable, *inputs):
    """Returns a scalar whose gradients are computed together with its value, not in the backward pass.

    Args:
        value_and_gradients: takes the inputs, and returns a scalar and its gradient with respect to each input.
        *inputs: the tensors.
    """

    @tf.custom_gradient
    def value_of(*inputs):
        value, gradients = value_and_gradients(*inputs)
        return value, lambda upstream: [
            tf.cast(upstream * gradient, x.dtype) for gradient, x in zip(gradients, inputs, strict=True)
        ]

    return value_of(*map(tf.convert_to_tensor, inputs))
