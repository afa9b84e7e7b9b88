"""The part of attention that went to no key, for models whose mechanism has a sink."""

from typing import Any

from keras import ops


def sink_shares(**sites) -> dict[str, tuple[Any, ...]]:
    """Returns what rows lack to a sum of one, for the sites whose layers have a sink.

    Args:
        **sites: for each site an attention layer, and the weights of all layers: a tuple of `(B, H, queries, keys)`;
            several tuples where rows are divided into parts.

    Returns:
        Tuples over layers of float32 `(B, H, queries)`.
    """
    return {
        site: tuple(map(_missing, *weights)) for site, (layer, *weights) in sites.items() if layer.mechanism.has_sink
    }


def _missing(*parts):
    return ops.maximum(1.0 - sum(ops.sum(part, axis=-1) for part in parts), 0.0)
