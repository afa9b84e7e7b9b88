"""The settings of a corpus, in section `data`: the files of its pairs or the number of pairs to hold out."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from ..files.paths import match_files
from .schema import MOST_COUNTED, Settings, Text

ColumnKey = Annotated[int, Field(ge=0, le=100_000)] | str
"""The number of a column, from 0, or its name."""
PARQUET_SUFFIX = ".parquet"


def is_csv(table: str | Path) -> bool:
    """Returns whether the name of a table ends in `.csv`, `.csv.gz` or `.csv.zst`, in any case."""
    return Path(table).name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".csv")


class LinkedTextSettings(Settings):
    """Two line-aligned text files with word links."""

    source: Path | None = None
    """Read source sentences from this text file, one per line, plain, gzip or zstd, or from all files that match a
    pattern, in sorted order."""
    target: Path | None = None
    """Read target sentences from this text file; line i translates line i of source."""
    alignments: Path | None = None
    """Read word alignments from this file in Pharaoh format, one line per pair: gold links, or links to learn. null:
    none."""
    alignments_first_index: Literal[0, 1] = 0
    """Count the words in alignments from this number."""
    alignments_turned: bool = False
    """Read the links in alignments as target-source, as for a corpus of the opposite direction."""

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if missing := [key for key in ("source", "target", "alignments") if getattr(self, key) is None]:
            raise ValueError(f"expected source, target and alignments, found no {' and no '.join(missing)}")
        return self


class CorpusSettings(LinkedTextSettings):
    """One corpus: two line-aligned text files, or a table with a column for each language."""

    instead: ClassVar[str] = ""
    """For the message about missing files: advice on settings that may replace files, in brackets."""

    table: Path | None = None
    """Read the pairs from this table instead, TSV or CSV, plain, gzip or zstd, or Parquet; patterns work as for
    source."""
    source_column: ColumnKey = 0
    """Take source sentences from this column of the table, its number from 0 or its name in the header."""
    target_column: ColumnKey = 1
    """Take target sentences from this column of the table, its number from 0 or its name in the header."""
    separator: str | None = None
    """Divide the columns of the table at this character. null: a comma in a .csv file, whose columns may be in double
    quotes, and a tab in others, in which quotes are text."""
    header: bool = False
    """Take the first line of the table as the names of its columns."""
    split_file: Path | None = None
    """Read the split of each pair from this file, one per line, none for the table's header."""
    split: str | None = None
    """Read the pairs of this split alone, spelt as in split_file. null: all pairs."""

    @field_validator("separator")
    @classmethod
    def _check_separator(cls, value: str | None) -> str | None:
        if value is None:
            return None
        character = "\t" if value == r"\t" else value  # a shell passes '\t' on as it is
        if len(character) != 1:
            raise ValueError(f"expected one character, found {value!r:.60}")
        return character

    def file_sets(self) -> list[dict[str, Path]]:
        """Finds the files of the corpus, which may be given as patterns.

        Returns:
            A dict for each group of files that belong together, from the name of a setting, such as `source`, to its
            file. Without patterns there is one group.

        Raises:
            InputError: a pattern matches no file, or two patterns match different numbers of files.
        """
        return match_files({key: path for key, path in self if isinstance(path, Path)})

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        files = (self.source is not None) + (self.target is not None)
        if (files == 2) == (self.table is not None) or files == 1:
            keys = [key for key in ("source", "target", "table") if getattr(self, key) is not None]
            present = " and ".join(keys) or f"neither{self.instead}"
            raise ValueError(f"expected either source and target or table, found {present}")
        if self.table is None and (self.header or self.separator is not None):
            raise ValueError("header and separator describe a table, and no table is given")
        columns = (self.source_column, self.target_column)
        if self.table is not None and self.table.suffix == PARQUET_SUFFIX:  # its columns have names in any case
            if self.header or self.separator is not None:
                raise ValueError("header and separator describe text, and the table is a Parquet file")
        elif self.table is not None and not self.header and any(isinstance(column, str) for column in columns):
            raise ValueError("columns can be named only if header is true: give their numbers from 0")
        if self.table is not None and self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column!r:.60}")
        if (self.split is None) != (self.split_file is None):
            raise ValueError("expected split together with split_file, found one without the other")
        return self


