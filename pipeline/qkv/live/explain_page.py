"""The explain page: what queries, keys and values are, in one HTML file with a run's model inside.

The page translates the reader's own sentence offline and shows every number on the way, see `explained/page.js`. It
holds the engine and the model of the `model_page`, and the words of words.csv.
"""

from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ..files.atomic import write_output
from ..files.written import refuse_input
from ..inspection.colours import css_variables
from ..inspection.viewer.page import ASSETS, content_policy, embed_json, read_scripts, read_words, words_element
from ..run.trained_run import TrainedRun
from .explained_numbers import measure_for_page
from .model_page import ENGINE, pack_run
from .page import find_examples

EXPLAINED = Path(__file__).parent / "explained"
LEAST_WORDS = 5
"""The smallest number of words in the sentence with which the page opens, if there is such an example."""
FIRST_SENTENCES = ["the boy eats an apple .", "the black cat drinks milk ."]
"""Sentences of the documentation. The page opens with the first one whose words all are in the run's vocabulary."""


def write_explain_page(run: TrainedRun, path: Path) -> None:
    """Writes the explain page of a run. If it fails, an existing file is unchanged.

    Args:
        run: the run.
        path: the file.

    Raises:
        InputError: the file belongs to the run or cannot be written, or `explain_page` raises it.
    """
    refuse_input(path, run.directory.inputs, "--page")
    write_output(path, explain_page(run).encode())


def explain_page(run: TrainedRun) -> str:
    """Returns the HTML of the explain page of a run.

    Raises:
        InputError: the page does not support the run's model, see `live.model_page.pack_run`.
    """
    model_text = pack_run(run)  # first, because it refuses runs that the page does not support
    scripts = [read_scripts(folder) for folder in (ASSETS / "scripts", ENGINE, EXPLAINED)]
    words = read_words()
    return Template((EXPLAINED / "explained.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{words['explain.heading'][0]} {run.config.run.name}", quote=False),
        policy=content_policy({}),
        style="\n".join(
            [css_variables(), *(file.read_text(encoding="utf-8") for file in sorted(EXPLAINED.glob("*.css")))]
        ),
        # It is shown until the scripts run, so it is in all languages.
        notice=escape(" · ".join(words["explain.notice"]), quote=False),
        words=words_element(["viewer", "live", "explain"]),
        facts=embed_json(page_facts(run)),
        model=model_text,
        script="\n".join([*scripts, "startExplained(openModel);"]),
    )


def page_facts(run: TrainedRun) -> dict[str, Any]:
    """Returns what the page says of a run, JSON-ready.

    - name, parameters: the name of the run, and the number of its parameters.
    - languages: the codes of the source and the target language.
    - layers, heads: the number of layers of each site, and of heads of a layer.
    - examples: sentences to choose from. The page opens with the first one.
    - measured: see `explained_numbers.measure_for_page`.
    """
    settings: Any = run.config.model
    examples = order_examples(run)
    return {
        "name": run.config.run.name,
        "parameters": run.model.count_params(),
        "languages": {"source": run.config.data.source_language, "target": run.config.data.target_language},
        "layers": {
            "cross": settings.decoder_layers,
            "encoder_self": settings.encoder_layers,
            "decoder_self": settings.decoder_layers,
        },
        "heads": settings.num_heads,
        "examples": examples,
        "measured": measure_for_page(run, examples[0]),
    }


def order_examples(run: TrainedRun) -> list[str]:
    """Returns the example sentences: those of `FIRST_SENTENCES` that the run knows, then its own from short to long.

    Sentences of fewer than `LEAST_WORDS` words are the last ones.
    """
    own = sorted(find_examples(run), key=lambda text: (len(text.split()) < LEAST_WORDS, len(text.split())))
    encoded = run.tokenizer.encode(FIRST_SENTENCES)
    known = [text for text, ids in zip(FIRST_SENTENCES, encoded, strict=True) if len(ids) == len(text.split())]
    return list(dict.fromkeys([*known, *own])) or FIRST_SENTENCES[:1]
