"""Types of heads in files and pages."""

import pandas as pd
import pytest

from qkv.errors import InputError
from qkv.inspection.head_tables import add_types
from qkv.inspection.head_types import HeadTypesMeter, describe_types, read_head_types

TABLE = pd.DataFrame(
    [
        ("cross", 0, 0, "aligner", 0.75, 0.1, 1e-9, 40, True),
        ("cross", 0, 0, "eos", 0.2, 0.1, 0.5, 50, False),
        ("encoder", 1, 1, "previous", 0.9, 0.1, 1e-9, 50, True),
    ],
    columns=["site", "layer", "head", "type", "share", "chance", "p", "rows", "named"],
)
HEADER = ",".join(TABLE)


def test_types_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "head_types.csv"
    assert describe_types(read_head_types(path)) == {}
    TABLE.to_csv(path, index=False)
    pd.testing.assert_frame_equal(read_head_types(path), TABLE)
    TABLE[:0].to_csv(path, index=False)
    assert describe_types(read_head_types(path)) == {}


def test_pages_hold_those_of_named_heads_by_their_places():
    described = describe_types(TABLE)
    assert list(described) == ["cross/0/0", "encoder/1/1"]
    assert described["cross/0/0"]["type"] == "aligner" and described["cross/0/0"]["share"] == 0.75


def test_heads_get_three_columns_that_are_empty_where_there_is_no_type():
    heads = pd.DataFrame({"site": ["cross"] * 2, "layer": [0, 0], "head": [0, 1], "entropy": [1.0, 2.0]})
    table = add_types(heads, TABLE)
    assert list(table) == ["site", "layer", "head", "entropy", "type", "type_share", "type_p"]
    assert table["type"].tolist() == ["aligner", ""] and table["type_share"].isna().tolist() == [False, True]
    assert list(add_types(heads[:0], TABLE)) == list(table)
    assert add_types(heads, HeadTypesMeter().table())["type"].tolist() == ["", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a table of types"),
        ("site,layer\ncross,0\n", "not a table of types"),
        ("\x00\xff", "not a table of types"),
        (f"{HEADER}\ncross,x,0,eos,0.5,0,0,1,True\n", "not a table of types"),
        (f"{HEADER}\ncross,0,0,<b>,0.5,0,0,1,True\n", "no such type or share: <b>"),
        (f"{HEADER}\ncross,0,0,eos,,0,0,1,True\n", "no such type or share: eos, nan"),
    ],
)
def test_damaged_files_are_refused_in_words(tmp_path, text, message):
    path = tmp_path / "head_types.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=message):
        read_head_types(path)
