"""The format of the attention archive, shared by its reader and writer: names of files and arrays, and lines."""

import json
import re
from dataclasses import fields
from typing import Any

from .record import Record

FORMAT_VERSION = 1


MANIFEST = "manifest.json"


SENTENCES = "sentences.jsonl"


SHARD = re.compile(r"shard-[0-9]{5,}\.npz")


UNITS = ("source_unit", "target_unit")
"""What counts as a word; written only where words are not separated by spaces."""


METADATA = tuple(field.name for field in fields(Record) if field.name not in ("attention", *UNITS))


def sites_of(record: Record) -> dict[str, list[int]]:
    """Layers and heads of each site."""
    return {site: list(weights.shape[:2]) for site, weights in sorted(record.attention.items())}


def metadata_of(record: Record) -> dict[str, Any]:
    """Returns everything in a record but its attention."""
    units = {name: unit for name in UNITS if (unit := getattr(record, name)) != "spaces"}
    return {name: getattr(record, name) for name in METADATA} | units


def json_line(line: dict[str, Any]) -> str:
    """Returns a line of `sentences.jsonl`."""
    return json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"


def array_key(site: str, id_: int) -> str:
    """Returns the name of an array in its shard."""
    return f"{site}/{id_:06d}"


def parse_line(text: str) -> dict[str, Any] | None:
    """Parses a line of `sentences.jsonl`; None for one that is damaged or names a file outside the archive."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    if not isinstance(line, dict) or not {"shard", *METADATA} <= line.keys():
        return None
    return line if SHARD.fullmatch(str(line["shard"])) else None  # no path out of the archive
