"""The two ways in which all score functions compare a query with a key once both are prepared, and their gradients.

The gradients are written out for blockwise attention, which computes every score a second time instead of keeping it.
Letters: B batch, H heads, T target (query) positions, S source (key) positions, K size of both sides.
"""

from keras import ops

from ..layers.dynamic_shape import dynamic_shape


class DotProduct:
    """`e = q . k`."""

    @staticmethod
    def numbers_a_pair(query):
        """Returns how many numbers are held per pair during the comparison."""
        return 1

    @staticmethod
    def compare(query, key):
        """Compares all pairs.

        Args:
            query: `(B, H, T, K)`.
            key: `(B, H, S, K)`.

        Returns:
            The scores `(B, H, T, S)`, and a function from the gradient by them to those by query and key.
        """

        def gradients(upstream):
            return ops.matmul(upstream, key), ops.matmul(ops.swapaxes(upstream, -1, -2), query)

        return ops.matmul(query, ops.swapaxes(key, -1, -2)), gradients


class TanhSum:
    """`e = v . tanh(q + k)`, one v for each head."""

    @staticmethod
    def numbers_a_pair(query):
        """Returns how many numbers are held per pair during the comparison."""
        return query.shape[-1]

    @staticmethod
    def compare(query, key, v):
        """Compares all pairs.

        The `(B, H, T, S, K)` numbers are by far the largest array: the sum over K is a product with a
        vector, which reads them once and is faster than a reduction.

        Args:
            query: `(B, H, T, K)`.
            key: `(B, H, S, K)`.
            v: `(H, K)`.

        Returns:
            The scores `(B, H, T, S)`, and a function from the gradient by them to those by query, key and v.
        """
        batch, heads, rows, size = dynamic_shape(query)
        columns = dynamic_shape(key)[2]
        pairs = ops.tanh(ops.expand_dims(query, 3) + ops.expand_dims(key, 2))
        flat = ops.reshape(pairs, (batch, heads, rows * columns, size))
        # Repeated explicitly: for a single head, oneDNN reads beyond the end of a second factor that it must repeat
        # itself.
        repeated = ops.broadcast_to(ops.expand_dims(v, 2), (batch, heads, size, 1))
        scores = ops.reshape(ops.matmul(flat, repeated), (batch, heads, rows, columns))

        def gradients(upstream):
            by_v = ops.sum(ops.matmul(ops.reshape(upstream, (batch, heads, 1, rows * columns)), flat), (0, 2))
            # tanh' = 1 - tanh^2, so the sums below are of the upstream gradient, less that times the squares.
            squares = ops.square(pairs)
            over_keys = ops.squeeze(ops.matmul(ops.expand_dims(upstream, 3), squares), 3)
            weighted = ops.reshape(ops.expand_dims(upstream, 4) * squares, (batch, heads, rows, columns * size))
            over_queries = ops.matmul(ops.ones((1, rows), upstream.dtype), weighted)
            over_queries = ops.reshape(over_queries, (batch, heads, columns, size))
            direction = ops.expand_dims(v, 1)
            by_query = direction * (ops.expand_dims(ops.sum(upstream, 3), 3) - over_keys)
            by_key = direction * (ops.expand_dims(ops.sum(upstream, 2), 3) - over_queries)
            return by_query, by_key, by_v

        return scores, gradients
