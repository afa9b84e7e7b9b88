"""The settings of the parallel text."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from .base import OneOf, Settings
from .corpus import CorpusSettings, has_files
from .names import BLEU_TOKENIZERS, CORPUS_ACTIONS, bleu_tokenizer_of, describe
from .normalize import NormalizeSettings
from .words import WordSettings

Action = Annotated[str, OneOf(CORPUS_ACTIONS)]


class DataSettings(Settings):
    """The parallel text, and what happens to unsuitable pairs."""

    source_language: str = Field(min_length=1, description="Code of the source language, such as en.")
    target_language: str = Field(min_length=1, description="Code of the target language, such as fr.")
    train: CorpusSettings | None = Field(
        description="The training pairs: two line-aligned text files, or a table with a column for each language; null "
        "in an imported run."
    )
    validation: CorpusSettings | None = Field(
        description="The pairs on which the best checkpoint is chosen: files as above, or held out by share or pairs; "
        "null in an imported run."
    )
    test: CorpusSettings | None = Field(
        default=None,
        description="The pairs that evaluate.py scores: files as above, or held out by share or pairs; null: none.",
    )
    tokenized: bool = Field(
        default=False,
        description="Whether words are already separated by spaces; BLEU then splits the text at spaces only.",
    )
    bleu_tokenizer: Annotated[str, OneOf(BLEU_TOKENIZERS)] | None = Field(
        default=None,
        description="How sacreBLEU splits text into words for BLEU. null: none if tokenized; otherwise by "
        "target_language, zh for Chinese, char for Japanese, Korean, Thai, Lao, Khmer and Burmese, and 13a for others. "
        f"{describe(BLEU_TOKENIZERS)}.",
    )
    normalize: NormalizeSettings | None = Field(
        default=None, description="What is done to text that people type; null: nothing."
    )
    words: WordSettings = Field(
        default=WordSettings(), description="What counts as a word where attention is shown and words are aligned."
    )
    max_source_tokens: int = Field(
        default=128, ge=1, le=100_000, description="Longest source sentence to train on, in tokens without EOS."
    )
    max_target_tokens: int = Field(
        default=128, ge=1, le=100_000, description="Longest target sentence to train on, in tokens without EOS."
    )
    max_length_ratio: float = Field(
        default=9.0,
        ge=1,
        le=100_000,
        description="Largest ratio of the number of tokens on the longer side of a pair to that on the shorter side.",
    )
    joined_pairs: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Number of extra training pairs, as a share of the original ones. Each joins two random pairs, "
        "within max_source_tokens and max_target_tokens, so that the model sees longer sentences. 0: none.",
    )
    on_empty_side: Literal["drop", "error"] = Field(
        default="drop",
        description="What to do with training pairs that have an empty side: leave them out (drop), or stop (error).",
    )
    on_over_long: Literal["drop", "error"] = Field(
        default="drop", description="What to do with training pairs over max_source_tokens or max_target_tokens."
    )
    on_length_ratio: Action = Field(default="keep", description="What to do with training pairs over max_length_ratio.")
    on_duplicate: Action = Field(
        default="keep", description="What to do with training pairs that have been seen before."
    )

    @property
    def scoring_tokenizer(self) -> str:
        """The name of the tokenizer by which BLEU is computed."""
        by_text = "none" if self.tokenized else bleu_tokenizer_of(self.target_language)
        return self.bleu_tokenizer or by_text

    @property
    def held_out(self) -> dict[str, CorpusSettings]:
        """The sets that are held out from the training files, by name."""
        sets = {"validation": self.validation, "test": self.test}
        return {name: settings for name, settings in sets.items() if settings is not None and settings.is_held_out}

    @property
    def training_text(self) -> CorpusSettings:
        """`train`, of a run that has it: all but imported ones."""
        assert self.train is not None
        return self.train

    @property
    def validation_text(self) -> CorpusSettings:
        """`validation`, of a run that has it: all but imported ones."""
        assert self.validation is not None
        return self.validation

    @field_validator("train")
    @classmethod
    def _check_train(cls, value: CorpusSettings | None) -> CorpusSettings | None:
        return value if value is None else has_files(value)
