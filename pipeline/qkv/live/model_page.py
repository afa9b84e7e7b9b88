"""The page that translates by itself: the viewer's page with a run's model, and the scripts that compute it, inside.

It is one file that opens from a disk without a network and without installing anything: settings and weights for
`transformer.js`, the tokenizer for `subword.js`, and the normalisation of typed text for `typed_text.js`. Weights are
rounded to 16-bit floats. gzip adds a checksum, so that the page notices damage.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from ..config.choices.inspection import SITES
from ..errors import InputError
from ..evaluation.page import page_facts
from ..exchange.compatibility import STANDARD_TRANSFORMER, NamedWeights, check_supported
from ..files.atomic import write_output
from ..files.written import refuse_input
from ..inspection.head_types import describe_types, read_head_types
from ..inspection.viewer.page import byte_planes, read_scripts
from ..run.trained_run import TrainedRun
from ..text.lines import europarl_words, moses
from ..text.lines.line import class_of
from ..text.tokens.special_tokens import BOS, EOS, PAD, UNK
from ..text.tokens.words import WordUnits
from .page import SHOWN_SITES, describe_changes, find_examples, live_page

ENGINE = Path(__file__).parent / "engine"

NOTICE = """\
<p id="notice">The model is being opened. If this line stays, the file is damaged, or this browser is too old: it needs
Chrome 103, Firefox 113, Safari 16.4 or later.</p>
<script type="text/plain" id="model">{model}</script>"""


def write_model_page(run: TrainedRun, path: Path) -> None:
    """Writes the page, whole or not at all.

    Raises:
        InputError: the file is one of the run's, the model is too large, or a part of it has no counterpart in the
            page.
    """
    refuse_input(path, run.directory.inputs, "--page")
    write_output(path, model_page(run).encode())


def model_page(run: TrainedRun) -> str:
    """Returns the page's HTML.

    Raises:
        InputError: see `write_model_page`.
    """
    check_model(run)
    # Where the config leaves the unit of words to the text, the examples decide.
    probes = run.config.inspection.probes or ()
    found = run.reader.segmenter.units([probe.source for probe in probes], [probe.reference or "" for probe in probes])
    units = WordUnits(*(unit if unit == "spaces" else "subwords" for unit in found))
    header = {
        "model": model_settings(run),
        "tokenizer": pack_tokenizer(run),
        "typed": pack_normalizer(run),
        "units": units._asdict(),
    }
    # In the order of the page's weights.
    model: Any = run.config.model
    layers = {site: model.encoder_layers if site == "encoder" else model.decoder_layers for site in SHOWN_SITES}
    sites = {site: [count, model.num_heads] for site, count in layers.items()}
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
        scripts=read_scripts(ENGINE),
        html=NOTICE.format(model=base64.b64encode(pack(header, named_arrays(run))).decode()),
        policy={},
    )


PAGE = "a page with the model inside"
MOST_PARAMETERS = 20_000_000
"""A page with more takes seconds to open and seconds for a sentence: docs/measurements."""


SUPPORTED: Mapping[str, Any] = {
    **STANDARD_TRANSFORMER,
    "positions": [*STANDARD_TRANSFORMER["positions"], "rotary"],
    "positions_on": ["input", "queries_and_keys"],
    "mechanism": ["softmax", "blockwise"],  # the same numbers
    "score": ["scaled_dot", "dot"],
}


def check_model(run: TrainedRun) -> None:
    """Checks that the page can compute all of a run's model.

    Raises:
        InputError: it is too large, or has a part without a counterpart.
    """
    settings: Any = run.config.model
    check_supported(settings, SUPPORTED, PAGE, "model")
    if run.config.decoding.force_eos:
        raise InputError(f"decoding.force_eos: True has no counterpart in {PAGE}; expected False")
    if (count := run.model.count_params()) > MOST_PARAMETERS:
        raise InputError(f"{run.directory.root} has {count:,} parameters; {PAGE} is of use up to {MOST_PARAMETERS:,}")


def model_settings(run: TrainedRun) -> dict[str, Any]:
    """Returns the settings that `transformer.js` needs beside the weights."""
    settings: Any = run.config.model
    decoding = run.config.decoding
    tied = settings.tie_embeddings
    size = settings.d_model // settings.num_heads
    scores = {site: getattr(settings.attention, site).score for site in type(settings.attention).model_fields}
    names = ("d_model", "encoder_layers", "decoder_layers", "norm", "positions", "positions_on")
    return {
        **{name: getattr(settings, name) for name in (*names, "activation", "scale_embeddings")},
        "sites": {
            site: {"heads": settings.num_heads, "size": size, "scale": size**-0.5 if score == "scaled_dot" else 1.0}
            for site, score in scores.items()
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


def named_arrays(run: TrainedRun) -> dict[str, np.ndarray]:
    """Returns the weights by their paths, which are their names in `transformer.js`.

    Raises:
        InputError: one cannot be a 16-bit float.
    """
    arrays = NamedWeights(run).arrays
    for name, array in arrays.items():
        if not np.abs(array).max(initial=0) <= np.finfo(np.float16).max:
            raise InputError(f"{run.directory.root}: {name} has numbers that no 16-bit float can hold")
    return arrays


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Returns a header and arrays in one compressed block, which `unpackModel` in engine/backend.js reads."""
    shapes = [[name, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": shapes}, ensure_ascii=False, allow_nan=False).encode()
    planes = byte_planes([array.astype("<f2") for array in arrays.values()])
    return gzip.compress(len(text).to_bytes(4, "little") + text + planes, compresslevel=6, mtime=0)


def pack_tokenizer(run: TrainedRun) -> dict[str, Any]:
    """Returns the pieces of the SentencePiece model that training has made, their scores, and its kind.

    Raises:
        InputError: the tokenizer was imported, or puts a tag before sentences.
    """
    if run.config.tokenizer.kind == "given":
        raise InputError(f"{run.directory.root}: an imported run, whose tokenizer has no counterpart in {PAGE}")
    if run.tokenizer.tag is not None:
        raise InputError(f"{run.directory.root}: decoding.tag has no counterpart in {PAGE}; expected null")
    model = ModelProto.FromString(run.tokenizer.model)
    unread = run.tokenizer.unread._asdict()
    return {
        "kind": "bpe" if model.trainer_spec.model_type == TrainerSpec.BPE else "unigram",
        "pieces": run.tokenizer.pieces(range(run.tokenizer.vocabulary_size)),
        "scores": run.tokenizer.scores,
        "reserved": [token for token, piece in enumerate(model.pieces) if piece.type != piece.NORMAL],
        "unknown": UNK,
        "special": [PAD, BOS, EOS],
        "unread": {name: class_of(characters, moses.JAVASCRIPT) for name, characters in unread.items()},
    }


def pack_normalizer(run: TrainedRun) -> dict[str, Any] | None:
    """Returns the rules of `data.normalize` for typed text, as `typed_text.js` applies them; None without rules."""
    settings, style, language = run.config.data.normalize, run.reader.styles["source"], run.config.data.source_language
    if settings is None or style is None:
        return None
    return {
        "lowercase": settings.lowercase,
        "capitals": style.capitals,
        "capitalised": sorted(style.capitalised),
        "marked": sorted(style.marked) if settings.moses or settings.europarl else [],
        "moses": moses.rules(language, escaped=style.escaped) if settings.moses else None,
        "europarl": europarl_words.rules(language) if settings.europarl else None,
    }
