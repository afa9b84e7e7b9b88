"""The format of the attention archive, shared by its reader and writer: names of files and arrays, and lines."""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ..config.names.inspection import SITES
from ..config.names.text import WORD_UNITS
from ..files.json import parse_json
from .record import Record

FORMAT_VERSION = 1


MANIFEST = "manifest.json"


SENTENCES = "sentences.jsonl"


GOLD = "gold.pharaoh"
"""Where the sentences have gold alignments, a line for each."""


SHARD = re.compile(r"shard-[0-9]{5,}\.npz")


OPTIONAL: dict[str, Any] = {"source_unit": "spaces", "target_unit": "spaces", "prefix_tokens": 0, "required": []}
"""What is written only where it is not this."""


METADATA = tuple(field.name for field in fields(Record) if field.name not in ("attention", "sinks", *OPTIONAL))


def describe_missing(path: Path) -> str:
    """Returns the message that there is no finished archive in a folder."""
    if members := sorted(path.parent.glob(f"members/*/attention/{MANIFEST}")):
        folders = " ".join(str(member.parents[1]) for member in members)
        return f"{path.parent}: an ensemble, of which each model has an archive of its own; give instead {folders}"
    found = "an unfinished attention archive" if (path / SENTENCES).exists() else "no attention archive"
    return f"{path}: {found} (no {MANIFEST}); evaluate.py and write_archive write one"


def sites_of(record: Record) -> dict[str, list[int]]:
    """Layers and heads of each site."""
    return {site: list(weights.shape[:2]) for site, weights in sorted(record.attention.items())}


def metadata_of(record: Record) -> dict[str, Any]:
    """Returns everything in a record but its attention."""
    others = {name: value for name, usual in OPTIONAL.items() if (value := getattr(record, name)) != usual}
    return {name: getattr(record, name) for name in METADATA} | others


def json_line(line: dict[str, Any]) -> str:
    """Returns a line of `sentences.jsonl`."""
    return json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"


def array_key(site: str, id_: int) -> str:
    """Returns the name of an array in its shard."""
    return f"{site}/{id_:06d}"


def sink_key(site: str, id_: int) -> str:
    """Returns the name of the array in its shard that holds the shares of a site's sink."""
    return f"{site}-sink/{id_:06d}"


def arrays_of(record: Record) -> dict[str, np.ndarray]:
    """Returns copies of a record's arrays by their names in a shard."""
    named = {array_key(site, record.id): weights for site, weights in record.attention.items()}
    named |= {sink_key(site, record.id): shares for site, shares in record.sinks.items()}
    return {name: np.array(array, np.float32, order="C") for name, array in named.items()}


def is_natural(value: Any) -> bool:
    """Returns whether a value is a whole number from 0 on that fits into 64 bits; truth values are none."""
    return type(value) is int and 0 <= value < 1 << 63


def _list_of(is_item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_item, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_TEXTS = _list_of(_is_text)
_WORDS = _list_of(lambda word: word is None or is_natural(word))
_FIELDS: dict[str, Callable[[Any], bool]] = {
    "id": is_natural,
    "shard": lambda value: _is_text(value) and SHARD.fullmatch(value) is not None,  # no path out of the archive
    **dict.fromkeys(("source", "hypothesis", "mode"), _is_text),
    "reference": lambda value: value is None or _is_text(value),
    **dict.fromkeys(("source_tokens", "target_input_tokens", "target_output_tokens"), _TEXTS),
    **dict.fromkeys(("source_words", "target_words"), _WORDS),
    "token_log_probabilities": _list_of(lambda value: type(value) in (int, float) and -1e30 < value < 0.01),
    "truncated": lambda value: isinstance(value, bool),
}
assert _FIELDS.keys() == {"shard", *METADATA}


def parse_line(text: str) -> dict[str, Any] | None:
    """Parses a line of `sentences.jsonl`; None for one that is damaged or names a file outside the archive."""
    try:
        line = parse_json(text)
    except ValueError:
        return None
    if not isinstance(line, dict) or not line.keys() >= _FIELDS.keys():
        return None
    if not all(is_valid(line[name]) for name, is_valid in _FIELDS.items()):
        return None
    if not is_natural(given := line.get("prefix_tokens", 0)) or given > len(line["target_output_tokens"]):
        return None
    if not _TEXTS(line.get("required", [])):
        return None
    return line if all(_words_exist(line, side) for side in ("source", "target")) else None


def _words_exist(line: dict[str, Any], side: str) -> bool:
    """Returns whether the indices of a side's words are below the number of words."""
    unit, text = line.get(f"{side}_unit", "spaces"), line["source" if side == "source" else "hypothesis"]
    if not _is_text(unit) or unit not in WORD_UNITS:
        return False
    words = line[f"{side}_words"]
    return max((word for word in words if word is not None), default=-1) < max(len(text), len(words))


def describes_sites(manifest: dict[str, Any]) -> bool:
    """Returns whether a manifest's `sites` map sites to `[layers, heads]`, and lists are what it says of some sites."""
    sites = manifest.get("sites")
    are_lists = all(isinstance(manifest.get(key, []), list) for key in ("signed", "sinks"))
    return (
        are_lists
        and isinstance(sites, dict)
        and all(
            site in SITES and isinstance(sizes, list) and len(sizes) == 2 and all(map(is_natural, sizes))
            for site, sizes in sites.items()
        )
    )


def check_weights(key: str, weights: np.ndarray, shares: bool) -> None:
    """Checks the numbers of an array.

    Args:
        key: its name.
        weights: its numbers.
        shares: whether those of a row must be at least 0 and together at most 1. The sum may be less: a decoder-only
            model divides a row's weight between source and target.

    Raises:
        ValueError: they are others.
    """
    if not np.isfinite(weights).all():
        raise ValueError(f"{key} has weights that are not finite")
    if shares and not ((weights >= 0).all() and (weights.sum(axis=-1, dtype=np.float64) < 1.01).all()):
        raise ValueError(f"{key} has weights that are no shares of a row")


def check_sinks(key: str, shares: np.ndarray, weights: np.ndarray) -> None:
    """Checks the shares of a site's sink, given the weights of its keys.

    Raises:
        ValueError: they are negative, not finite, or more than the keys leave.
    """
    if not (np.isfinite(shares).all() and (shares >= 0).all()):
        raise ValueError(f"{key} has numbers that are no shares")
    if not (weights.sum(axis=-1, dtype=np.float64) + shares < 1.01).all():
        raise ValueError(f"{key} and the weights of the keys are more than a row")


def axes_of(line: dict[str, Any], site: str) -> tuple[int, int]:
    """Returns the numbers of queries and keys of a sentence's weights at a site."""
    lengths = {"source": len(line["source_tokens"]), "target": len(line["target_output_tokens"])}
    query, key = SITES[site].axes
    return lengths[query], lengths[key]
