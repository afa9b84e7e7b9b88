"""The table `translations.tsv`, with a row for each sentence of an evaluation: made, written and read back."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import sacrebleu

from ..errors import InputError
from ..files.atomic import write_atomically
from ..metrics.bleu import make_bleu

if TYPE_CHECKING:
    from ..decoding.translator import Translation

TEXTS = ("source", "reference", "translation")


def translations_table(
    source: Sequence[str],
    reference: Sequence[str] | None,
    translations: Sequence["Translation"],
    *,
    bleu_tokenizer: str,
) -> pd.DataFrame:
    """Makes the table: a row of texts, scores and lengths for each sentence.

    Args:
        source: the sentences.
        reference: their given translations; None for a table without sentence scores.
        translations: the model's.
        bleu_tokenizer: how BLEU splits text into words, see `make_bleu`.
    """
    table = pd.DataFrame(
        {
            "id": range(len(source)),
            "source": source,
            "translation": [translation.text for translation in translations],
            "log_probability": [sum(translation.log_probabilities) for translation in translations],
            "score": [translation.score for translation in translations],
            "tokens": [len(translation.ids) for translation in translations],
            "truncated": [translation.truncated for translation in translations],
        }
    )
    if reference is not None:
        table.insert(2, "reference", list(reference))
        bleu, chrf = make_bleu(bleu_tokenizer, effective_order=True), sacrebleu.CHRF()
        pairs = list(zip(table["translation"], reference, strict=True))
        table["sentence_bleu"] = [bleu.sentence_score(text, [one]).score for text, one in pairs]
        table["sentence_chrf"] = [chrf.sentence_score(text, [one]).score for text, one in pairs]
    return table


def write_translations(table: pd.DataFrame, path: Path) -> None:
    """Writes the table whole or not at all. Quotation marks are plain text, and tabs in a field become spaces."""
    table = table.copy()
    for name in TEXTS:
        if name in table:
            table[name] = table[name].str.replace(r"[\t\r\n]", " ", regex=True)
    text = table.to_csv(sep="\t", index=False, lineterminator="\n", quoting=csv.QUOTE_NONE, float_format="%.4f")
    write_atomically(path, text.encode())


def read_translations(path: Path) -> pd.DataFrame:
    """Reads the table back, with text as text and sentence scores as numbers.

    Raises:
        InputError: the file is damaged.
    """
    try:
        table = pd.read_csv(
            path, sep="\t", quoting=csv.QUOTE_NONE, keep_default_na=False, dtype=dict.fromkeys(TEXTS, str)
        )
        table = table.astype({name: float for name in ("sentence_bleu", "sentence_chrf") if name in table})
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: not the table that evaluate.py writes: {error}; evaluate the run again") from None
    texts = [name for name in TEXTS if name in table]
    scores = [name for name in ("sentence_bleu", "sentence_chrf") if name in table]
    if not isinstance(table.index, pd.RangeIndex) or table[texts].isna().any(axis=None):
        raise InputError(f"{path}: not the table that evaluate.py writes: lines of other lengths; evaluate again")
    if not np.isfinite(table[scores].to_numpy()).all():
        raise InputError(f"{path}: not the table that evaluate.py writes: scores that are no numbers; evaluate again")
    missing = [name for name in ("source", "translation") if name not in table]
    if missing:
        raise InputError(f"{path}: not the table that evaluate.py writes: no column {missing[0]!r}; evaluate again")
    return table
