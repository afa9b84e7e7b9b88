"""The settings of the subword model."""

from typing import Literal, Self

from pydantic import Field, model_validator

from .base import Settings


class TokenizerSettings(Settings):
    """The subword model that source and target share, trained on the training pairs."""

    kind: Literal["unigram", "bpe"] = Field(
        default="bpe", description="How subwords are found: by merging frequent pairs, or by a unigram model."
    )
    vocabulary_size: int = Field(default=8000, ge=32, description="Number of tokens, the special ones among them.")
    training_sentences: int = Field(
        default=500_000,
        ge=1,
        description="Sentences of both languages that the subwords are learnt from, at most; of a longer text every "
        "n-th pair is taken.",
    )
    character_coverage: float = Field(
        default=1.0,
        ge=0.9,
        le=1,
        description="Share of the text's characters that get a token; the rarest others become UNK.",
    )
    bpe_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="BPE-dropout: share of merges left out at random in the training text, so that words are also seen "
        "in smaller pieces.",
    )
    unigram_alpha: float = Field(
        default=0.0,
        ge=0,
        description="Unigram sampling (Kudo 2018, section 3.2): segmentations of the training text are drawn in "
        "proportion to the power of their probability by this number, such as 0.2; 0: the likeliest is taken.",
    )
    segmentations: int = Field(
        default=10,
        ge=1,
        description="With bpe_dropout or unigram_alpha: how many segmentations of the training text epochs take in "
        "turn.",
    )

    @property
    def sampling(self) -> float:
        """What `Tokenizer.sample` takes; 0 where nothing is sampled."""
        return self.bpe_dropout or self.unigram_alpha

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        if self.bpe_dropout and self.kind != "bpe":
            raise ValueError(f"bpe_dropout leaves out merges, which kind: {self.kind} does not have; take kind: bpe")
        if self.unigram_alpha and self.kind != "unigram":
            raise ValueError(f"unigram_alpha needs probabilities, which kind: {self.kind} has not; take kind: unigram")
        return self
