"""A run's model as a page holds it: the settings and weights that `transformer.js` computes with.

Weights are rounded to 16-bit floats. gzip adds the sum by which the page sees that it is damaged.
"""

import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InputError
from ..exchange.counterpart import STANDARD_ATTENTION, NamedWeights, check_settings
from ..inspection.viewer.page import byte_planes
from ..run.trained_run import TrainedRun
from ..text.tokens.special_tokens import BOS, EOS, PAD

MOST_PARAMETERS = 20_000_000
"""A page with more takes seconds to open and seconds for a sentence: tests/benchmarks/README.md."""

LARGEST = float(np.finfo(np.float16).max)
SUPPORTED: Mapping[str, Any] = {
    "architecture": ["transformer"],
    "norm": ["pre", "post"],
    "positions": ["sinusoidal", "sinusoidal_halves", "learned", "rotary"],
    "positions_on": ["input", "queries_and_keys"],
    "tie_embeddings": ["all", "target", "none"],
    "activation": ["relu", "gelu", "silu"],
    "scale_embeddings": [True, False],
    "output_bias": [False, True],
    **STANDARD_ATTENTION,
    "mechanism": ["softmax", "blockwise"],  # the same numbers
    "score": ["scaled_dot", "dot"],
}


def check_model(run: TrainedRun) -> None:
    """Checks that the page can compute all of a run's model.

    Raises:
        InputError: it is too large, or has a part without a counterpart.
    """
    settings: Any = run.config.model
    if settings.architecture != "transformer":
        raise InputError(
            f"model.architecture: {settings.architecture} has no counterpart in a page with the model inside; expected "
            "transformer"
        )
    check_settings(settings, SUPPORTED, "a page with the model inside", "model")
    if run.config.decoding.force_eos:
        raise InputError("decoding.force_eos: True has no counterpart in a page with the model inside; expected False")
    if (count := run.model.count_params()) > MOST_PARAMETERS:
        raise InputError(
            f"{run.directory.root}: its model has {count:,} parameters; a page with the model inside is of use up to "
            f"{MOST_PARAMETERS:,}"
        )


def model_settings(run: TrainedRun) -> dict[str, Any]:
    """Returns what `transformer.js` must know beside the weights."""
    settings: Any = run.config.model
    decoding = run.config.decoding
    tied = settings.tie_embeddings
    names = ("d_model", "encoder_layers", "decoder_layers", "norm", "positions", "positions_on")
    return {
        **{name: getattr(settings, name) for name in (*names, "activation", "scale_embeddings")},
        "sites": {
            site: _site(settings, getattr(settings.attention, site)) for site in type(settings.attention).model_fields
        },
        "tables": {
            "source": "target_embedding" if tied == "all" else "source_embedding",
            "target": "target_embedding",
            "output": "output_embedding" if tied == "none" else "target_embedding",
        },
        "limits": {
            "max_positions": settings.max_positions,
            **decoding.model_dump(include={"max_target_ratio", "max_target_extra", "min_length", "no_repeat_ngram"}),
        },
        "special": {"pad": PAD, "bos": BOS, "eos": EOS},
    }


def _site(settings: Any, attention: Any) -> dict[str, Any]:
    size = settings.d_model // settings.num_heads
    return {
        "heads": settings.num_heads,
        "keySize": size,
        "valueSize": size,
        "scale": size**-0.5 if attention.score == "scaled_dot" else 1.0,
    }


def named_arrays(run: TrainedRun) -> dict[str, np.ndarray]:
    """Returns the weights by their names in `transformer.js`.

    Raises:
        InputError: one is not used there, or cannot be a 16-bit float.
    """
    settings: Any = run.config.model
    weights = NamedWeights(run)
    found: dict[str, np.ndarray] = {}

    def take(layer: str, *kinds: str) -> None:
        found.update({f"{layer}/{kind}": weights.take(f"{layer}/{kind}") for kind in kinds})

    tables = model_settings(run)["tables"]
    for table in dict.fromkeys(tables.values()):
        take(table, "table")
    if settings.output_bias:
        take(tables["output"], "bias")
    if settings.positions == "learned":
        take("source_positions", "table")
        take("target_positions", "table")
    if settings.norm == "pre":
        take("encoder_norm", "gamma", "beta")
        take("decoder_norm", "gamma", "beta")
    for side, dense in (
        ("encoder", ("self_attention/qkv", "self_attention/output")),
        ("decoder", ("self_attention/qkv", "self_attention/output", *(f"cross_attention/{name}" for name in CROSS))),
    ):
        for number in range(getattr(settings, f"{side}_layers")):
            for name in (*dense, "feed_forward/inner", "feed_forward/outer"):
                take(f"{side}_{number}/{name}", "kernel", "bias")
            for sublayer in dict.fromkeys(name.split("/")[0] for name in (*dense, "feed_forward/inner")):
                take(f"{side}_{number}/{sublayer}_residual/norm", "gamma", "beta")
    weights.check_all_taken(run.directory.root)
    for name, array in found.items():
        if not np.abs(array).max(initial=0) <= LARGEST:
            raise InputError(f"{run.directory.root}: {name} has numbers that no 16-bit float can hold")
    return found


CROSS = ("query", "key", "value", "output")


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Returns a header and arrays in one compressed block, which `packed.js` reads."""
    shapes = [[name, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": shapes}, ensure_ascii=False, allow_nan=False).encode()
    planes = byte_planes([array.astype("<f2") for array in arrays.values()])
    return gzip.compress(len(text).to_bytes(4, "little") + text + planes, compresslevel=6, mtime=0)
