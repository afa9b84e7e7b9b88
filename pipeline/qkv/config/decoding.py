"""The settings of the search for translations: section `decoding`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..errors import did_you_mean
from .choices.translation import BEAM_ENDS, LENGTH_DIVISORS, SEARCHES
from .data import DataSettings
from .model import ArchitectureSettings
from .schema import KEPT, OneOf, Settings, Text


class DecodingSettings(Settings):
    """The settings of the search for translations."""

    search: Annotated[str, OneOf(SEARCHES)] = "beam"
    """Search for translations in this way."""
    beam_size: int = Field(default=5, ge=1, le=1000)
    """Keep this many hypotheses per sentence in beam search. 1: greedy search."""
    n_best: int = Field(default=1, ge=1, le=1000)
    """Return this many translations of each sentence, in beam search at most beam_size, with truncated ones last."""
    length_penalty: float = Field(default=1.0, ge=0, le=5)
    """Rank hypotheses of n tokens by their log-probability divided by ((5 + n) / 6) to this power.
    0: no penalty, which favours short translations."""
    length_divisor: Annotated[str, OneOf(LENGTH_DIVISORS)] = "gnmt"
    """Divide log-probabilities by this function of the length."""
    beam_end: Annotated[str, OneOf(BEAM_ENDS)] = "full"
    """End beam search by this rule."""
    coverage_penalty: float = Field(default=0.0, ge=0, le=1000)
    """Weigh the coverage penalty, the sum of log(min(1, attention)) over source tokens, by this number. 0: none."""
    min_length: int = Field(default=0, ge=0, le=100_000)
    """Write at least this many tokens before EOS."""
    renormalize: bool = False
    """Rank hypotheses by probabilities among the tokens that may come next. false: among all tokens."""
    force_eos: bool = False
    """End a translation that reaches its limit in EOS, at no cost. false: cut it."""
    no_repeat_ngram: int = Field(default=0, ge=0, le=100_000)
    """Block repeated n-grams of this length. 0: none."""
    temperature: float = Field(default=1.0, ge=0.001, le=1000)
    """With sampling: divide the logits by this number; below 1 favours likely tokens."""
    top_k: int = Field(default=0, ge=0, le=1_000_000)
    """With sampling: draw among this number of the most likely tokens. 0: among all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """With sampling: draw among the fewest most likely tokens that hold this share of the probability (nucleus
    sampling). 1: among all."""
    tag: Annotated[Text | None, KEPT] = None
    """Put this tag of data.train before source sentences that begin with none, in validation too. null: none."""
    batch_sentences: Annotated[int, Field(ge=1, le=100_000)] | Literal["auto"] = "auto"
    """Translate this many sentences in one batch. auto: 64 on a processor; on a GPU as many as fit into its memory,
    up to 2,048."""
    max_target_ratio: Annotated[float, KEPT] = Field(default=2.0, ge=0, le=1000)
    """Limit a translation to this number times the source tokens, plus max_target_extra."""
    max_target_extra: Annotated[int, KEPT] = Field(default=10, ge=1, le=100_000)
    """Add this many tokens to the limit of max_target_ratio."""

    @property
    def kind(self) -> str:
        """The kind of search: `greedy` for a beam of size 1, else `beam` or `sampling`."""
        return "greedy" if self.search == "beam" and self.beam_size == 1 else self.search

    def check_with(self, data: DataSettings, model: ArchitectureSettings) -> None:
        """Checks that these settings fit the text and the model.

        Raises:
            ValueError: no training corpus has the tag, or a coverage penalty has no cross-attention to act on.
        """
        self.check_coverage(model)
        if self.tag is None or self.tag in data.tags:
            return
        if data.tags:
            tags = ", ".join(data.tags)
            hint = did_you_mean(self.tag, data.tags)
            raise ValueError(
                f"decoding.tag: expected one of the tags of data.train, {tags}, or null, found {self.tag!r:.60}{hint}"
            )
        raise ValueError(f"decoding.tag: no corpus of data.train has a tag; expected null, found {self.tag!r:.60}")

    def check_coverage(self, model: ArchitectureSettings) -> None:
        """Raises a `ValueError` if there is a coverage penalty, but the model has no cross-attention."""
        if self.coverage_penalty and not model.has_cross_attention:
            raise ValueError("decoding.coverage_penalty: the model has no cross-attention to compute it; expected 0")

    @model_validator(mode="after")
    def _check_search(self) -> Self:
        if self.search == "sampling":
            return self
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best ({self.n_best}) can be at most beam_size ({self.beam_size})")
        fields = type(self).model_fields
        useless = [key for key in ("temperature", "top_k", "top_p") if getattr(self, key) != fields[key].default]
        if useless:
            raise ValueError(f"{' and '.join(useless)}: no effect in beam search; expected search: sampling as well")
        return self