class SetSettings(CorpusSettings):
    """The pairs of a validation or test set: files, or a number of pairs that are held out from the training files."""

    share: float | None = Field(default=None, gt=0, le=0.5)
    """Hold out this share of the training pairs, such as 0.01; none of their sentences stays in the training text.
    null: read files."""
    pairs: int | None = Field(default=None, ge=1, le=MOST_COUNTED)
    """Hold out this many training pairs, instead of a share."""

    instead: ClassVar[str] = " (they can be held out from data.train: {share: 0.01})"

    @property
    def is_held_out(self) -> bool:
        """True if the pairs are taken from the training files."""
        return self.share is not None or self.pairs is not None

    def held_out_pairs(self, total: int) -> int:
        """Returns the number of pairs to hold out of the training files, which have `total` pairs."""
        return self.pairs if self.pairs is not None else round((self.share or 0.0) * total)

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if not self.is_held_out:
            return super()._check_files()  # type: ignore[operator]  # of a decorated method
        keys = [key for key, field in type(self).model_fields.items() if getattr(self, key) != field.default]
        if len(keys) > 1:
            raise ValueError(
                "expected either share or pairs alone, to hold out pairs of the training text, or files, found "
                + " and ".join(keys)
            )
        return self


def check_tag(value: str) -> str:
    """Checks the tag of a corpus, such as `<back>`, and returns it unchanged.

    Raises:
        ValueError: the tag is not a single word of printable characters, has the character U+2581, or is a special
            token such as `</s>`.
    """
    if value.split() != [value] or not value.isprintable() or "\u2581" in value:
        raise ValueError(f"expected one word without spaces, such as <back>, found {value!r:.60}")
    if value in ("<pad>", "<unk>", "<s>", "</s>"):
        raise ValueError(f"{value} is a special token of every vocabulary; expected another word, such as <back>")
    return value


CorpusTag = Annotated[Text, Field(min_length=1, max_length=64), AfterValidator(check_tag)]


class ListedCorpusSettings(CorpusSettings):
    """One corpus in a list of corpora to train on."""

    weight: float | None = Field(default=None, ge=0, le=MOST_COUNTED)
    """Give this corpus a share of each epoch in proportion to this number. null: every pair comes once, if no corpus
    has a weight."""
    tag: CorpusTag | None = None
    """Put this token, such as <back>, before every source sentence of the corpus. null: none."""


def _form_of(value: Any) -> str:
    """Returns pydantic's tag for a value of `data.train`: `null`, `list` for a list of corpora, else `files`."""
    return "null" if value is None else "list" if isinstance(value, list | tuple) else "files"


def check_list(corpora: tuple[ListedCorpusSettings, ...]) -> tuple[ListedCorpusSettings, ...]:
    """Checks the weights of a list of corpora, and returns the list unchanged.

    Raises:
        ValueError: the list is empty, or some corpora have a weight and some not, or all weights are 0.
    """
    if not corpora:
        raise ValueError("expected at least one corpus in the list, found none")
    weights = [corpus.weight for corpus in corpora]
    if None in weights and any(weight is not None for weight in weights):
        raise ValueError(
            "expected a weight for every corpus of the list or for none; "
            f"corpus {weights.index(None)}, counted from 0, has none"
        )
    if None not in weights and not any(weights):
        raise ValueError("expected a weight above 0 for at least one corpus, found 0 for all of them")
    return corpora


TrainingTextSettings = Annotated[
    Annotated[CorpusSettings, Tag("files")]
    | Annotated[tuple[ListedCorpusSettings, ...], AfterValidator(check_list), Tag("list")]
    | Annotated[None, Tag("null")],
    Discriminator(_form_of),
]
"""The setting `data.train`: one corpus, a list of several, or null."""
