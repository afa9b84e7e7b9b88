"""The viewer's page: one HTML file with all sentences, weights and scripts. It needs no network, only a browser.

The page is put together from the HTML, CSS and JavaScript files of this folder. Weights are stored as 16-bit integers,
multiples of 1 / 65,535, exact to 0.000008. A digest in the file identifies the evaluations that the page shows.
"""

import base64
import csv
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

from ...config.choices.inspection import LABEL_SIDES, SITES
from ...errors import InputError
from ...files.atomic import write_output
from ...files.paths import as_path, check_file_to_write
from ..colours import HEAD_COLOURS, css_variables
from .data import ViewerRun, measure_places

ASSETS = Path(__file__).parent

START_SCRIPT = 'const viewer = new Viewer(JSON.parse(document.getElementById("data").textContent));'
"""The script that shows the page; it runs after the scripts that define classes and functions."""

POLICY = {
    "default-src": "'none'",
    "style-src": "'unsafe-inline'",
    "script-src": "'unsafe-inline'",
    "img-src": "data:",  # for PNG files that the page makes
}
"""The content security policy of the page, which allows it to load and send nothing."""


class Extension(NamedTuple):
    """Parts that turn the viewer's page into another page.

    Attributes:
        scripts: the texts of scripts that extend the page, see scripts/viewer.js. They run after the page's scripts.
        style: the text of a style sheet.
        html: HTML for the element `#extension`, above the texts of the sentence.
        policy: directives of the content security policy that are added to `POLICY` or replace directives of it, such
            as `{"connect-src": "'self'"}`.
        words: the groups of words that the scripts need besides those of the viewer, see `words_element`.
    """

    scripts: Sequence[str] = ()
    style: str = ""
    html: str = ""
    policy: Mapping[str, str] = {}
    words: Sequence[str] = ()


def viewer_page(
    title: str,
    runs: Sequence[ViewerRun],
    *,
    opens_at: Mapping[str, Any] | None = None,
    origin: str = "",
    stages: bool = False,
    extension: Extension | None = None,
) -> str:
    """Returns the HTML of the page.

    Args:
        title: the heading.
        runs: the runs; several runs have the same sentences and are shown side by side. Runs may have no sentences:
            scripts can add them, see scripts/store.js.
        opens_at: the attention that is shown first: any of `site`, `layer`, `head` (an index or `mean`) and `side`
            (`output` or `input`). Without a head, the page chooses a head, see scripts/heads.js.
        origin: a digest of the evaluations shown, see `files.written.digest_of_folders`.
        stages: if True, the runs are stages of one training, and a slider chooses one instead of showing all. The
            heading says so after `title`.
        extension: parts to add to the page; None if there are none.
    """
    extension = extension or Extension()
    data = {
        "title": title,
        "site": "cross",
        "layer": None,
        "head": None,
        "side": "output",
        **(opens_at or {}),
        "sites": {
            name: {"axes": site.axes, "aligns": site.aligns, "weighedAt": site.weighed_at}
            for name, site in SITES.items()
        },
        "sides": list(LABEL_SIDES),
        **measure_places(),
        "stages": stages,
        "runs": [run.data() for run in runs],
    }
    colours = f"const HEAD_COLOURS = {len(HEAD_COLOURS['light'])};"
    return Template(_read("page.html")).substitute(
        title=escape(title, quote=False),
        origin=origin,
        policy=content_policy(extension.policy),
        style="\n".join([css_variables() + _read("style.css"), extension.style]),
        script="\n".join([colours, read_scripts(ASSETS / "scripts"), START_SCRIPT, *extension.scripts]),
        html=extension.html,
        words=words_element(["viewer", *extension.words]),
        data=embed_json(data),
        weights=encode_weights([array for run in runs for array in run.weights]),
    )


def read_scripts(folder: Path) -> str:
    """Returns the joined text of a folder's scripts.

    The scripts only define functions, classes and constants, so their order does not matter.
    """
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.js")))
    return "\n".join(text.replace('"use strict";\n', "") for text in texts)


def read_words() -> dict[str, list[str]]:
    """Returns the words of all pages: key -> [English, French, German]."""
    with (ASSETS / "words.csv").open(encoding="utf-8", newline="") as file:
        return {key: words for key, *words in list(csv.reader(file))[1:]}


