"""The attention of sentences in the formats of other tools."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np

from ..files import write_atomically
from .record import Record


class WeightsOfRecord(Protocol):
    """Selects one matrix of a record, as `pipeline.alignment.readout.AlignmentReadout` does."""

    def weights(self, record: Record) -> np.ndarray:
        """Returns the attention `(T, S)`."""
        ...


def write_soft_alignments(path: Path, records: Iterable[Record], readout: WeightsOfRecord) -> None:
    """Writes the cross-attention of one layer and head as Nematus does, which SoftAlignments draws.

    Each sentence is a line `number ||| target ||| 0 ||| source ||| source length target length`, a row of weights for
    each target token, and an empty line (Rikters et al. 2017; `process_alignments.py -f Nematus`). EOS has a row and a
    column but no name, since readers add it.
    """
    parts = []
    for record in records:
        weights = readout.weights(record)
        target = _spell_tokens(record.target_output_tokens, record.target_words)
        source = _spell_tokens(record.source_tokens, record.source_words)
        rows = "\n".join(" ".join(f"{weight:.6f}" for weight in row) for row in weights)
        size = f"{weights.shape[1]} {weights.shape[0]}"
        parts.append(f"{record.id} ||| {target} ||| 0 ||| {source} ||| {size}\n{rows}\n\n")
    write_atomically(path, "".join(parts).encode())


def _spell_tokens(tokens: list[str], words: list[int | None]) -> str:
    """Returns the tokens without EOS, with the format's separators in them replaced."""
    end = len(tokens) - 1 if words and words[-1] is None else len(tokens)
    return " ".join(token.replace("|", "\u00a6").replace(" ", "\u2581") for token in tokens[:end])
