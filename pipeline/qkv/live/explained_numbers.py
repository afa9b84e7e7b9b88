"""The numbers of the explain page that the page cannot compute by itself, because they need the test set or float64.

The page computes all other numbers from the model inside it.
"""

import csv
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..evaluation.request import TokenisedSet, read_configured_set
from ..inspection.experiments.activations import read_ids
from ..inspection.experiments.changed_mechanism import measure_changes
from ..inspection.experiments.logit_parts import split_logit
from ..inspection.experiments.pronouns import PronounCase, find_pointing_heads, measure_effect, read_cases
from ..inspection.experiments.score_parts import shared_float64
from ..run.trained_run import TrainedRun
from ..text.tokens.special_tokens import UNK

log = logging.getLogger(__name__)

PRONOUN_TABLE = Path(__file__).parent / "explained" / "pronouns.tsv"
"""English sentences with "it" and their French translations, see `inspection.experiments.pronouns.read_cases`. The
column `use` is `count` for the sentences of data/demo/pronouns.tsv, in which heads are searched, `example` for a
sentence that is only shown, and `subject` for one in which the pronoun stands for the subject, as never in the demo's
corpus."""
PRONOUN_LANGUAGES = ("en", "fr")


def measure_for_page(run: TrainedRun, sentence: str) -> dict[str, Any]:
    """Measures what the explain page says of a run, JSON-ready. Values that cannot be measured are left out.

    Args:
        run: the run.
        sentence: the source sentence of the questions.

    Returns:
        These values by name:

        - changes, tokens: see `measure_accuracy`.
        - example, logit: see `explain_example`.
        - pronouns, pronounMeans: see `read_pronouns` and `measure_pronouns`.
    """
    cases = read_pronouns(run)
    means = measure_pronouns(run, [case for case, row in cases if row["use"] == "count"])
    return {
        **measure_accuracy(run),
        **explain_example(run, sentence),
        "pronouns": [_describe_case(run, case, row) for case, row in cases],
        **({"pronounMeans": means} if means else {}),
    }


def measure_accuracy(run: TrainedRun) -> dict[str, Any]:
    """Measures the accuracy of next tokens of the test set under changes of the cross-attention.

    Returns:
        `changes`, the share of right tokens by the name of the change (see
        `inspection.experiments.changed_mechanism.measure_changes`), and `tokens`, the number of tokens. The dict is
        empty if the run has no test set, its files are missing, or its attention cannot be changed.
    """
    try:
        text = TokenisedSet.of(read_configured_set(run, "explain", "test"), run.tokenizer)
        log.info(
            "explain page: measuring changes of the cross-attention on %d pairs of the test set", len(text.data.source)
        )
        table = measure_changes(run.model, text.batch_references(run.config.model.max_positions), draws=0)
    except InputError:
        return {}
    return {
        "changes": dict(zip(table["change"], table["right"].astype(float), strict=True)),
        "tokens": int(table["tokens"][0]),
    }


def explain_example(run: TrainedRun, sentence: str) -> dict[str, Any]:
    """Splits the logit of the last word in the run's translation of a sentence.

    Returns:
        - example: `text` (the sentence), `target` (the ids of the translation, up to EOS), `row` (the position of the
          explained token) and `token` (that token).
        - logit: `total` (the logit of the token minus the mean logit of all tokens), `cross` (the summand of
          cross-attention), `tokens` (the source tokens) and `sources` (the summand of each).

        The dict has no `logit` if it cannot be split, and is empty if the translation has no token.
    """
    pair, predicted = read_ids(run.translator, sentence)
    tokens = run.tokenizer.of_target.pieces(predicted)
    words = [position for position, token in enumerate(tokens[:-1]) if any(map(str.isalpha, token))]
    if not words:
        return {}
    row = words[-1]
    example = {"text": sentence, "target": predicted, "row": row, "token": tokens[row]}
    try:
        parts = split_logit(shared_float64(run.model, run.graphs), pair, row, predicted[row])
    except InputError:
        return {"example": example}
    of_sources = parts[parts["source"] >= 0].groupby("source")["difference"].sum()
    logit = {
        "total": float(parts["difference"].sum()),
        "cross": float(of_sources.sum()),
        "tokens": run.tokenizer.pieces(pair[0]),
        "sources": [float(of_sources[position]) for position in range(len(pair[0]))],
    }
    return {"example": example, "logit": logit}


def read_pronouns(run: TrainedRun) -> list[tuple[PronounCase, dict[str, str]]]:
    """Returns the sentences of `PRONOUN_TABLE` with their rows; none if the run's tokenizer does not know all words."""
    if (run.config.data.source_language, run.config.data.target_language) != PRONOUN_LANGUAGES:
        return []
    try:
        cases = read_cases(PRONOUN_TABLE, run.tokenizer)
    except InputError:  # the tokenizer divides the words in another way
        return []
    if any(UNK in (*case.source_ids, *case.target_ids, case.right, case.wrong) for case in cases):
        return []
    with PRONOUN_TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return list(zip(cases, rows, strict=True))


def measure_pronouns(run: TrainedRun, cases: Sequence[PronounCase]) -> dict[str, Any] | None:
    """Measures the mean probability of the right translation of the pronoun, against the wrong one.

    Returns:
        `all`, `without` and `others`: with all heads, without the encoder heads that point at the noun in more than
        half of the sentences, and without as many others, the mean over `sets` sets (None if there are no others). The
        result is None if there are no sentences or no such heads.
    """
    if not cases:
        return None
    effect = measure_effect(run.model, cases, find_pointing_heads(run.model, cases))
    if effect is None:
        return None
    return {
        "all": effect.whole,
        "without": effect.without,
        "others": float(np.mean(effect.controls)) if effect.controls else None,
        "sets": len(effect.controls),
    }


def _describe_case(run: TrainedRun, case: PronounCase, row: Mapping[str, str]) -> dict[str, Any]:
    """Returns a sentence for the page.

    - source, pronoun, nounText, rightText, wrongText, use: texts of the table.
    - ids, tokens: of the source, up to EOS.
    - prefix: the ids of the translation from BOS to the token before the pronoun.
    - position, noun: the position of the pronoun; the first position of the noun and the position after it.
    - right, wrong: the ids of the first tokens of the translations of the pronoun.
    """
    return {
        "source": row["source"],
        "pronoun": row["pronoun"],
        "nounText": row["noun"],
        "rightText": row["right"],
        "wrongText": row["wrong"],
        "use": row["use"],
        "ids": list(case.source_ids),
        "tokens": run.tokenizer.pieces(case.source_ids),
        "prefix": list(case.target_ids),
        "position": case.pronoun,
        "noun": [case.noun.start, case.noun.stop],
        "right": case.right,
        "wrong": case.wrong,
    }
