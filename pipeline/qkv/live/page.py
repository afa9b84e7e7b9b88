"""The HTML of the live page: the viewer's page without sentences, and the panel in which the user types sentences.

`find_examples` proposes sentences to begin with, `find_split_words` says which words the model knows, and
`profile_heads` tells heads apart.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from ..config.choices.inspection import SITES
from ..errors import InputError
from ..evaluation.tables import read_result_csv
from ..files.run_directory import EvaluationDirectory
from ..inspection.head_types import read_head_types
from ..inspection.viewer.data import ViewerRun
from ..inspection.viewer.page import Extension, embed_json, read_scripts, viewer_page
from ..run.trained_run import TrainedRun
from ..text.corpora.formats import read_corpus
from ..text.tokens.words import WordUnits

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
            words=["live"],
        ),
    )


EXAMPLES = 12
"""The number of example sentences, unless there are more probes."""
LONGEST_EXAMPLE = 15
"""The maximum number of words in an example from the validation text."""
MOST_EXAMPLE_CHARACTERS = 100
"""The maximum number of its characters, for text without spaces between words."""


def find_pairs(run: TrainedRun) -> list[tuple[str, str]]:
    """Returns example pairs of a run, each a source and its reference or "": its probes, and pairs for validation.

    If the validation text is missing, for example in a moved run, only the probes are returned. Pairs for validation
    whose source has many words or characters are left out.
    """
    probes = run.config.inspection.probes or ()
    pairs = [(probe.source, probe.reference or "") for probe in probes]
    validation = run.config.data.validation
    with suppress(InputError):  # the text is missing
        corpus = read_corpus(validation) if validation else None
        rows = zip(corpus.source, corpus.target, strict=True) if corpus else ()
        few_words = ((source, target) for source, target in rows if 0 < len(source.split()) <= LONGEST_EXAMPLE)
        short = (pair for pair in few_words if len(pair[0]) <= MOST_EXAMPLE_CHARACTERS)
        pairs += islice(short, max(0, EXAMPLES - len(pairs)))
    return pairs


def find_units(run: TrainedRun) -> WordUnits:
    """Returns the units of words. If the config does not fix them, they are those that suit the run's examples."""
    pairs = find_pairs(run)
    return run.reader.segmenter.units([source for source, _ in pairs], [target for _, target in pairs])


def find_examples(run: TrainedRun) -> list[str]:
    """Returns example sentences for a run, see `find_pairs`."""
    return list(dict.fromkeys(source for source, _ in find_pairs(run)))


MOST_PAIRS_READ = 200_000
"""The largest number of training pairs that `find_split_words` reads, which takes a second or two."""


def find_split_words(run: TrainedRun) -> list[str] | None:
    """Returns the words of the training sources that the tokenizer splits into several tokens.

    A word that is one token has been in the training text, since the tokenizer was trained on it. So these words and
    the tokenizer tell whether the model has seen a word.

    Returns:
        The words, sorted; None if the tokenizer or the training text does not tell: the text is missing or has more
        than `MOST_PAIRS_READ` pairs, the tokenizer was trained on other text, or sources have no spaces between words.
        Without spaces the "words" would be whole sentences of the training text.
    """
    train = run.config.data.train
    if train is None or run.config.tokenizer.kind == "given" or find_units(run).source != "spaces":
        return None
    try:
        sources = read_corpus(train).source
    except InputError:  # the text is missing
        return None
    if len(sources) > MOST_PAIRS_READ:
        return None
    words = sorted({word for text in sources for word in text.split()})
    return [word for word, ids in zip(words, run.tokenizer.encode(words), strict=True) if len(ids) > 1]


def profile_heads(evaluation: EvaluationDirectory) -> dict[str, dict[str, Any]]:
    """Returns what an evaluation knows of each head, from its tables; a table that is missing is left out.

    Returns:
        For each head, by `SITE/LAYER/HEAD`, JSON-ready:

        - `type`, a key of `config.choices.inspection.HEAD_TYPES`; `share`, the share of the weight on what the type
          names; `rank`, from 1, the head's place by this share among `of` heads of the type at the site
        - `right`: the share of its links, from each target word to the source word of most weight, that are gold links
        - `largest`: the mean of the largest weight of a row
        - `lost`: the share of the next tokens that are others without the head

    Raises:
        InputError: a table is damaged.
    """
    profiles: dict[str, dict[str, Any]] = {}

    def place(row: Any, **values: float | str) -> None:
        profiles.setdefault(f"{row.site}/{row.layer}/{row.head}", {}).update(values)

    types = read_head_types(evaluation.head_types)
    types = types[types["named"].astype(bool)].sort_values("share", ascending=False, kind="stable")
    for _, alike in types.groupby(["site", "type"], sort=False):
        heads: list[Any] = list(alike.itertuples())
        for rank, row in enumerate(heads, 1):
            place(row, type=row.type, share=round(row.share, 4), rank=rank, of=len(heads))
    where = {"site": str, "layer": int, "head": str}
    for row in _read_table(evaluation.head_alignment, where | {"precision": float}, side="output", linked="target"):
        if row.head != "mean":
            place(row, right=round(row.precision, 4))
    for row in _read_table(evaluation.heads, where | {"confidence": float}):
        place(row, largest=round(row.confidence, 4))
    for row in _read_table(evaluation.perturbation, where | {"argmax_changed": float}, change="zeroed"):
        place(row, lost=round(row.argmax_changed, 4))
    return profiles


def _read_table(path: Path, columns: Mapping[str, type], **wanted: str) -> list[Any]:
    """Returns the rows of a CSV file whose columns have the `wanted` values, without rows that lack a number.

    Args:
        path: the file. Without it there are no rows.
        columns: the columns with their types. A table of cross-attention alone need not have the column `site`.
        wanted: the values of further columns.
    """
    if not path.is_file():
        return []
    columns = {**columns, **dict.fromkeys(wanted, str)}
    table = pd.read_csv(path, nrows=0)
    table = read_result_csv(path, {name: columns[name] for name in columns if name != "site" or name in table})
    table = table.assign(site=table.get("site", "cross"))
    for name, value in wanted.items():
        table = table[table[name] == value]
    return list(table[list(columns)].dropna().itertuples())
