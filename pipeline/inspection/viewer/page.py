"""The viewer: one HTML file that holds every sentence, matrix and script and opens from disk without a network.

It is put together from the plain HTML, CSS and JavaScript beside this module. Weights are stored as 16-bit parts of
65,535, exact to 0.000008; all high bytes come before all low bytes, since they compress better apart.
"""

import base64
import gzip
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ...config.names import LABEL_SIDES, SITES
from ...files import write_atomically
from ...text.pharaoh import GoldAlignment
from ..measures import MEASURES, PageLabels, measure_site
from ..record import Record
from ..sentences import SENTENCE_MEASURES, sentence_row

ASSETS = Path(__file__).parent
SCRIPTS = ("weights.js", "pictures.js", "list.js", "main.js")  # each may use those before it


@dataclass
class ViewerRun:
    """The sentences of one run, as the page's data hold them.

    Args:
        name: what the page calls the run.
        gold: gold alignments of the sentences by their id, drawn over the attention of forced targets only.
        scores: sentence scores by id.
        plain: turns a tokenised translation into plain text, which is shown beside it; None for text that is plain.
    """

    name: str
    gold: Sequence[GoldAlignment] = ()
    scores: Sequence[float] = ()
    plain: Callable[[str], str] | None = None
    sites: dict[str, list[int]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    sentences: list[dict[str, Any]] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)

    def add(self, record: Record, row: Mapping[str, Any]) -> None:
        """Adds a sentence and its `sentence_row`."""
        self.sites = {site: list(weights.shape[:2]) for site, weights in record.attention.items()}
        self.units = {"source": record.source_unit, "target": record.target_unit}
        for weights in record.attention.values():
            self.weights.append(np.rint(weights.astype("float64").ravel() * 65535).clip(0, 65535).astype("uint16"))
        self.sentences.append(self._sentence(record, row))

    def add_all(self, records: Iterable[Record]) -> "ViewerRun":
        """Measures and adds sentences, and returns itself."""
        for record in records:
            self.add(record, sentence_row(record, measure_site(record)))
        return self

    def _sentence(self, record: Record, row: Mapping[str, Any]) -> dict[str, Any]:
        gold = self.gold[record.id] if record.mode == "forced" and record.id < len(self.gold) else None
        links = sorted(gold.possible) if gold else []
        return {
            "id": record.id,
            "sourceText": record.source,
            "reference": record.reference,
            "hypothesis": record.hypothesis,
            "plain": self.plain(record.hypothesis) if self.plain else None,
            "source": record.source_tokens,
            "target": record.target_output_tokens,
            "sourceWords": record.source_words,
            "targetWords": record.target_words,
            "logProbabilities": [round(value, 4) for value in record.token_log_probabilities] or None,
            "likelihood": round(sum(record.token_log_probabilities) / max(1, len(record.token_log_probabilities)), 4),
            "mode": record.mode,
            "truncated": record.truncated,
            "score": round(float(self.scores[record.id]), 2) if record.id < len(self.scores) else None,
            "gold": [[i, j, int((i, j) in gold.sure)] for i, j in links] if gold else [],
            "measures": {name: _number(row[name]) for name in shown_measures()},
            "underAttended": row["under_attended"],
        }


def shown_measures() -> dict[str, PageLabels]:
    """Returns the measures that have a label in the page."""
    measures: dict[str, PageLabels] = {**MEASURES, **SENTENCE_MEASURES}
    return {name: row for name, row in measures.items() if row.note or row.lowest_first or row.highest_first}


def _measure_labels() -> dict[str, list[dict[str, Any]]]:
    """Returns the page's notes on sentences and orders of sentences; sign -1 puts high values first."""
    notes, orders = [], []
    for name, row in shown_measures().items():
        if row.note:
            notes.append({"label": row.note, "measure": name})
        for label, sign in ((row.lowest_first, 1), (row.highest_first, -1)):
            if label:
                orders.append({"label": label, "measure": name, "sign": sign})
    return {"notes": notes, "orders": orders}


def _number(value: float) -> float:
    """Rounds a number; not-a-number becomes 0, so that it can be sorted."""
    return 0.0 if math.isnan(value) else round(value, 4)


def viewer_page(
    title: str,
    runs: Sequence[ViewerRun],
    *,
    site: str = "cross",
    layer: int = 0,
    head: int | str = "mean",
    side: str = "output",
    origin: str = "",
) -> str:
    """Returns the page's HTML.

    Args:
        title: its heading.
        runs: one run, or several on the same sentences, shown side by side.
        site: shown first, with `layer`, `head` (a number or `mean`) and `side` (`output` or `input`).
        origin: a mark of what it shows, see `page_file`.
    """
    data = {
        "title": title,
        "site": site,
        "layer": layer,
        "head": head,
        "side": side,
        "sites": {name: {"title": row.title, "axes": row.axes, "aligns": row.aligns} for name, row in SITES.items()},
        "sides": list(LABEL_SIDES),
        **_measure_labels(),
        "runs": [
            {"name": run.name, "sites": run.sites, "units": run.units, "sentences": run.sentences} for run in runs
        ],
    }
    arrays = [array for run in runs for array in run.weights]
    weights = np.concatenate(arrays) if arrays else np.zeros(0, "uint16")
    planes = (weights >> 8).astype("uint8").tobytes() + (weights & 255).astype("uint8").tobytes()
    template = Template((ASSETS / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=_escape(title),
        origin=origin,
        style=(ASSETS / "style.css").read_text(encoding="utf-8"),
        script="\n".join(
            (ASSETS / name).read_text(encoding="utf-8").replace('"use strict";\n', "") for name in SCRIPTS
        ),
        # Only "<" can end a script element; in JSON it stands in strings alone, where it has another spelling.
        data=json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        weights=base64.b64encode(gzip.compress(planes, compresslevel=6, mtime=0)).decode(),
    )


def write_viewer(path: Path, title: str, runs: Sequence[ViewerRun], **shown: Any) -> None:
    """Writes the page, whole or not at all."""
    write_atomically(path, viewer_page(title, runs, **shown).encode())


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
