"""The settings of the text: section `data`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from .choices.text import SCRIPTS, WORD_UNITS
from .choices.translation import BLEU_TOKENIZERS, bleu_tokenizer_of
from .corpus import CorpusSettings, ListedCorpusSettings, SetSettings, TrainingTextSettings
from .schema import MAY_CHANGE, OneOf, Settings

Script = Annotated[str, BeforeValidator(lambda name: name.title() if isinstance(name, str) else name), OneOf(SCRIPTS)]


class FilterSettings(Settings):
    """Optional filters of the training pairs, in addition to the limits of length. All are off by default.

    `corpus_report.json` has the number of pairs that each filter leaves out.
    """

    source_script: Script | None = None
    """Leave out a pair if fewer than half of the source's letters belong to this script, such as Latin.
    null: any script."""
    target_script: Script | None = None
    """Leave out a pair if fewer than half of the target's letters belong to this script. null: any script."""
    identical: bool = False
    """Leave out pairs with the same text on both sides, except for white space and capitals."""
    digits: bool = False
    """Leave out pairs whose sides have different digits, whatever their order and script."""
    duplicates: bool = False
    """Leave out pairs that equal an earlier one."""
    near_duplicates: bool = False
    """Leave out pairs that equal an earlier one except for capitals, digits, punctuation and spaces."""


class NormalizeSettings(Settings):
    """Changes that give a sentence that the user types the style of the training text.

    Sentences that have this style already are not changed, nor are the sentences of the run's sets.
    """

    lowercase: bool = False
    """Lower-case the sentence as in the training text: all of it, or only its first word unless that is a name."""
    moses: bool = False
    """Normalise punctuation and separate it from words, as Moses does for the language."""

    @model_validator(mode="before")
    @classmethod
    def _drop_europarl(cls, values: Any) -> Any:
        """Returns the values without `europarl`, a switch of older versions; raises a `ValueError` if it is on."""
        if not isinstance(values, Mapping) or "europarl" not in values:
            return values
        if values["europarl"] not in (False, None):
            raise ValueError(
                "europarl is not a setting any more; delete it. Divide typed text into words before qkv reads it, as "
                "data/manythings/tokenize_text.py does; or set moses: true if Moses has divided the training text"
            )
        return {name: value for name, value in values.items() if name != "europarl"}


Unit = Annotated[str, OneOf(WORD_UNITS)]


class WordSettings(Settings):
    """The units that count as words where attention is shown and words are aligned."""

    source: Unit | None = None
    """Count these units of the source as words. null: spaces, or subwords if the text has no spaces between words."""
    target: Unit | None = None
    """Count these units of the target as words. null: as for the source."""


class DataSettings(Settings):
    """The parallel text: its languages and files, and the rules by which pairs are left out or added."""

    source_language: str = Field(min_length=1)
    """Name the source language by its code, such as en."""
    target_language: str = Field(min_length=1)
    """Name the target language by its code, such as fr."""
    train: TrainingTextSettings
    """The training pairs: two line-aligned text files, a table, or a list of such corpora, each with its weight and
    tag; null in an imported run."""
    validation: SetSettings | None
    """The pairs on which the best checkpoint is chosen: files, or held out by share or pairs; null in an imported
    run."""
    test: SetSettings | None = None
    """The pairs on which runs are evaluated: files, or held out by share or pairs; null: none."""
    temperature: float | None = Field(default=None, ge=1, le=1000)
    """Give each corpus of a list a share of each epoch in proportion to its pairs to the power 1 / temperature.
    null: by weights; 1: as large as they are; 1000: nearly equal."""
    corpus: Annotated[str | None, MAY_CHANGE] = None
    """Name the training text for model cards, with version and origin. null: not stated."""
    licence: Annotated[str | None, MAY_CHANGE] = None
    """State the licence of the training text, under which exported models are passed on too, such as CC-BY-4.0, for
    model cards. null: not stated."""
    tokenized: bool = False
    """Declare that spaces separate all words and punctuation already; BLEU then splits the text at spaces only."""
    bleu_tokenizer: Annotated[str, OneOf(BLEU_TOKENIZERS)] | None = None
    """Split text into words for BLEU by this tokenizer of sacreBLEU. null: none if tokenized, otherwise zh, char or
    13a by target_language."""
    normalize: Annotated[NormalizeSettings | None, MAY_CHANGE] = None
    """The changes to text that people type; null: none."""
    words: Annotated[WordSettings, MAY_CHANGE] = WordSettings()
    """The units that count as words where attention is shown and words are aligned."""
    max_source_tokens: int = Field(default=128, ge=1, le=100_000)
    """Leave out pairs with more source tokens than this, EOS not counted."""
    max_target_tokens: int = Field(default=128, ge=1, le=100_000)
    """Leave out pairs with more target tokens than this, EOS not counted."""
    max_length_ratio: float | None = Field(default=None, ge=1, le=100_000)
    """Leave out pairs whose longer side, of more than 10 tokens, has over this many times the tokens of the shorter.
    null: keep them."""
    joined_pairs: float = Field(default=0.0, ge=0, le=100)
    """Add this share of extra training pairs, each two random pairs joined, so that the model sees longer sentences.
    0: none."""
    filters: FilterSettings | None = None
    """The filters that leave out further training pairs; null: none."""
    cache: Annotated[Path | None, MAY_CHANGE] = None
    """Keep encoded text in this folder, for other runs with the same text and tokenizer. null: keep none."""

    @property
    def scoring_tokenizer(self) -> str:
        """The name of the tokenizer for BLEU, in `BLEU_TOKENIZERS`: `bleu_tokenizer`, or its default if it is None."""
        return self.bleu_tokenizer or ("none" if self.tokenized else bleu_tokenizer_of(self.target_language))

    @property
    def held_out(self) -> dict[str, SetSettings]:
        """The sets that are held out from the training files, by name: `validation`, `test`, both or none."""
        sets = {"validation": self.validation, "test": self.test}
        return {name: settings for name, settings in sets.items() if settings is not None and settings.is_held_out}

    @property
    def training_corpora(self) -> tuple[CorpusSettings, ...]:
        """The corpora in `train`: one or several, or none in an imported run."""
        if self.train is None:
            return ()
        return self.train if isinstance(self.train, tuple) else (self.train,)

    @property
    def listed_corpora(self) -> tuple[ListedCorpusSettings, ...]:
        """The corpora in `train` if it is a list; otherwise an empty tuple."""
        return self.train if isinstance(self.train, tuple) else ()

    @property
    def is_weighted(self) -> bool:
        """True if the shares of the corpora in an epoch are set by weights or by a temperature."""
        weighted = any(corpus.weight is not None for corpus in self.listed_corpora)
        return len(self.listed_corpora) > 1 and (weighted or self.temperature is not None)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the training corpora in the order of the list, each once."""
        return tuple(dict.fromkeys(corpus.tag for corpus in self.listed_corpora if corpus.tag is not None))

    @property
    def has_word_links(self) -> bool:
        """True if all training pairs have alignments."""
        corpora = self.training_corpora
        return bool(corpora) and all(corpus.alignments is not None for corpus in corpora)

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self.normalize is not None and self.normalize.moses and not self.tokenized:
            raise ValueError("normalize divides words, and tokenized is false; expected tokenized: true")
        if self.temperature is not None and not self.listed_corpora:
            raise ValueError("temperature weighs the corpora of a list, but data.train is not a list; expected null")
        if self.temperature is not None and self.listed_corpora[0].weight is not None:
            raise ValueError("expected either temperature or a weight for each corpus of data.train, found both")
        return self
