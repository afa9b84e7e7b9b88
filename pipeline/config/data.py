"""The settings of what is trained on: corpora, subwords, batches."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from .base import Settings


class CorpusSettings(Settings):
    """One corpus: two line-aligned text files, or a table with a column for each language."""

    source: Path | None = Field(default=None, description="Text file with a source sentence per line.")
    target: Path | None = Field(
        default=None, description="Text file with a target sentence per line, aligned with source."
    )
    table: Path | None = Field(
        default=None, description="Table with a sentence pair per row, instead of source and target."
    )
    source_column: str | int = Field(
        default=0, description="The table's column of source sentences: its number from 0, or its name in the header."
    )
    target_column: str | int = Field(default=1, description="The table's column of target sentences, likewise.")
    separator: str = Field(default="\t", description="The character between columns of the table.")
    header: bool = Field(default=False, description="Whether the table's first line names its columns.")
    split_column: str | int | None = Field(
        default=None, description="The table's column that says which split a row is in, by number or name."
    )
    split_file: Path | None = Field(
        default=None,
        description="File with the name of a split per line, aligned with the corpus, instead of split_column.",
    )
    split: str | None = Field(default=None, description="The split to read, as split_column or split_file spells it.")
    alignments: Path | None = Field(
        default=None,
        description="Word alignments in Pharaoh format (source-target, ? for possible), a line per pair: the "
        "gold standard of text that is evaluated, links to learn of training text (training.guided_attention).",
    )
    alignments_first_index: Literal[0, 1] = Field(default=0, description="Number of the first word in alignments.")
    alignments_turned: bool = Field(
        default=False, description="alignments is a file of the opposite direction: target-source."
    )

    @field_validator("separator")
    @classmethod
    def _one_character(cls, value: str) -> str:
        character = "\t" if value == r"\t" else value  # a shell passes '\t' on as it is
        if len(character) != 1:
            raise ValueError(f"expected one character, found {value!r}")
        return character

    @model_validator(mode="after")
    def _one_way_to_the_pairs(self) -> Self:
        files = (self.source is not None) + (self.target is not None)
        if (files == 2) == (self.table is not None) or files == 1:
            given = [key for key in ("source", "target", "table") if getattr(self, key) is not None]
            raise ValueError(f"expected either source and target or table, found {' and '.join(given) or 'neither'}")
        if self.table is None and (self.header or self.split_column is not None):
            raise ValueError("header and split_column describe a table, and no table is given")
        columns = (self.source_column, self.target_column, self.split_column)
        if self.table is not None and not self.header and any(isinstance(column, str) for column in columns):
            raise ValueError("columns can be named only where header is true: give their numbers from 0")
        if self.table is not None and self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column!r}")
        return self

    @field_validator("source_column", "target_column", "split_column")
    @classmethod
    def _columns_count_from_0(cls, value: str | int | None) -> str | int | None:
        if isinstance(value, int) and value < 0:
            raise ValueError("columns are counted from 0")
        return value

    @model_validator(mode="after")
    def _one_way_to_the_split(self) -> Self:
        if self.split_column is not None and self.split_file is not None:
            raise ValueError("expected either split_column or split_file, found both")
        if (self.split is None) != (self.split_column is None and self.split_file is None):
            raise ValueError("split needs split_column or split_file beside it, and they need split")
        return self


class DataSettings(Settings):
    """The parallel text, and what happens to pairs that do not suit."""

    source_language: str = Field(min_length=1, description="Language translated from, as a code: en.")
    target_language: str = Field(min_length=1, description="Language translated into, as a code: fr.")
    train: CorpusSettings = Field(
        description="The pairs trained on: two line-aligned text files, or a table with a column for each language."
    )
    validation: CorpusSettings = Field(description="The pairs that choose the best checkpoint.")
    test: CorpusSettings | None = Field(default=None, description="The pairs that evaluate.py scores.")
    tokenized: bool = Field(
        default=False,
        description="The text is divided into words by spaces already: BLEU is computed on it as it is.",
    )
    max_source_tokens: int = Field(
        default=128, ge=1, description="Longest source sentence trained on, in tokens without EOS."
    )
    max_target_tokens: int = Field(
        default=128, ge=1, description="Longest target sentence trained on, in tokens without EOS."
    )
    max_length_ratio: float = Field(
        default=9.0,
        ge=1,
        description="Largest ratio of the longer side's tokens to the shorter side's in training pairs.",
    )
    joined_pairs: float = Field(
        default=0.0,
        ge=0,
        description="Further training pairs, as a share of the others, made by joining two of them at random, within "
        "max_source_tokens and max_target_tokens: they teach sentences longer than those of the text.",
    )
    on_empty_side: Literal["drop", "error"] = Field(
        default="drop", description="What happens to a training pair with an empty side."
    )
    on_over_long: Literal["drop", "error"] = Field(
        default="drop", description="What happens to a training pair over max_source_tokens or max_target_tokens."
    )
    on_length_ratio: Literal["drop", "keep", "error"] = Field(
        default="keep", description="What happens to a training pair over max_length_ratio."
    )
    on_duplicate: Literal["drop", "keep", "error"] = Field(
        default="keep", description="What happens to a training pair seen before."
    )
