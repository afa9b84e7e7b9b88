"""The settings of the parallel text."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from .base import OneOf, Settings
from .names import BLEU_TOKENIZERS, CORPUS_ACTIONS, bleu_tokenizer_of, describe

Action = Annotated[str, OneOf(CORPUS_ACTIONS)]


class CorpusSettings(Settings):
    """One corpus: two line-aligned text files, or a table with a column for each language."""

    source: Path | None = Field(default=None, description="Text file with one source sentence per line.")
    target: Path | None = Field(
        default=None, description="Text file with one target sentence per line; line i translates line i of source."
    )
    table: Path | None = Field(
        default=None,
        description="Table (TSV or CSV, plain or gzipped) with one sentence pair per row; replaces source and target.",
    )
    source_column: str | int = Field(
        default=0,
        description="Column of source sentences in the table: its number, counted from 0, or its name in the header.",
    )
    target_column: str | int = Field(
        default=1,
        description="Column of target sentences in the table: its number, counted from 0, or its name in the header.",
    )
    separator: str = Field(default="\t", description="Character between the columns of the table.")
    header: bool = Field(default=False, description="Whether the first line of the table names its columns.")
    split_column: str | int | None = Field(
        default=None,
        description="Column of the table that names the split of each row: its number, counted from 0, or its name.",
    )
    split_file: Path | None = Field(
        default=None,
        description="File with the name of a split on each line, aligned with the corpus; replaces split_column.",
    )
    split: str | None = Field(
        default=None,
        description="Name of the split to read, as spelt in split_column or split_file; null: read all pairs.",
    )
    alignments: Path | None = Field(
        default=None,
        description="File of word alignments in Pharaoh format (source-target; ? marks possible links), one line per "
        "pair. For validation and test text: the gold standard. For training text: the links to learn "
        "(training.guided_attention). null: none.",
    )
    alignments_first_index: Literal[0, 1] = Field(
        default=0, description="Number of the first word of a sentence in alignments."
    )
    alignments_turned: bool = Field(
        default=False,
        description="Whether the links in alignments are target-source, as for a corpus of the opposite direction.",
    )

    @field_validator("separator")
    @classmethod
    def _check_separator(cls, value: str) -> str:
        character = "\t" if value == r"\t" else value  # a shell passes '\t' on as it is
        if len(character) != 1:
            raise ValueError(f"expected one character, found {value!r}")
        return character

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        files = (self.source is not None) + (self.target is not None)
        if (files == 2) == (self.table is not None) or files == 1:
            given = [key for key in ("source", "target", "table") if getattr(self, key) is not None]
            raise ValueError(f"expected either source and target or table, found {' and '.join(given) or 'neither'}")
        if self.table is None and (self.header or self.split_column is not None):
            raise ValueError("header and split_column describe a table, and no table is given")
        columns = (self.source_column, self.target_column, self.split_column)
        if self.table is not None and not self.header and any(isinstance(column, str) for column in columns):
            raise ValueError("columns can be named only if header is true: give their numbers from 0")
        if self.table is not None and self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column!r}")
        return self

    @field_validator("source_column", "target_column", "split_column")
    @classmethod
    def _check_column_numbers(cls, value: str | int | None) -> str | int | None:
        if isinstance(value, int) and value < 0:
            raise ValueError("columns are counted from 0")
        return value

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        if self.split_column is not None and self.split_file is not None:
            raise ValueError("expected either split_column or split_file, found both")
        if (self.split is None) != (self.split_column is None and self.split_file is None):
            raise ValueError("expected split together with split_column or split_file, found one without the other")
        return self


class DataSettings(Settings):
    """The parallel text, and what happens to unsuitable pairs."""

    source_language: str = Field(min_length=1, description="Code of the source language, such as en.")
    target_language: str = Field(min_length=1, description="Code of the target language, such as fr.")
    train: CorpusSettings = Field(
        description="The training pairs: two line-aligned text files, or a table with a column for each language."
    )
    validation: CorpusSettings = Field(description="The pairs on which the best checkpoint is chosen.")
    test: CorpusSettings | None = Field(default=None, description="The pairs that evaluate.py scores; null: none.")
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
    max_source_tokens: int = Field(
        default=128, ge=1, description="Longest source sentence to train on, in tokens without EOS."
    )
    max_target_tokens: int = Field(
        default=128, ge=1, description="Longest target sentence to train on, in tokens without EOS."
    )
    max_length_ratio: float = Field(
        default=9.0,
        ge=1,
        description="Largest ratio of the number of tokens on the longer side of a pair to that on the shorter side.",
    )
    joined_pairs: float = Field(
        default=0.0,
        ge=0,
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
