"""The run of the golden Marian model; `tests/benchmarks/marian_golden.py` says how that was made."""

import json

import numpy as np
from safetensors.numpy import load_file

from tests.support import ROOT

GOLDEN = ROOT / "tests" / "exchange" / "golden"
MARIAN = GOLDEN / "marian"


GOLDEN_PAIRS = (
    [">>fra<< the cat sees the dog .", "a small cat ☃ sleeps in the kitchen .", ""],
    ["le chat voit le chien .", "un petit chat dort dans la cuisine .", "où"],
)
"""Sentences and translations, whose pieces differ between the model's two subword models."""


def read_expected():
    """What Hugging Face computes with the model: text and ids, and arrays."""
    with np.load(GOLDEN / "expected.npz") as arrays:
        return json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8")), dict(arrays)


def our_ids(tokenizer):
    """Our id of each of Marian's."""
    ours = {piece: number for number, piece in enumerate(tokenizer.pieces(range(tokenizer.vocabulary_size)))}
    theirs = json.loads((MARIAN / "vocab.json").read_text(encoding="utf-8"))
    assert ours.pop("<s>") == 2 and "<s>" not in theirs
    return {number: ours[piece] for piece, number in theirs.items()}


def arrays_of(folder):
    return load_file(folder / "model.safetensors")
