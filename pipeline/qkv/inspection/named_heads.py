"""The heads that have a type, as tables, files and pages hold them; `head_types` finds them."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..config.names.inspection import HEAD_TYPES
from ..errors import DAMAGE, InputError

Place = tuple[str, int, int]
"""Site, layer and head."""


class TypedHead(NamedTuple):
    """The type of a head.

    - type: one of `config.names.inspection.HEAD_TYPES`.
    - share: of the weight of all rows that have such a place, from 0 to 1.
    - p: at most the p-value, after Holm's correction.
    """

    type: str
    share: float
    p: float


def named_heads(table: pd.DataFrame) -> dict[Place, TypedHead]:
    """Returns the types of the heads that have one, from a table of `HeadTypesMeter`."""
    return {
        (row["site"], int(row["layer"]), int(row["head"])): TypedHead(row["type"], row["share"], row["p"])
        for row in table[table["named"].astype(bool)].to_dict("records")
    }


def describe_types(named: Mapping[Place, TypedHead]) -> dict[str, dict[str, Any]]:
    """Returns the types of heads as pages hold them, by `SITE/LAYER/HEAD`."""
    return {
        "/".join(map(str, place)): {
            "label": HEAD_TYPES[head.type].label,
            "short": HEAD_TYPES[head.type].short,
            "meaning": HEAD_TYPES[head.type].meaning,
            "share": round(head.share, 4),
        }
        for place, head in named.items()
    }


def read_head_types(path: Path) -> dict[Place, TypedHead]:
    """Reads the types of heads from the file that holds a table of `HeadTypesMeter`; none if there is no such file.

    Raises:
        InputError: it is damaged.
    """
    if not path.is_file():
        return {}
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values={"share": "", "chance": "", "p": ""})
        named = named_heads(table)
    except DAMAGE as error:
        raise InputError(f"{path}: not a table of types of heads ({error}); delete it, or evaluate anew") from None
    for head in named.values():
        if head.type not in HEAD_TYPES or not 0 <= head.share <= 1:
            raise InputError(
                f"{path}: expected types among {', '.join(HEAD_TYPES)} with shares from 0 to 1, found {head.type} with "
                f"{head.share}; delete it, or evaluate anew"
            )
    return named


def add_types(heads: pd.DataFrame, named: Mapping[Place, TypedHead]) -> pd.DataFrame:
    """Returns a table with columns `site`, `layer` and `head` and three more: `type`, `type_share`, `type_p`; empty
    where a head has no type."""
    places = zip(heads["site"], heads["layer"], heads["head"], strict=True)
    types = [named.get(place, TypedHead("", math.nan, math.nan)) for place in places]
    kinds, shares, p_values = zip(*types, strict=True) if types else ((), (), ())
    return heads.assign(type=kinds, type_share=shares, type_p=p_values)
