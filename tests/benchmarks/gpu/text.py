"""The text that everyone trains on: Multi30k where it is at hand, else made-up sentences of its lengths."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.contest import ROOT

MULTI30K = (
    ROOT / "data/multi30k/lc.norm.tok",
    ROOT / "shared/corpora/multi30k_en_de/lc.norm.tok",
    ROOT / "../shared/corpora/multi30k_en_de/lc.norm.tok",
    Path("/work/shared/corpora/multi30k_en_de/lc.norm.tok"),
)
COPIES = 2  # of the text, so that an epoch has a dozen batches of 65,536 tokens
PAIRS, HELD_OUT = 29_000, 1_000  # of made-up text
NAMES = {"train": "train", "validation": "val", "test": "test_2016_flickr"}


class Text(NamedTuple):
    """Files of text.

    - description: what it is, for the caption.
    - folder: has `train`, `val` and `test_2016_flickr`, each `.en` and `.de`.
    """

    description: str
    folder: Path

    def settings(self, train: str = "train") -> dict[str, Any]:
        """Returns the settings of section `data`."""
        names = NAMES | {"train": train}
        sides = {"source": "en", "target": "de"}
        return {
            f"data.{part}.{side}": str(self.folder / f"{name}.{language}")
            for part, name in names.items()
            for side, language in sides.items()
        }


def find_text(folder: Path) -> Text:
    """Returns the text, with a training set of `COPIES` copies named `train_copies`, in a folder that is made."""
    source = next((path for path in MULTI30K if (path / "train.en").is_file()), None)
    text = folder / "text"
    text.mkdir(parents=True, exist_ok=True)
    if source is None:
        _make_up(text)
        description = f"made-up sentences ({PAIRS:,} pairs) of Multi30k's lengths"
    else:
        for name in NAMES.values():
            for language in ("en", "de"):
                (text / f"{name}.{language}").write_bytes((source / f"{name}.{language}").read_bytes())
        description = f"Multi30k, English to German, 29,000 pairs, {COPIES} times for the base size"
    for language in ("en", "de"):
        lines = (text / f"train.{language}").read_bytes()
        (text / f"train_copies.{language}").write_bytes(COPIES * lines)
    return Text(description, text)


def _make_up(folder: Path) -> None:
    """Writes pairs whose words are translated one by one, with lengths and frequencies of words as in Multi30k."""
    generator = np.random.default_rng(0)
    syllables = [a + b for a in "bdfgklmnprstvw" for b in ("a", "e", "i", "o", "u", "en", "ir", "ou")]
    words = {
        language: ["".join(generator.choice(syllables, generator.integers(1, 4))) for _ in range(9000)]
        for language in ("en", "de")
    }
    weights = 1 / np.arange(2, 9002)
    for name in NAMES.values():
        count = PAIRS if name == "train" else HELD_OUT
        lengths = np.clip(np.round(generator.lognormal(2.42, 0.31, count)), 3, 40).astype(int)
        changes = np.clip(np.round(generator.normal(-0.8, 1.8, count)), -lengths + 2, 8).astype(int)
        drawn = generator.choice(9000, (lengths + 8).sum(), p=weights / weights.sum())
        rows = np.split(drawn, np.cumsum(lengths + 8)[:-1])
        for language, sizes in (("en", lengths), ("de", lengths + changes)):
            lines = [
                " ".join(words[language][word] for word in row[:size]) for row, size in zip(rows, sizes, strict=True)
            ]
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def flops_per_token(encoded: Path, model: dict[str, int]) -> float:
    """Returns the arithmetic operations of an update for each target token, by the products of real tokens alone.

    A position that is padding, or a query and a key of different sentences, count as nothing; recomputation does too.

    Args:
        encoded: the folder `encoded` of a run.
        model: width, hidden, encoder and decoder layers, vocabulary.
    """
    source, target = (
        np.diff(np.load(encoded / f"train.{side}.starts.npy")).astype(float) + 1 for side in ("source", "target")
    )
    width, hidden = model["width"], model["hidden"]
    encoder = source.sum() * (4 * width**2 + 2 * width * hidden) + 2 * width * (source**2).sum()
    decoder = (
        target.sum() * (6 * width**2 + 2 * width * hidden)
        + source.sum() * 2 * width**2
        + 2 * width * ((target**2).sum() + (target * source).sum())
    )
    logits = target.sum() * width * model["vocabulary"]
    products = model["encoder_layers"] * encoder + model["decoder_layers"] * decoder + logits
    return 6.0 * products / target.sum()
