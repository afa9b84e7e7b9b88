"""Tables of the allowed values of settings and options, with the meaning and properties of each value.

They are read by configs, help texts, checks, layers, the viewer and TensorBoard. They import no large library, so that
`--help` is fast. Tables from a name to its class or function are elsewhere, such as `SCORE_CLASSES` in
`attention.scores` and `MECHANISM_CLASSES` in `attention.mechanisms`; tests/config/test_choices.py compares the names.

Plugins add rows while the program runs (`plugins`). Therefore look up names when they are needed, and do not copy a
table.

The modules, in reading order:

- `text`: tokenizers, corpus filters, units of words
- `model`: architectures, scores and mechanisms of attention, parts of models
- `training`: schedules, optimizers, callbacks
- `translation`: searches, kinds of markup, validation metrics, tokenizers of BLEU
- `inspection`: sites of attention, types of heads, ways to read word links
"""

from collections.abc import Mapping

from . import inspection, model, text, training, translation

__all__ = ["describe_names", "inspection", "model", "text", "training", "translation"]


def describe_names(table: Mapping) -> str:
    """Returns the rows of a table as text for help texts: `name: meaning; name: meaning`.

    Args:
        table: rows by name. A row is its meaning, or an object with an attribute `meaning`.
    """
    return "; ".join(f"{name}: {getattr(row, 'meaning', row)}" for name, row in table.items())
