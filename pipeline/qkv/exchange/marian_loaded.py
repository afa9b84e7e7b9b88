"""An exported Marian model as Hugging Face loads it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..decoding.translator import Translator

BATCH_SENTENCES = 32


class LoadedMarian:
    """A `MarianMTModel` with its `MarianTokenizer`; see `ExportedModel`.

    Args:
        folder: what `write_marian` wrote.
        translator: the run's, which says how long translations may be.

    Raises:
        ImportError: PyTorch or transformers is not installed.
    """

    own_decoding: Mapping[str, Any] = {"length_divisor": "power", "beam_end": "worst", "coverage_penalty": 0.0}

    def __init__(self, folder: Path, translator: Translator) -> None:
        import torch
        from transformers import MarianMTModel, MarianTokenizer

        self._torch = torch
        self._longest = translator.max_lengths
        self._tokenizer = MarianTokenizer.from_pretrained(folder)
        self._model = MarianMTModel.from_pretrained(folder).eval()

    def translate(self, sources: Sequence[str], decoding: Any) -> list[str]:
        """See `ExportedModel`."""
        texts = [""] * len(sources)
        lengths = np.array([len(ids) - 1 for ids in self._tokenizer(list(sources))["input_ids"]])
        for length in np.unique(lengths):  # the longest length of a translation is one for all of a call
            rows = np.flatnonzero(lengths == length)
            for first in range(0, len(rows), BATCH_SENTENCES):
                batch = rows[first : first + BATCH_SENTENCES]
                encoded = self._tokenizer([sources[row] for row in batch], return_tensors="pt", padding=True)
                with self._torch.inference_mode():
                    found = self._model.generate(
                        **encoded,
                        num_beams=decoding.beam_size,
                        length_penalty=decoding.length_penalty,
                        no_repeat_ngram_size=decoding.no_repeat_ngram,
                        max_length=int(self._longest(np.array([length]))[0]) + 1,  # the start counts
                    )
                for row, text in zip(batch, self._tokenizer.batch_decode(found, skip_special_tokens=True), strict=True):
                    texts[row] = text
        return texts

    def log_probabilities(self, sources: Sequence[str], targets: Sequence[str]) -> list[np.ndarray]:
        """See `ExportedModel`."""
        rows = []
        for source, target in zip(sources, targets, strict=True):
            encoded = self._tokenizer([source], text_target=[target], return_tensors="pt")
            with self._torch.inference_mode():
                scores = self._model(**encoded).logits.log_softmax(-1)
            labels = encoded["labels"]
            rows.append(scores.gather(-1, labels[..., None])[0, :, 0].numpy())
        return rows
