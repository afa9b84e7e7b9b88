"""The settings of a corpus: the files of its pairs, or how many are held out; and of a list of corpora."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from ..files.paths import match_files
from .schema import MOST_COUNTED, Settings, composed

MOST_COLUMNS = 100_000
PARQUET = ".parquet"


def is_csv(table: str | Path) -> bool:
    """Returns whether a table, packed or not, is a CSV file by its name."""
    return Path(table).name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".csv")


class LinkedTextSettings(Settings):
    """Two line-aligned text files with word links."""

    source: Path | None = Field(
        default=None,
        description="Text file with one source sentence per line, plain, gzip or zstd; a pattern such as part-*.en.gz "
        "stands for all files that match it, in sorted order.",
    )
    target: Path | None = Field(
        default=None, description="Text file with one target sentence per line; line i translates line i of source."
    )
    alignments: Path | None = Field(
        default=None,
        description="File of word alignments in Pharaoh format (source-target, words counted from 0; ? marks possible "
        "links), one line per pair. For validation and test text: the gold standard. For training text: the links to "
        "learn (training.guided_attention), and the gold standard of the sets that are held out from it. null: none.",
    )
    alignments_turned: bool = Field(
        default=False,
        description="Whether the links in alignments are target-source, as for a corpus of the opposite direction.",
    )

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        self.check_files()
        return self

    def check_files(self) -> None:
        """Checks that all files are named.

        Raises:
            ValueError: one is not.
        """
        if missing := [key for key in ("source", "target", "alignments") if getattr(self, key) is None]:
            raise ValueError(f"expected source, target and alignments, found no {' and no '.join(missing)}")


class CorpusSettings(LinkedTextSettings):
    """One corpus: two line-aligned text files, or a table with a column for each language."""

    instead: ClassVar[str] = ""
    """What may stand in the place of files, for messages."""

    table: Path | None = Field(
        default=None,
        description="Table (TSV or CSV, plain, gzip or zstd; or Parquet) with one sentence pair per row; replaces "
        "source and target. Patterns as above.",
    )
    source_column: str | int = Field(
        default=0,
        description="Column of source sentences in the table: its number, counted from 0, or its name in the header.",
    )
    target_column: str | int = Field(
        default=1,
        description="Column of target sentences in the table: its number, counted from 0, or its name in the header.",
    )
    separator: str | None = Field(
        default=None,
        description="Character between the columns of the table; null: a comma in a .csv file, in which columns may "
        "also stand in double quotes, and a tab in others, in which quotes are ordinary text.",
    )
    header: bool = Field(default=False, description="Whether the first line of the table names its columns.")
    split_file: Path | None = Field(
        default=None,
        description="File with the name of a split on each line, aligned with the corpus; a table's header has none.",
    )
    split: str | None = Field(
        default=None,
        description="Name of the split to read, as spelt in split_file; null: read all pairs.",
    )

    @field_validator("separator")
    @classmethod
    def _check_separator(cls, value: str | None) -> str | None:
        if value is None:
            return None
        character = "\t" if value == r"\t" else value  # a shell passes '\t' on as it is
        if len(character) != 1:
            raise ValueError(f"expected one character, found {value!r}")
        return character

    @property
    def is_parquet(self) -> bool:
        """Whether the table is a Parquet file, whose columns have names."""
        return self.table is not None and self.table.suffix == PARQUET

    def shards(self) -> list[dict[str, Path]]:
        """Returns the files by their keys; several times, where they are patterns.

        Raises:
            InputError: as `match_files`.
        """
        return match_files({key: path for key, path in self if isinstance(path, Path)})

    def check_files(self) -> None:
        """Checks that the pairs come from one place, and that what describes a table is given with one.

        Raises:
            ValueError: they do not, or it is not.
        """
        files = (self.source is not None) + (self.target is not None)
        if (files == 2) == (self.table is not None) or files == 1:
            given = [key for key in ("source", "target", "table") if getattr(self, key) is not None]
            found = " and ".join(given) or f"neither{self.instead}"
            raise ValueError(f"expected either source and target or table, found {found}")
        if self.table is None and (self.header or self.separator is not None):
            raise ValueError("header and separator describe a table, and no table is given")
        columns = (self.source_column, self.target_column)
        if self.is_parquet:
            if self.header or self.separator is not None:
                raise ValueError("header and separator describe text, and the table is a Parquet file")
        elif self.table is not None and not self.header and any(isinstance(column, str) for column in columns):
            raise ValueError("columns can be named only if header is true: give their numbers from 0")
        if self.table is not None and self.source_column == self.target_column:
            raise ValueError(f"source_column and target_column are both {self.source_column!r}")

    @field_validator("source_column", "target_column")
    @classmethod
    def _check_column_numbers(cls, value: str | int) -> str | int:
        if isinstance(value, int) and value < 0:
            raise ValueError("columns are counted from 0")
        if isinstance(value, int) and value > MOST_COLUMNS:
            raise ValueError(f"expected a column up to {MOST_COLUMNS}, found {value}")
        return value

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        if (self.split is None) != (self.split_file is None):
            raise ValueError("expected split together with split_file, found one without the other")
        return self


class SetSettings(CorpusSettings):
    """The pairs of validation or test: files of their own, or so many that are held out from the training files."""

    share: float | None = Field(
        default=None,
        gt=0,
        le=0.5,
        description="Share of the training files' pairs to hold out as this set, such as 0.01. No sentence of the set "
        "stays in the training text. Replaces files of its own.",
    )
    pairs: int | None = Field(
        default=None, ge=1, le=MOST_COUNTED, description="Number of pairs to hold out, instead of share."
    )

    instead: ClassVar[str] = " (they can be held out from data.train: {share: 0.01})"

    @property
    def is_held_out(self) -> bool:
        """Whether the pairs are taken from the training files."""
        return self.share is not None or self.pairs is not None

    def held_out_pairs(self, total: int) -> int:
        """Returns how many of `total` pairs are held out."""
        return self.pairs if self.pairs is not None else round((self.share or 0.0) * total)

    def check_files(self) -> None:
        """Checks the files, unless the pairs are held out."""
        if not self.is_held_out:
            super().check_files()
            return
        given = [key for key, field in type(self).model_fields.items() if getattr(self, key) != field.default]
        if len(given) > 1:
            raise ValueError(
                "expected either share or pairs alone, to hold out pairs of the training files, or files of its own "
                f"without them, found {' and '.join(given)}"
            )


LONGEST_TAG = 64


class ListedCorpusSettings(CorpusSettings):
    """One corpus of several to train on."""

    weight: float | None = Field(
        default=None,
        ge=0,
        le=MOST_COUNTED,
        description="Share of this corpus in the pairs of every epoch, in proportion to the weights of the others; "
        "null, for all of them: every pair comes once in an epoch.",
    )
    tag: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_TAG,
        description="A token of its own, such as <back>, that is put before every source sentence of this corpus.",
    )

    _composed = field_validator("tag")(composed)

    @field_validator("tag")
    @classmethod
    def _check_tag(cls, value: str | None) -> str | None:
        return value if value is None else check_tag(value)


def check_tag(value: str) -> str:
    """Refuses a tag that is not one word, or that is the name of a special token.

    Raises:
        ValueError: it is.
    """
    if value.split() != [value] or not value.isprintable() or "\u2581" in value:
        raise ValueError(f"expected one word without spaces, such as <back>, found {value!r}")
    if value in ("<pad>", "<unk>", "<s>", "</s>"):
        raise ValueError(f"{value} is a special token of every vocabulary; expected another word, such as <back>")
    return value


def _form_of(value: Any) -> str:
    return "null" if value is None else "list" if isinstance(value, list | tuple) else "files"


TrainingTextSettings = Annotated[
    Annotated[CorpusSettings, Tag("files")]
    | Annotated[tuple[ListedCorpusSettings, ...], Tag("list")]
    | Annotated[None, Tag("null")],
    Discriminator(_form_of),
]
"""One corpus, or a list of several."""


def check_list(corpora: Sequence[ListedCorpusSettings]) -> None:
    """Checks what the corpora of a list say about each other.

    Raises:
        ValueError: there are none, only some of them have a weight, or all weights are zero.
    """
    if not corpora:
        raise ValueError("expected at least one corpus in the list, found none")
    unweighted = [number for number, corpus in enumerate(corpora) if corpus.weight is None]
    if len(unweighted) == len(corpora):
        return
    if unweighted:
        raise ValueError(
            f"expected a weight for every corpus of the list or for none; corpus {unweighted[0]}, counted from 0, has "
            "none"
        )
    if not any(corpus.weight for corpus in corpora):
        raise ValueError("expected a weight above 0 for at least one corpus, found 0 for all of them")
