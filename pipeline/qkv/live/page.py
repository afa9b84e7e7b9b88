"""The live page: the viewer's page, without sentences yet, the panel through which they are asked for, and sentences
with which a person can begin."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from ..config.choices.inspection import SITES
from ..errors import InputError
from ..inspection.experiments.intervention import CHANGES
from ..inspection.viewer.data import ViewerRun
from ..inspection.viewer.page import Extension, embed_json, read_scripts, viewer_page
from ..run.trained_run import TrainedRun
from ..text.corpora.formats import read_corpus

PANEL = Path(__file__).parent / "panel"
SHOWN_SITES = tuple(name for name, site in SITES.items() if site.weighed_at.startswith(name))
"""The sites of an answer: the weights themselves, not what is computed from them, which takes longer."""

SERVER_BACKEND = "(facts) => new ServerBackend(facts)"
SERVED = {"connect-src": "'self'"}


def live_page(
    title: str,
    facts: Mapping[str, Any],
    *,
    backend: str = SERVER_BACKEND,
    scripts: str = "",
    html: str = "",
    policy: Mapping[str, str] = SERVED,
) -> str:
    """Returns the page's HTML.

    Args:
        title: its heading.
        facts: JSON-ready, given to the backend: at least `runs`, see panel/backend.js.
        backend: a function in JavaScript that takes the facts and returns the backend, or a promise of it; by default
            a server answers.
        scripts: the text of scripts that this function needs.
        html: elements that it needs, which stand below the panel.
        policy: see `Extension`; by default the page may ask its own server.
    """
    shown = ("name", "sites", "units", "facts", "types")
    facts_element = f'<script type="application/json" id="live">{embed_json(facts)}</script>'
    return viewer_page(
        title,
        [ViewerRun(**{key: run[key] for key in shown if key in run}) for run in facts["runs"]],
        extension=Extension(
            scripts=[read_scripts(PANEL), scripts, f"startPanel({backend});"],
            style=(PANEL / "panel.css").read_text(encoding="utf-8"),
            html=(PANEL / "panel.html").read_text(encoding="utf-8") + facts_element + html,
            policy=policy,
        ),
    )


def describe_changes(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Returns the panel's label and explanation of each of these `inspection.experiments.intervention.CHANGES`."""
    return {name: {"label": CHANGES[name].label, "meaning": CHANGES[name].meaning} for name in names}


EXAMPLES = 12
LONGEST_EXAMPLE = 15  # words


def find_examples(run: TrainedRun) -> list[str]:
    """Returns sentences that a run can be asked: its probes, and short ones of its validation text if that is there."""
    found = [probe.source for probe in run.config.inspection.probes or ()]
    validation = run.config.data.validation
    with suppress(InputError):  # the text was moved
        texts = read_corpus(validation).source if validation else ()
        short = (text for text in texts if 0 < len(text.split()) <= LONGEST_EXAMPLE)
        found += islice(short, max(0, EXAMPLES - len(found)))
    return list(dict.fromkeys(found))
