"""The settings of the subword model."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from .names import describe
from .names.text import TOKENIZERS
from .schema import OneOf, Settings


class TokenizerSettings(Settings):
    """The subword model that source and target share, trained on the training pairs."""

    kind: Annotated[str, OneOf(TOKENIZERS)] = Field(
        default="bpe", description=f"How subwords are found. {describe(TOKENIZERS)}."
    )
    vocabulary_size: int = Field(
        default=8000,
        ge=32,
        le=1_000_000,
        description="Number of tokens in the vocabulary, including the four special ones.",
    )
    character_coverage: float = Field(
        default=1.0,
        ge=0.98,  # SentencePiece refuses less
        le=1,
        description="Share of the characters in the text that get a token of their own; the rarest become UNK.",
    )
    bpe_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Probability of skipping a BPE merge in the training text, so that words are also seen in smaller "
        "pieces (BPE-dropout, Provilkov et al. 2020). 0: no skipping.",
    )

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.bpe_dropout and self.kind != "bpe":
            raise ValueError(f"bpe_dropout leaves out merges, and kind: {self.kind} has none; expected kind: bpe")
        return self
