"""The page that translates by itself: the viewer's, with a run's model and what computes it inside.

It is one file that opens from a disk without a network and without installing anything: settings and weights for
`transformer.js`, the tokenizer for `subword.js`, and the normalisation of typed text for `typed_text.js`. Weights are
rounded to 16-bit floats. gzip adds the sum by which the page sees that it is damaged.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from ..config.names.inspection import SITES
from ..errors import InputError
from ..evaluation.page import page_facts
from ..exchange.counterpart import STANDARD_ATTENTION, NamedWeights, check_settings
from ..files.atomic import write_output
from ..inspection.head_types import describe_types, read_head_types
from ..inspection.viewer.page import byte_planes, origin_of, read_scripts, refuse_other_file
from ..run.trained_run import TrainedRun
from ..text.lines import europarl_words, moses
from ..text.tokens.special_tokens import BOS, EOS, PAD
from ..text.tokens.words import WordUnits
from .page import SHOWN_SITES, describe_changes, find_examples, live_page

ENGINE = Path(__file__).parent / "engine"
SCRIPTS = ("typed_text", "subword", "transformer", "backend")
"""The scripts in `engine/`, in the order in which the page holds them."""


NOTICE = """\
<p id="notice">The model is being opened. If this line stays, the file is damaged, or this browser is too old: it needs
Chrome 103, Firefox 113, Safari 16.4 or later.</p>
<script type="text/plain" id="model">{model}</script>"""


def write_model_page(run: TrainedRun, path: Path) -> None:
    """Writes the page, whole or not at all.

    Args:
        run: the run.
        path: the file; a page of the same run is overwritten.

    Raises:
        InputError: something else is there, the model is too large, or a part of it has no counterpart in the page.
    """
    origin = origin_of([run.directory.root])
    refuse_other_file(path, origin, "this run", "--page")
    write_output(path, model_page(run, origin).encode())


def model_page(run: TrainedRun, origin: str = "") -> str:
    """Returns the page's HTML.

    Raises:
        InputError: see `write_model_page`.
    """
    check_model(run)
    units = _units(run)
    header = {
        "model": model_settings(run),
        "tokenizer": pack_tokenizer(run),
        "typed": pack_normalizer(run),
        "units": units._asdict(),
    }
    sites = _sites(run)
    described = {
        "name": run.config.run.name,
        "sites": sites,
        "units": units._asdict(),
        "heads": {SITES[site].weighed_at: size for site, size in sites.items()},
        "facts": page_facts(run.config, run.model.count_params(), {"search": "greedy"}),
        "types": describe_types(read_head_types(run.directory.evaluation("test").head_types)),
    }
    return live_page(
        str(run.config.run.name),
        {"runs": [described], "changes": describe_changes(["zeroed"]), "examples": find_examples(run)},
        backend="openModel",
        scripts=read_scripts(ENGINE, SCRIPTS),
        html=NOTICE.format(model=base64.b64encode(pack(header, named_arrays(run))).decode()),
        policy={},
        origin=origin,
    )


def _sites(run: TrainedRun) -> dict[str, list[int]]:
    """Returns numbers of layers and heads of the sites that the page shows, in the order of its weights."""
    model: Any = run.config.model
    sides = {site: "encoder" if site == "encoder" else "decoder" for site in SHOWN_SITES}
    return {site: [getattr(model, f"{side}_layers"), model.num_heads] for site, side in sides.items()}


def _units(run: TrainedRun) -> WordUnits:
    """Returns what counts as a word on each side; where the config leaves it to the text, the examples decide."""
    probes = run.config.inspection.probes or ()
    found = run.cutter.units([probe.source for probe in probes], [probe.reference or "" for probe in probes])
    return WordUnits(*(unit if unit == "spaces" else "subwords" for unit in found))


MOST_PARAMETERS = 20_000_000
"""A page with more takes seconds to open and seconds for a sentence: docs/measurements."""


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
        "size": size,
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
    """Returns a header and arrays in one compressed block, which `unpackModel` in engine/backend.js reads."""
    shapes = [[name, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": shapes}, ensure_ascii=False, allow_nan=False).encode()
    planes = byte_planes([array.astype("<f2") for array in arrays.values()])
    return gzip.compress(len(text).to_bytes(4, "little") + text + planes, compresslevel=6, mtime=0)


KINDS = {TrainerSpec.UNIGRAM: "unigram", TrainerSpec.BPE: "bpe"}
NORMAL, UNKNOWN, CONTROL = (ModelProto.SentencePiece.Type.Value(name) for name in ("NORMAL", "UNKNOWN", "CONTROL"))
PAGE = "a page with the model inside"


def pack_tokenizer(run: TrainedRun) -> dict[str, Any]:
    """Returns the pieces, their scores, and what kind of model it is.

    Raises:
        InputError: the tokenizer is of another kind, or does something with text that the page does not.
    """
    if run.config.tokenizer.kind == "given":
        raise InputError(f"{run.directory.root}: an imported run, whose tokenizer has no counterpart in {PAGE}")
    if run.tokenizer.tag is not None:
        raise InputError(
            f"{run.directory.root}: decoding.tag is {run.tokenizer.tag!r}, which has no counterpart in {PAGE}; "
            "expected null"
        )
    model = ModelProto.FromString(run.tokenizer.model)
    kinds = [piece.type for piece in model.pieces]
    unknown = [token for token, kind in enumerate(kinds) if kind == UNKNOWN]
    plain = (
        model.trainer_spec.model_type in KINDS
        and len(unknown) == 1
        and set(kinds) <= {NORMAL, UNKNOWN, CONTROL}
        and not model.trainer_spec.treat_whitespace_as_suffix
        and not model.normalizer_spec.precompiled_charsmap  # the table of a normalisation; "identity" has none
        and model.normalizer_spec.add_dummy_prefix
        and model.normalizer_spec.remove_extra_whitespaces
        and model.normalizer_spec.escape_whitespaces
    )
    if not plain:
        raise InputError(
            f"{run.directory.tokenizer}: this SentencePiece model has no counterpart in {PAGE}; expected one that "
            "training has made: bpe or unigram, without normalisation, byte pieces and own symbols"
        )
    return {
        "kind": KINDS[model.trainer_spec.model_type],
        "pieces": run.tokenizer.pieces(range(run.tokenizer.vocabulary_size)),
        "scores": run.tokenizer.scores,
        "reserved": [token for token, kind in enumerate(kinds) if kind != NORMAL],
        "unknown": unknown[0],
        "special": [PAD, BOS, EOS],
    }


def pack_normalizer(run: TrainedRun) -> dict[str, Any] | None:
    """Returns what `data.normalize` does to typed text, for `typed_text.js`; None where it does nothing."""
    settings, look, language = run.config.data.normalize, run.source_look, run.config.data.source_language
    if settings is None or look is None:
        return None
    divided = settings.moses or settings.europarl
    return {
        "lowercase": settings.lowercase,
        "capitals": look.capitals,
        "capitalised": sorted(look.capitalised),
        "marked": sorted(look.marked) if divided else [],
        "moses": moses.rules(language, escaped=look.escaped) if settings.moses else None,
        "europarl": europarl_words.rules(language) if settings.europarl else None,
    }
