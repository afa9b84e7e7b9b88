"""The settings of the text: section `data`."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from .corpus import CorpusSettings, ListedCorpusSettings, SetSettings, TrainingTextSettings, check_list
from .names import describe
from .names.text import EUROPARL_LANGUAGES, SCRIPTS, WORD_UNITS
from .names.translation import BLEU_TOKENIZERS, bleu_tokenizer_of
from .schema import MAY_CHANGE, OneOf, Settings


class FilterSettings(Settings):
    """Filters of further training pairs. All are off unless they are set; `corpus_report.json` counts what each
    leaves out."""

    source_script: Annotated[str, OneOf(SCRIPTS)] | None = Field(
        default=None,
        description="Script of the source, such as Latin: pairs of which fewer than half of the "
        "letters are of it are left out; null: not judged.",
    )
    target_script: Annotated[str, OneOf(SCRIPTS)] | None = Field(
        default=None, description="Script of the target; null: not judged."
    )
    identical: bool = Field(
        default=False,
        description="Whether to leave out pairs with the same text on both sides, white space and capitals apart.",
    )
    digits: bool = Field(
        default=False,
        description="Whether to leave out pairs whose sides have different digits, whatever their order and script.",
    )
    duplicates: bool = Field(default=False, description="Whether to leave out pairs that equal an earlier one.")
    near_duplicates: bool = Field(
        default=False,
        description="Whether to leave out pairs that equal an earlier one but for capitals, digits, marks and spaces.",
    )

    @field_validator("source_script", "target_script", mode="before")
    @classmethod
    def _spell_script(cls, value: object) -> object:
        return value.title() if isinstance(value, str) else value


class NormalizeSettings(Settings):
    """Changes to a sentence that a person has written, so that it looks like the training text.

    Sentences that look like it already stay as they are; sets are never changed.
    """

    lowercase: bool = Field(
        default=False,
        description="Whether to lower-case it. Where the training text has capitals, only the first word is "
        "lower-cased, unless the training text has it with its capital or begins its sentences with capitals.",
    )
    moses: bool = Field(
        default=False,
        description="Whether to unify punctuation and to divide words from marks as Moses does for the language.",
    )
    europarl: bool = Field(
        default=False,
        description="Whether to divide and lower-case words as the text of data/manythings is (English and French).",
    )

    @model_validator(mode="after")
    def _check_division(self) -> Self:
        if self.moses and self.europarl:
            raise ValueError("expected either moses or europarl, found both")
        return self


Unit = Annotated[str, OneOf(WORD_UNITS)]


class WordSettings(Settings):
    """The units that count as words where attention is shown and words are aligned."""

    source: Unit | None = Field(
        default=None,
        description=f"What counts as a word of the source. {describe(WORD_UNITS)}. null: spaces, or subwords if the "
        "text is found to have no spaces between words.",
    )
    target: Unit | None = Field(default=None, description="The same for the target.")


class DataSettings(Settings):
    """The parallel text, and what happens to unsuitable pairs."""

    source_language: str = Field(min_length=1, description="Code of the source language, such as en.")
    target_language: str = Field(min_length=1, description="Code of the target language, such as fr.")
    train: TrainingTextSettings = Field(
        description="The training pairs: two line-aligned text files, or a table with a column for each language; or a "
        "list of such corpora, each with its weight and tag; null in an imported run."
    )
    validation: SetSettings | None = Field(
        description="The pairs on which the best checkpoint is chosen: files as above, or held out by share or pairs; "
        "null in an imported run."
    )
    test: SetSettings | None = Field(
        default=None,
        description="The pairs that evaluate.py scores: files as above, or held out by share or pairs; null: none.",
    )
    temperature: float | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="With a list of training corpora: their shares of an epoch are in proportion to their numbers of "
        "pairs to the power of 1 / temperature. 1: as large as they are; 1000: nearly equal; null: by their weights.",
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
    normalize: Annotated[NormalizeSettings | None, MAY_CHANGE] = Field(
        default=None, description="What is done to text that people type; null: nothing."
    )
    words: Annotated[WordSettings, MAY_CHANGE] = Field(
        default=WordSettings(), description="What counts as a word where attention is shown and words are aligned."
    )
    max_source_tokens: int = Field(
        default=128, ge=1, le=100_000, description="Longest source sentence to train on, in tokens without EOS."
    )
    max_target_tokens: int = Field(
        default=128, ge=1, le=100_000, description="Longest target sentence to train on, in tokens without EOS."
    )
    max_length_ratio: float | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Leave out pairs whose longer side, of more than 10 tokens, has more than this many times as many "
        "tokens as the shorter; null: keep them.",
    )
    joined_pairs: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Number of extra training pairs, as a share of the original ones. Each joins two random pairs, "
        "within max_source_tokens and max_target_tokens, so that the model sees longer sentences. 0: none.",
    )

    filters: FilterSettings | None = Field(
        default=None, description="Further training pairs that are left out; null: none."
    )
    cache: Annotated[Path | None, MAY_CHANGE] = Field(
        default=None,
        description="Folder in which encoded text is kept, for other runs with the same text and tokenizer; null: "
        "every run encodes its own.",
    )

    @property
    def scoring_tokenizer(self) -> str:
        """The name of the tokenizer by which BLEU is computed."""
        by_text = "none" if self.tokenized else bleu_tokenizer_of(self.target_language)
        return self.bleu_tokenizer or by_text

    @property
    def held_out(self) -> dict[str, SetSettings]:
        """The sets that are held out from the training files, by name."""
        sets = {"validation": self.validation, "test": self.test}
        return {name: settings for name, settings in sets.items() if settings is not None and settings.is_held_out}

    @property
    def training_text(self) -> CorpusSettings | tuple[ListedCorpusSettings, ...]:
        """`train`, of a run that has it: all but imported ones."""
        assert self.train is not None
        return self.train

    @property
    def training_corpora(self) -> tuple[CorpusSettings, ...]:
        """The corpora of `train`, of which a list has several; none in an imported run."""
        if self.train is None:
            return ()
        return self.train if isinstance(self.train, tuple) else (self.train,)

    @property
    def listed_corpora(self) -> tuple[ListedCorpusSettings, ...]:
        """The corpora of `train` if it is a list; otherwise none."""
        return self.train if isinstance(self.train, tuple) else ()

    @property
    def is_weighted(self) -> bool:
        """Whether the corpora of a list have shares other than their sizes."""
        weighted = any(corpus.weight is not None for corpus in self.listed_corpora)
        return len(self.listed_corpora) > 1 and (weighted or self.temperature is not None)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the training corpora, each once, in the order of the list."""
        return tuple(dict.fromkeys(corpus.tag for corpus in self.listed_corpora if corpus.tag is not None))

    @property
    def has_word_links(self) -> bool:
        """Whether all training pairs have alignments."""
        corpora = self.training_corpora
        return bool(corpora) and all(corpus.alignments is not None for corpus in corpora)

    @property
    def validation_text(self) -> SetSettings:
        """`validation`, of a run that has it: all but imported ones."""
        assert self.validation is not None
        return self.validation

    @field_validator("train")
    @classmethod
    def _check_train(
        cls, value: CorpusSettings | tuple[ListedCorpusSettings, ...] | None
    ) -> CorpusSettings | tuple[ListedCorpusSettings, ...] | None:
        if isinstance(value, tuple):
            check_list(value)
        return value

    @model_validator(mode="after")
    def _check_normalize(self) -> Self:
        normalize = self.normalize
        if normalize is None:
            return self
        if (normalize.moses or normalize.europarl) and not self.tokenized:
            raise ValueError("normalize divides words, and tokenized is false; expected tokenized: true")
        if normalize.europarl and self.source_language not in EUROPARL_LANGUAGES:
            expected = " or ".join(EUROPARL_LANGUAGES)
            raise ValueError(f"normalize.europarl: expected source_language {expected}, found {self.source_language!r}")
        return self

    @model_validator(mode="after")
    def _check_temperature(self) -> Self:
        if self.temperature is None:
            return self
        if not self.listed_corpora:
            raise ValueError("temperature weighs the corpora of a list, and data.train is none; expected null")
        if self.listed_corpora[0].weight is not None:
            raise ValueError("expected either temperature or a weight for each corpus of data.train, found both")
        return self