def words_element(groups: Sequence[str]) -> str:
    """Returns the element with words, see `read_words`, which scripts/words.js reads.

    A page that is not made by `viewer_page` needs the element before its scripts.

    Args:
        groups: the first parts of the keys that the page needs, such as `viewer`.
    """
    words = {key: words for key, words in read_words().items() if key.split(".")[0] in groups}
    return f'<script type="application/json" id="words">{embed_json(words)}</script>'


def content_policy(changes: Mapping[str, str]) -> str:
    """Returns the text of the content security policy: `POLICY` with the directives `changes` replaced or added."""
    return "; ".join(f"{name} {value}" for name, value in {**POLICY, **changes}.items())


def embed_json(value: Any) -> str:
    """Returns the JSON text of a value, safe for a script element."""
    # Only "<" can end the element. In JSON, it occurs only in strings, where it can be escaped.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def encode_weights(arrays: Sequence[np.ndarray]) -> str:
    """Encodes uint16 arrays for the page: joined as `byte_planes`, compressed by gzip, as base64 text."""
    return base64.b64encode(gzip.compress(byte_planes(arrays), compresslevel=6, mtime=0)).decode()


def byte_planes(arrays: Sequence[np.ndarray]) -> bytes:
    """Returns the high bytes of all 16-bit numbers, followed by the low bytes; separate bytes compress better."""
    numbers = np.concatenate([array.view("<u2").ravel() for array in arrays]) if arrays else np.zeros(0, "<u2")
    return (numbers >> 8).astype("uint8").tobytes() + (numbers & 255).astype("uint8").tobytes()


def _read(name: str) -> str:
    """Returns the text of a file of this folder."""
    return (ASSETS / name).read_text(encoding="utf-8")


def name_page(evaluations: Sequence[tuple[str, str]]) -> tuple[list[str], str]:
    """Chooses names for the evaluations on a page, and its title.

    Args:
        evaluations: (run, set) of each evaluation; the set is "" for an archive without a run.

    Returns:
        `(names, title)`. The names are runs if the set is the same, sets if the run is the same, otherwise `run, set`.
    """
    runs, sets = zip(*evaluations, strict=True)
    if len(set(sets)) == 1:
        return list(runs), ", ".join(filter(None, (" + ".join(runs), sets[0])))
    if len(set(runs)) == 1:
        return list(sets), f"{runs[0]}, {' + '.join(sets)}"
    names = [", ".join(filter(None, evaluation)) for evaluation in evaluations]
    return names, " + ".join(names)


def file_name(title: str) -> str:
    """Returns the file name for a page with this title: `demo_and_narrow_test.html` for `demo + narrow, test`."""
    return re.sub(r"[^\w.-]+", "_", title.replace(" + ", " and "))[:100] + ".html"


WITHOUT_LIST_STYLE = "nav { display: none; } #layout { grid-template-columns: minmax(0, 1fr); }"


@dataclass(frozen=True)
class InlinePage:
    """A page in the output of a notebook's cell. Its frame has no access to the notebook or a network.

    Args:
        html: the HTML of the page.
        height: the height of the frame in pixels.
    """

    html: str
    height: int

    def __repr__(self) -> str:
        """Returns the size of the page, which a notebook file grows by."""
        return f"<InlinePage: {len(self.html.encode()) / 1000:.0f} kB of HTML, {self.height} pixels high>"

    def _repr_html_(self) -> str:
        """Returns the frame as HTML, for IPython."""
        frame = f'width="100%" height="{self.height}" style="border: 0" sandbox="allow-scripts allow-downloads"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame} title="attention"></iframe>'

    def save(self, path: str | Path) -> None:
        """Writes the page to an HTML file, which opens in a browser without a network. An existing file is replaced.

        Args:
            path: a file whose name ends in `.html`.

        Raises:
            InputError: the file has another suffix, or cannot be written.
        """
        file = as_path(path, "path", "a file, such as 'attention.html'")
        if file.suffix != ".html":
            raise InputError(f"path: expected a name that ends in .html, found {str(file)!r:.60}")
        check_file_to_write(file)
        write_output(file, self.html.encode())


def inline_page(title: str, run: ViewerRun, height: int) -> InlinePage:
    """Returns the page of a run for a notebook's cell. The page of one sentence has no list of sentences.

    Args:
        title: the heading of the page.
        run: the run.
        height: the height of the frame in pixels.
    """
    extension = Extension(style=WITHOUT_LIST_STYLE if len(run.sentences) == 1 else "")
    return InlinePage(viewer_page(title, [run], extension=extension), height)
