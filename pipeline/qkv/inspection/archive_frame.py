"""The text of an archive as a table."""

import html
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd  # takes half a second; see `Record`

_COLUMNS = [
    *("id", "source", "reference", "hypothesis", "mode", "truncated"),
    *("source_tokens", "target_tokens", "log_probability"),
]


def sentence_frame(lines: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
    """Returns a row for each line of `sentences.jsonl`, with numbers of tokens and summed log-probabilities."""
    import pandas as pd

    rows = [
        {
            **{name: line[name] for name in ("id", "source", "reference", "hypothesis", "mode", "truncated")},
            "source_tokens": len(line["source_tokens"]),
            "target_tokens": len(line["target_output_tokens"]),
            "log_probability": sum(line["token_log_probabilities"] or [math.nan]),
        }
        for line in lines
    ]
    return pd.DataFrame(rows, columns=_COLUMNS).set_index("id")


def summary_html(frame: "pd.DataFrame", sites: Mapping[str, tuple[int, int]]) -> str:
    """Returns HTML for notebooks: the number of sentences, layers and heads, and the first sentences.

    Args:
        frame: of `sentence_frame`.
        sites: layers and heads of each site.
    """
    sizes = ", ".join(f"{site}: {layers} x {heads}" for site, (layers, heads) in sites.items())
    table = frame.head(10)[["source", "hypothesis", "log_probability"]].to_html(notebook=True)
    return f"<p>{len(frame)} sentences; layers x heads of {html.escape(sizes)}</p>{table}"
