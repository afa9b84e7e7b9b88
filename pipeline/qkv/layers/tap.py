"""The places of a model at which values can be read, and replaced by others: each architecture names its own.

Letters: B batch, T queries, S keys.
"""

from typing import Any, NamedTuple


class Returned(NamedTuple):
    """The result of a layer's method: `(B, ..., T, size)`, or `(B, size)` for one position of a loop, whose calls are
    then the rows of one array.

    - layer: the object.
    - method: the name of its method.
    - name: what the value is called; of a tuple the names of its first members, None for those that have none.
    """

    layer: Any
    method: str
    name: str | tuple[str | None, ...]


class Heads(NamedTuple):
    """The values of an attention layer in `attend`: `NAME.scores`, `.weights`, `.head.0` and so on, and `.output`.

    - layer: the `AttentionLayer`.
    - name: of its own.
    - before: the name of the keys that stand before the queries' own positions, where a layer attends to both at once:
        the first S - T of them. What belongs to them has that name: their scores, weights, keys and values, and what
        they add to each head. The output is that of all keys.
    """

    layer: Any
    name: str
    before: str | None = None


Place = Returned | Heads
