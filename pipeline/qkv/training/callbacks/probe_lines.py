"""Prints how the probes are translated at every validation."""

import sys
from collections.abc import Sequence
from typing import TextIO

import keras

from ...decoding.translator import Translator
from ...runtime.streams import EscapingStream
from ...text.corpus import Corpus

MOST_PRINTED = 3
MOST_CHARACTERS = 100
MIDDLE = (0.4, 0.5, 0.6)  # shares of the validation pairs that are shorter than each probe


def middle_pairs(corpus: Corpus) -> list[tuple[str, str]]:
    """Chooses a few pairs of middle length, whose order in the text does not matter."""
    filled = {pair for pair in corpus.pairs() if all(pair)}
    pairs = sorted(filled, key=lambda pair: (len(pair[0]), pair))
    places = dict.fromkeys(round(share * (len(pairs) - 1)) for share in MIDDLE) if pairs else ()
    return [pairs[place] for place in places]


class ProbeLines(keras.callbacks.Callback):
    """Prints source, reference and translation of the first `MOST_PRINTED` probes after each validation.

    Args:
        translator: translates with the model that is trained.
        probes: (source, reference or None) of each sentence.
        stream: where the lines are written; standard output by default.
    """

    def __init__(
        self, translator: Translator, probes: Sequence[tuple[str, str | None]], stream: TextIO | None = None
    ) -> None:
        super().__init__()
        self.translator = translator
        self.probes = probes[:MOST_PRINTED]
        self.stream = EscapingStream(stream or sys.stdout)

    def on_test_end(self, logs=None):
        if not self.probes:
            return
        translations = self.translator.translate([source for source, _ in self.probes])
        for (source, reference), translation in zip(self.probes, translations, strict=True):
            rows = {"source": source, "reference": reference, "translation": translation.text}
            for name, text in rows.items():
                if text is not None:
                    self.stream.write(f"  {name:<11}  {_shortened(text)}\n")
        self.stream.flush()


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
