"""The live page: the viewer's page, without sentences yet, the panel through which they are asked for, and sentences
with which a person can begin."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config.names.inspection import SITES
from ..errors import InputError
from ..inspection.experiments.intervention import CHANGES
from ..inspection.viewer.data import ViewerRun
from ..inspection.viewer.page import embed_json, viewer_page
from ..run.trained_run import TrainedRun
from ..text.corpora.formats import read_corpus

ASSETS = Path(__file__).parent
SCRIPTS = ("backend", "edits", "comparison", "tokens", "row", "switches", "case", "link", "why", "view")
"""The panel's parts, `scripts/panel_*.js`, in the order in which the page holds them; the panel itself follows."""


SHOWN_SITES = tuple(name for name, site in SITES.items() if site.weighed_at.startswith(name))
"""The sites of an answer: the weights themselves, not what is computed from them, which takes longer."""


SERVER_BACKEND = "const makeBackend = (facts) => new ServerBackend(facts);"
SERVED = {"connect-src": "'self'"}


def live_page(
    title: str,
    facts: Mapping[str, Any],
    *,
    backend: Sequence[str] = (SERVER_BACKEND,),
    html: str = "",
    policy: Mapping[str, str] = SERVED,
    origin: str = "",
) -> str:
    """Returns the page's HTML.

    Args:
        title: its heading.
        facts: JSON-ready, given to the backend: at least `runs`, see scripts/panel_backend.js.
        backend: the text of scripts that define `makeBackend(facts)`; by default a server answers.
        html: elements that these scripts need, which stand below the panel.
        policy: further directives of the content security policy; by default the page may ask its own server.
        origin: a mark of what it shows, see `inspection.viewer.page_file`.
    """
    runs = [
        ViewerRun(
            run["name"],
            sites=run["sites"],
            units=run["units"],
            facts=run.get("facts", []),
            types=run.get("types", {}),
        )
        for run in facts["runs"]
    ]
    return viewer_page(
        title,
        runs,
        scripts=[*panel_scripts(), *backend, _read("scripts/panel_start.js")],
        styles=[_read("panel.css")],
        html=f'{_read("panel.html")}<script type="application/json" id="live">{embed_json(facts)}</script>{html}',
        policy=policy,
        origin=origin,
    )


def describe_changes(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Returns how the panel names and explains those of `inspection.intervention.CHANGES`."""
    return {name: {"label": CHANGES[name].label, "meaning": CHANGES[name].meaning} for name in names}


def panel_scripts() -> list[str]:
    """Returns the text of the panel's scripts, in their order."""
    return read_scripts(*(f"panel_{name}" for name in SCRIPTS), "panel", "panel_tour")


def read_scripts(*names: str) -> list[str]:
    """Returns the text of scripts of this package."""
    return [_read(f"scripts/{name}.js") for name in names]


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8").replace('"use strict";\n', "")


EXAMPLES = 12
LONGEST_EXAMPLE = 15  # words


def find_examples(run: TrainedRun) -> list[str]:
    """Returns sentences that a run can be asked: its probes, and short ones of its validation text if that is there."""
    found = [probe.source for probe in run.config.inspection.probes or ()]
    try:
        for source in read_corpus(run.config.data.validation).source if run.config.data.validation else ():
            if len(found) == EXAMPLES:
                break
            if 0 < len(source.split()) <= LONGEST_EXAMPLE:
                found.append(source)
    except InputError:
        pass  # the text was moved
    return list(dict.fromkeys(found))
