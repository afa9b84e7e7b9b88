"""Every closed list of names, in one place, with what each member can do.

Configs, help texts, checks, layers, the viewer and TensorBoard read these tables. These modules import nothing heavy,
so that `--help` stays fast. The tables from name to class or function (`SCORES` in `attention/scores`, `MECHANISMS` in
`attention/mechanisms`, ...) live beside the classes; tests/config/test_names.py holds them against these.

`qkv.plugins` adds rows at run time, so look names up when they are needed and keep no copy of a table.
"""

from collections.abc import Mapping

from . import inspection, model, text, training, translation

__all__ = ["describe", "inspection", "model", "text", "training", "translation"]


def describe(table: Mapping) -> str:
    """Returns `name: meaning; name: meaning`, for help texts."""
    return "; ".join(f"{name}: {getattr(row, 'meaning', row)}" for name, row in table.items())
