"""The table of probe sentences in TensorBoard shows text as it is, though TensorBoard reads Markdown."""

import re
from types import SimpleNamespace

from pipeline.training.callbacks.tensorboard import probe_table


def probe(id_, source, reference, hypothesis):
    return SimpleNamespace(id=id_, source=source, reference=reference, hypothesis=hypothesis)


def test_every_character_with_a_meaning_in_markdown_is_escaped():
    table = probe_table([probe(0, "a|b <b>x</b> _y_ *z*", "`c` [d](e) # ~f~ \\ $g$ {h}!", "plain, text.")])
    row = table.splitlines()[2]
    assert len(re.split(r"(?<!\\)\|", row)) == 4 + 2  # no cell more
    assert not re.search(r"(?<!\\)[<>_*`\[\]#~${}!]", row)
    assert row.replace("\\\\", "\0").replace("\\", "").replace("\0", "\\") == (
        "| 0 | a|b <b>x</b> _y_ *z* | `c` [d](e) # ~f~ \\ $g$ {h}! | plain, text. |"
    )


def test_there_is_one_row_for_each_probe_and_a_missing_reference_is_an_empty_cell():
    lines = probe_table([probe(0, "un chat", None, "a cat"), probe(1, "oui", "yes", "")]).splitlines()
    assert lines[0] == "| # | source | reference | translation |"
    assert lines[2:] == ["| 0 | un chat |  | a cat |", "| 1 | oui | yes |  |"]
