"""Why a head looks where it looks, as the live page shows it."""

from typing import Any

import numpy as np

from ..config.names.model import ATTENTION_SITES
from ..errors import InputError
from ..inspection.split_score import layer_name, split_score
from ..run.trained_run import TrainedRun
from ..text.lines.line import as_line
from ..text.tokens.special_tokens import BOS, EOS
from .question import Question, ScoreQuestion

DIGITS = 6  # after the point


def typed_line(run: TrainedRun, question: Question | ScoreQuestion) -> str:
    """Returns the sentence of a question as the run reads it; its lines are one sentence."""
    text = as_line(" ".join(question.text.split("\n")), "text")
    return run.normalizer(text) if run.normalizer else text


def explain_row(run: TrainedRun, question: ScoreQuestion) -> dict[str, Any]:
    """Splits the scores of one row into what query and key take from the model below.

    Args:
        run: a run that translates.
        question: of a target whose tokens the run has.

    Returns:
        JSON-ready: the names of the parts, the tokens of the keys, and for each key its score and how much each pair of
        parts differs from its mean over the row, `(keys, query parts, key parts)`.

    Raises:
        InputError: there is no such site, layer, head or row, or its scores cannot be split.
    """
    if question.site not in ATTENTION_SITES:
        raise InputError(f"site: expected {', '.join(ATTENTION_SITES)}, found {question.site!r:.60}")
    source = run.tokenizer.encode([typed_line(run, question)])[0][: run.config.model.max_positions - 1]
    target = question.target or [EOS]
    layer = layer_name(question.site, question.layer)
    pair = [*source, EOS], [BOS, *target[:-1]]
    parts = split_score(run.float64_model, pair, layer, question.head, question.query).merged()
    return {
        "queryParts": parts.query_parts,
        "keyParts": parts.key_parts,
        "keys": run.tokenizer.pieces([int(key) for key in parts.keys]),
        "scores": parts.scores.round(DIGITS).tolist(),
        "differences": np.moveaxis(parts.differences, -1, 0).round(DIGITS).tolist(),
    }
