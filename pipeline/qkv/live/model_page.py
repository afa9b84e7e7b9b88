"""The model page: a live page in a single HTML file, with a run's model inside.

It opens without a server, a network or an installation. The file holds the viewer, the panel, and the scripts of
`engine/` with their data: the settings and weights of the model for `transformer.js`, the tokenizer for `subword.js`,
and the rules that normalise typed text for `typed_text.js`. Weights are rounded to 16-bit floats. They are compressed
by gzip, whose checksum lets the page detect damage.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..config.choices.inspection import SITES
from ..errors import InputError
from ..evaluation.page import page_facts
from ..exchange.compatibility import STANDARD_TRANSFORMER, NamedWeights, check_supported
from ..files.atomic import write_output
from ..files.written import refuse_input
from ..inspection.experiments.row_steps import stepped_sites
from ..inspection.head_types import describe_types, read_head_types
from ..inspection.viewer.page import byte_planes, read_scripts
from ..run.trained_run import TrainedRun
from ..text.lines import moses
from ..text.lines.line import character_ranges
from ..text.tokens.special_tokens import BOS, EOS, PAD, UNK
from ..text.tokens.subword_models import BPE, NORMAL, parse_model
from ..text.tokens.words import WordUnits
from .page import SHOWN_SITES, find_examples, find_split_words, find_units, live_page, profile_heads

ENGINE = Path(__file__).parent / "engine"

NOTICE = """\
<p id="notice" data-say="live.notice">The model is being opened. If this line stays, the file is damaged, or this
browser is too old: it needs Chrome 103, Firefox 113, Safari 16.4 or later.</p>
<script type="text/plain" id="model">{model}</script>"""


def write_model_page(run: TrainedRun, path: Path) -> None:
    """Writes the model page of a run. If it fails, an existing file is unchanged.

    Args:
        run: the run.
        path: the file.

    Raises:
        InputError: the file belongs to the run or cannot be written, the model has more than `MOST_PARAMETERS`
            parameters, a weight is too large for a 16-bit float, or the page does not support a setting of the run.
    """
    refuse_input(path, run.directory.inputs, "--page")
    write_output(path, model_page(run).encode())


def model_page(run: TrainedRun) -> str:
    """Returns the HTML of the model page of a run.

    Raises:
        InputError: the model has more than `MOST_PARAMETERS` parameters, a weight is too large for a 16-bit float, or
            the page does not support a setting of the run.
    """
    model_text = pack_run(run)
    units = page_units(run)
    # The sites are in the order in which the page stores weights.
    model: Any = run.config.model
    layers = {site: model.encoder_layers if site == "encoder" else model.decoder_layers for site in SHOWN_SITES}
    sites = {site: [count, model.num_heads] for site, count in layers.items()}
    evaluation = run.directory.evaluation("test")
    run_facts = {
        "name": run.config.run.name,
        "sites": sites,
        "units": units._asdict(),
        "heads": {SITES[site].weighed_at: size for site, size in sites.items()},
        "facts": page_facts(run.config, run.model.count_params(), {"search": "greedy"}),
        "types": describe_types(read_head_types(evaluation.head_types)),
        "stepped": stepped_sites(run.model),
        "profiles": profile_heads(evaluation),
        "splitWords": find_split_words(run),
    }
    return live_page(
        str(run.config.run.name),
        {"runs": [run_facts], "changes": ["zeroed"], "examples": find_examples(run)},
        backend="openModel",
        scripts=read_scripts(ENGINE),
        html=NOTICE.format(model=model_text),
        policy={},
    )


def pack_run(run: TrainedRun) -> str:
    """Returns the text of a run's model, tokenizer and normalizer for a page, which `openModel` reads: gzip, in base64.

    Raises:
        InputError: the model has more than `MOST_PARAMETERS` parameters, a weight is too large for a 16-bit float, or
            the page does not support a setting of the run.
    """
    check_model(run)
    header = {
        "model": model_settings(run),
        "tokenizer": pack_tokenizer(run),
        "typed": pack_normalizer(run),
        "units": page_units(run)._asdict(),
    }
    return base64.b64encode(pack(header, named_arrays(run))).decode()


def page_units(run: TrainedRun) -> WordUnits:
    """Returns the units of words on the page: words between spaces, or else subwords; see `find_units`."""
    return WordUnits(*(unit if unit == "spaces" else "subwords" for unit in find_units(run)))


PAGE = "a page with the model inside"
MOST_PARAMETERS = 20_000_000
"""The largest number of parameters. A larger model takes seconds to open and seconds for each sentence, see
docs/measurements."""


# Model setting -> the values that the scripts support.
SUPPORTED_ON_PAGE: Mapping[str, Any] = {
    **STANDARD_TRANSFORMER,
    "positions": [*STANDARD_TRANSFORMER["positions"], "rotary"],
    "positions_on": ["input", "queries_and_keys"],
    "mechanism": ["softmax", "blockwise"],  # both give the same numbers
    "score": ["scaled_dot", "dot"],
}


def check_model(run: TrainedRun) -> None:
    """Checks that a model page can compute a run's model.

    Raises:
        InputError: the model has more than `MOST_PARAMETERS` parameters, or the page does not support a setting.
    """
    settings: Any = run.config.model
    check_supported(settings, SUPPORTED_ON_PAGE, PAGE, "model")
    if run.config.decoding.force_eos:
        raise InputError(f"decoding.force_eos: {PAGE} does not support true; expected false")
    if (count := run.model.count_params()) > MOST_PARAMETERS:
        raise InputError(
            f"{run.directory.root}: {PAGE} supports at most {MOST_PARAMETERS:,} parameters, found {count:,}"
        )


def model_settings(run: TrainedRun) -> dict[str, Any]:
    """Returns the settings of the model and its search for `transformer.js`, JSON-ready."""
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
    """Returns the weights of a run's model by name, see `exchange.compatibility.NamedWeights`.

    Raises:
        InputError: a weight is too large for a 16-bit float.
    """
    arrays = NamedWeights(run).arrays
    for name, array in arrays.items():
        if not np.abs(array).max(initial=0) <= np.finfo(np.float16).max:
            raise InputError(f"{run.directory.root}: {name} has numbers that are too large for 16-bit floats")
    return arrays


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Returns the bytes of a gzip file with a header and arrays, which `unpackModel` of engine/backend.js reads.

    The file holds the size of the JSON header in bytes (4 bytes, little-endian), the header with the names and shapes
    of the arrays, and the arrays as 16-bit floats: first all high bytes, then all low bytes.

    Args:
        header: JSON values by name.
        arrays: the arrays by name. Their absolute values are at most 65,504, the largest 16-bit float.
    """
    shapes = [[name, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": shapes}, ensure_ascii=False, allow_nan=False).encode()
    planes = byte_planes([array.astype("<f2") for array in arrays.values()])
    return gzip.compress(len(text).to_bytes(4, "little") + text + planes, compresslevel=6, mtime=0)


def pack_tokenizer(run: TrainedRun) -> dict[str, Any]:
    """Returns the run's SentencePiece model for `subword.js`, JSON-ready: its kind, its pieces and their scores.

    Raises:
        InputError: the tokenizer was imported, or puts a tag before sentences.
    """
    if run.directory.has_imported_tokenizer:
        raise InputError(f"{run.directory.root}: {PAGE} does not support the tokenizer of an imported run")
    if run.tokenizer.tag is not None:
        raise InputError(f"{run.directory.root}: decoding.tag: {PAGE} does not support tags; expected null")
    model = parse_model(run.tokenizer.model)
    unread = run.tokenizer.unread._asdict()
    return {
        "kind": "bpe" if model.trainer_spec.model_type == BPE else "unigram",
        "pieces": run.tokenizer.pieces(range(run.tokenizer.vocabulary_size)),
        "scores": run.tokenizer.scores,
        "reserved": [token for token, piece in enumerate(model.pieces) if piece.type != NORMAL],
        "unknown": UNK,
        "special": [PAD, BOS, EOS],
        "unread": {name: character_ranges(characters, moses.JAVASCRIPT) for name, characters in unread.items()},
    }


def pack_normalizer(run: TrainedRun) -> dict[str, Any] | None:
    """Returns the rules of `data.normalize` for `typed_text.js`, JSON-ready; None if the run has no such rules."""
    settings = run.config.data.normalize
    style = run.reader.styles["source"]
    language = run.config.data.source_language
    if settings is None or style is None:
        return None
    return {
        "lowercase": settings.lowercase,
        "capitals": style.capitals,
        "capitalised": sorted(style.capitalised),
        "marked": sorted(style.marked) if settings.moses else [],
        "moses": moses.rules(language, escaped=style.escaped) if settings.moses else None,
    }
