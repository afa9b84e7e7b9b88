"""The settings of the subword model: section `tokenizer`."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from .choices.text import TOKENIZERS
from .schema import OneOf, Probability, Settings


class TokenizerSettings(Settings):
    """The subword model that source and target share, trained on the training pairs."""

    kind: Annotated[str, OneOf(TOKENIZERS)] = "bpe"
    """Learn the subwords by this method."""
    vocabulary_size: int = Field(default=8000, ge=32, le=1_000_000)
    """Learn this many tokens, including the four special ones."""
    character_coverage: float = Field(default=1.0, ge=0.98, le=1)  # SentencePiece refuses less
    """Give this share of the text's characters a token each; the rarest become UNK."""
    bpe_dropout: Probability = 0.0
    """Skip each BPE merge in the training text with this probability, as in BPE-dropout (Provilkov et al. 2020).
    0: skip none."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.bpe_dropout and self.kind != "bpe":
            raise ValueError(f"bpe_dropout skips merges, but kind: {self.kind} has no merges; expected kind: bpe")
        return self
