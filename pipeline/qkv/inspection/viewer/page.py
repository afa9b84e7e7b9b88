"""The viewer: one HTML file that holds every sentence, matrix and script and opens from disk without a network.

It is put together from the plain HTML, CSS and JavaScript beside this module. Weights are stored as 16-bit parts of
65,535, exact to 0.000008.
"""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ...config.names.inspection import LABEL_SIDES, SITES, Site
from ...files.atomic import write_output
from .viewer_run import ViewerRun, measure_labels

__all__ = ["ViewerRun", "viewer_page", "write_viewer"]

ASSETS = Path(__file__).parent
SCRIPTS = (
    *("elements", "weights", "words", "store", "telling", "orders", "marks", "differences", "list", "roving", "pinned"),
    *("matrix", "strands", "legend", "heads", "table", "texts", "save", "section", "address", "header", "controls"),
    *("keys", "viewer", "main"),
)
"""The scripts in `scripts/`, in the order in which the page holds them: each may use those before it."""

POLICY = {
    "default-src": "'none'",
    "style-src": "'unsafe-inline'",
    "script-src": "'unsafe-inline'",
    "img-src": "data:",  # of which PNG files are painted
}
"""The page's content security policy: it loads nothing and sends nothing."""


def viewer_page(
    title: str,
    runs: Sequence[ViewerRun],
    *,
    site: str = "cross",
    layer: int | None = None,
    head: int | str | None = None,
    side: str = "output",
    origin: str = "",
    stages: bool = False,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    html: str = "",
    policy: Mapping[str, str] | None = None,
) -> str:
    """Returns the page's HTML.

    Args:
        title: its heading.
        runs: one run, or several on the same sentences, shown side by side. They may have no sentences yet: scripts can
            add them, see scripts/store.js.
        site: shown first, with `layer`, `head` (a number or `mean`) and `side` (`output` or `input`); without a head,
            the one that tells most, see scripts/telling.js.
        origin: a mark of what it shows, see `page_file`.
        stages: whether the runs are stages of one training, shown by a slider instead of side by side.
        scripts: the text of more scripts, which run after the page's own and extend it, see scripts/viewer.js.
        styles: the text of more style sheets.
        html: elements that stand above the sentence's texts, in the element `#extension`.
        policy: directives by which the content security policy differs from `POLICY`, such as
            `{"connect-src": "'self'"}`.
    """
    data = {
        "title": title,
        "site": site,
        "layer": layer,
        "head": head,
        "side": side,
        "sites": {name: _describe_site(row) for name, row in SITES.items()},
        "sides": list(LABEL_SIDES),
        **measure_labels(),
        "stages": stages,
        "runs": [run.data() for run in runs],
    }
    return Template(_read("page.html")).substitute(
        title=_escape(title),
        origin=origin,
        policy=content_policy(policy or {}),
        style="\n".join([_read("style.css"), *styles]),
        script="\n".join([*page_scripts(), *scripts]),
        html=html,
        data=embed_json(data),
        weights=encode_weights([array for run in runs for array in run.weights]),
    )


def write_viewer(path: Path, title: str, runs: Sequence[ViewerRun], **shown: Any) -> None:
    """Writes the page, whole or not at all."""
    write_output(path, viewer_page(title, runs, **shown).encode())


def page_scripts() -> list[str]:
    """Returns the text of the page's own scripts, in their order."""
    return [_read(f"scripts/{name}.js").replace('"use strict";\n', "") for name in SCRIPTS]


def content_policy(changes: Mapping[str, str]) -> str:
    """Returns the content security policy whose directives are those of `POLICY` but for these."""
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


def _describe_site(site: Site) -> dict[str, Any]:
    return {"title": site.title, "axes": site.axes, "aligns": site.aligns, "weighedAt": site.weighed_at}


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
