"""The HTML of the live page: the viewer's page without sentences, and the panel in which the user types sentences.

`find_examples` proposes sentences to begin with.
"""

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

PANEL_FOLDER = Path(__file__).parent / "panel"
SHOWN_SITES = tuple(name for name, site in SITES.items() if site.weighed_at.startswith(name))
"""The sites of an answer: attention weights, but no values that are computed from them, which takes longer."""

SERVER_BACKEND = "(facts) => new ServerBackend(facts)"
"""The JavaScript function that makes the backend of a served page."""
SERVED = {"connect-src": "'self'"}
"""The content security policy of a served page: it may send requests to its server only."""


def live_page(
    title: str,
    facts: Mapping[str, Any],
    *,
    backend: str = SERVER_BACKEND,
    scripts: str = "",
    html: str = "",
    policy: Mapping[str, str] = SERVED,
) -> str:
    """Returns the HTML of the page.

    Args:
        title: the heading of the page.
        facts: the argument of `backend`, JSON-ready; at least `runs`, see panel/backend.js.
        backend: a JavaScript function that takes the facts and returns the backend, or a promise of it; by default the
            backend that sends requests to the server.
        scripts: the text of scripts that `backend` needs.
        html: the elements that `backend` needs. They are placed below the panel.
        policy: the content security policy, see `inspection.viewer.page.Extension`; by default `SERVED`.
    """
    viewer_keys = ("name", "sites", "units", "facts", "types")
    runs = [ViewerRun(**{key: run[key] for key in viewer_keys if key in run}) for run in facts["runs"]]
    facts_element = f'<script type="application/json" id="live">{embed_json(facts)}</script>'
    return viewer_page(
        title,
        runs,
        extension=Extension(
            scripts=[read_scripts(PANEL_FOLDER), scripts, f"startPanel({backend});"],
            style=(PANEL_FOLDER / "panel.css").read_text(encoding="utf-8"),
            html=(PANEL_FOLDER / "panel.html").read_text(encoding="utf-8") + facts_element + html,
            policy=policy,
        ),
    )


def describe_changes(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Returns the labels and explanations of changes of heads, for the panel.

    Args:
        names: keys of `inspection.experiments.intervention.CHANGES`.

    Returns:
        name -> `{"label": ..., "meaning": ...}`.
    """
    return {name: {"label": CHANGES[name].label, "meaning": CHANGES[name].meaning} for name in names}


EXAMPLES = 12
"""The number of example sentences, unless there are more probes."""
LONGEST_EXAMPLE = 15
"""The maximum number of words in an example from the validation text."""


def find_examples(run: TrainedRun) -> list[str]:
    """Returns example sentences for a run: its probes, and short sentences of its validation text.

    If the validation text is missing, for example in a moved run, only the probes are returned.
    """
    examples = [probe.source for probe in run.config.inspection.probes or ()]
    validation = run.config.data.validation
    with suppress(InputError):  # the text is missing
        texts = read_corpus(validation).source if validation else ()
        short = (text for text in texts if 0 < len(text.split()) <= LONGEST_EXAMPLE)
        examples += islice(short, max(0, EXAMPLES - len(examples)))
    return list(dict.fromkeys(examples))
