"""The viewer: one HTML file that holds every sentence, matrix and script and opens from disk without a network, or
inside a notebook.

It is put together from the plain HTML, CSS and JavaScript beside this module. Weights are stored as 16-bit parts of
65,535, exact to 0.000008. A mark in the file tells whether a page shows the same as another.
"""

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from ...config.names.inspection import LABEL_SIDES, SITES
from ..colours import HEADS, css_variables
from ..record import Record
from .data import ViewerRun, measure_labels

ASSETS = Path(__file__).parent

START = 'const viewer = new Viewer(JSON.parse(document.getElementById("data").textContent));'
"""The line that opens the page, after all its own scripts."""

POLICY = {
    "default-src": "'none'",
    "style-src": "'unsafe-inline'",
    "script-src": "'unsafe-inline'",
    "img-src": "data:",  # of which PNG files are painted
}
"""The page's content security policy: it loads nothing and sends nothing."""


class Extension(NamedTuple):
    """Parts that another page adds to the viewer's.

    Attributes:
        scripts: the text of scripts, which run after the page's own and extend it, see scripts/viewer.js.
        style: the text of a style sheet.
        html: elements that stand above the sentence's texts, in the element `#extension`.
        policy: directives that the content security policy has instead of those in `POLICY` or beside them, such as
            `{"connect-src": "'self'"}`.
    """

    scripts: Sequence[str] = ()
    style: str = ""
    html: str = ""
    policy: Mapping[str, str] = {}


def viewer_page(
    title: str,
    runs: Sequence[ViewerRun],
    *,
    opens_at: Mapping[str, Any] | None = None,
    origin: str = "",
    stages: bool = False,
    extension: Extension | None = None,
) -> str:
    """Returns the page's HTML.

    Args:
        title: its heading.
        runs: one run, or several on the same sentences, shown side by side. They may have no sentences yet: scripts can
            add them, see scripts/store.js.
        opens_at: the attention that is shown first, by `site`, `layer`, `head` (a number or `mean`) and `side`
            (`output` or `input`); without a head, the one that tells most, see scripts/heads.js.
        origin: a mark of what it shows, see `files.written.origin_of`.
        stages: whether the runs are stages of one training, shown by a slider instead of side by side.
        extension: what another page adds.
    """
    added = extension or Extension()
    data = {
        "title": title,
        "site": "cross",
        "layer": None,
        "head": None,
        "side": "output",
        **(opens_at or {}),
        "sites": {
            name: {"title": site.title, "axes": site.axes, "aligns": site.aligns, "weighedAt": site.weighed_at}
            for name, site in SITES.items()
        },
        "sides": list(LABEL_SIDES),
        **measure_labels(),
        "stages": stages,
        "runs": [run.data() for run in runs],
    }
    colours = f"const HEAD_COLOURS = {len(HEADS['light'])};"
    return Template(_read("page.html")).substitute(
        title=escape(title, quote=False),
        origin=origin,
        policy=content_policy(added.policy),
        style="\n".join([css_variables() + _read("style.css"), added.style]),
        script="\n".join([colours, read_scripts(ASSETS / "scripts"), START, *added.scripts]),
        html=added.html,
        data=embed_json(data),
        weights=encode_weights([array for run in runs for array in run.weights]),
    )


def read_scripts(folder: Path) -> str:
    """Returns the text of a folder's scripts, which only define functions, classes and constants, in any order."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.js")))
    return "\n".join(text.replace('"use strict";\n', "") for text in texts)


def content_policy(changes: Mapping[str, str]) -> str:
    """Returns the content security policy: `POLICY` with some directives changed or added."""
    return "; ".join(f"{name} {value}" for name, value in {**POLICY, **changes}.items())


def embed_json(value: Any) -> str:
    """Returns a value as JSON that can stand in a script element."""
    # Only "<" can end the element; in JSON it stands in strings alone, where it has another spelling.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def encode_weights(arrays: Sequence[np.ndarray]) -> str:
    """Returns arrays of uint16 as the page holds them: in `byte_planes`, gzipped, as base64."""
    return base64.b64encode(gzip.compress(byte_planes(arrays), compresslevel=6, mtime=0)).decode()


def byte_planes(arrays: Sequence[np.ndarray]) -> bytes:
    """Returns the high bytes of arrays of 16-bit numbers, and then the low bytes, since they compress better apart."""
    numbers = np.concatenate([array.view("<u2").ravel() for array in arrays]) if arrays else np.zeros(0, "<u2")
    return (numbers >> 8).astype("uint8").tobytes() + (numbers & 255).astype("uint8").tobytes()


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def name_page(evaluations: Sequence[tuple[str, str]]) -> tuple[list[str], str]:
    """Returns the names of the evaluations on a page, and its title, from the (run, set) of each; the set of an archive
    without a run is empty."""
    runs, sets = zip(*evaluations, strict=True)
    if len(set(sets)) == 1:
        return list(runs), ", ".join(filter(None, (" and ".join(runs), sets[0])))
    if len(set(runs)) == 1:
        return list(sets), f"{runs[0]}, {' and '.join(sets)}"
    names = [", ".join(filter(None, evaluation)) for evaluation in evaluations]
    return names, " and ".join(names)


def file_name(title: str) -> str:
    """Returns the name of a page's file: `demo and narrow, test` is in `demo_and_narrow_test.html`."""
    return re.sub(r"[^\w.-]+", "_", title)[:100] + ".html"


WITHOUT_LIST = "nav { display: none; } #layout { grid-template-columns: minmax(0, 1fr); }"


@dataclass(frozen=True)
class InlinePage:
    """A page that a notebook shows in the output of a cell, in a frame of a height in pixels that can reach neither the
    notebook nor a network."""

    html: str
    height: int

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{self.height}" style="border: 0" sandbox="allow-scripts allow-downloads"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame} title="attention"></iframe>'


def show_record(record: Record, name: str, height: int) -> InlinePage:
    """Makes the page of one sentence, without the list of sentences."""
    runs = [ViewerRun(name).add_all([record])]
    return InlinePage(viewer_page(name, runs, extension=Extension(style=WITHOUT_LIST)), height)
