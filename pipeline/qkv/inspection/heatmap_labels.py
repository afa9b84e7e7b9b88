"""The texts of a heat map: its title, and the labels of rows and columns."""

from ..config.names.inspection import LABEL_SIDES, SITES
from .record import Record

LABEL_CHARACTERS = 18
TITLE_CHARACTERS = 70


def axis_labels(record: Record, site: str, side: str) -> tuple[list[str], list[str]]:
    """Returns the labels of the rows and of the columns. Keys of the decoder's self-attention are always its input
    tokens."""
    target = record.target_output_tokens if side == "output" else record.target_input_tokens
    query, key = SITES[site].axes
    rows = record.source_tokens if query == "source" else target
    columns = record.source_tokens if key == "source" else record.target_input_tokens
    return [_one_line(token) for token in rows], [_one_line(token) for token in columns]


def _one_line(text: str, longest: int = LABEL_CHARACTERS) -> str:
    """Escapes control characters, and cuts a text that is longer than `longest`."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def figure_title(record: Record, site: str, layer: int, heads: list[int], side: str) -> str:
    """Returns three lines: the sentence; site, layer and heads; the tokens of rows and columns."""
    shown = f"head {heads[0]}" if len(heads) == 1 else f"heads {heads[0]}-{heads[-1]}"
    query, key = SITES[site].axes
    rows = "source tokens" if query == "source" else LABEL_SIDES[side]
    columns = "source tokens" if key == "source" else "input tokens"
    sentence = f"{record.id}: {_one_line(record.source, TITLE_CHARACTERS)}"
    return f"{sentence}\n{SITES[site].title}, layer {layer}, {shown}\nrows: {rows}; columns: {columns}"
