"""The settings of decoding."""

from typing import Literal, Self

from pydantic import Field, model_validator

from .base import Settings


class DecodingSettings(Settings):
    """How translations are made."""

    search: Literal["beam", "sampling"] = Field(
        default="beam", description="How translations are found: the best of several, or drawn by chance."
    )
    beam_size: int = Field(
        default=5, ge=1, description="Hypotheses of each sentence that beam search follows; 1: greedy search."
    )
    n_best: int = Field(default=1, ge=1, description="Translations found for each sentence; at most beam_size.")
    length_penalty: float = Field(
        default=1.0,
        ge=0,
        description="A hypothesis of n tokens is ranked by its log-probability divided by ((5 + n) / 6) to this power; "
        "0 favours short ones.",
    )
    coverage_penalty: float = Field(
        default=0.0,
        ge=0,
        description="Weight, in the ranking, of the logarithms of the attention that each source token got, up to 1.",
    )
    min_length: int = Field(default=0, ge=0, description="Fewest tokens of a translation before EOS.")
    no_repeat_ngram: int = Field(
        default=0, ge=0, description="No run of so many tokens stands twice in a translation; 0: any may."
    )
    temperature: float = Field(
        default=1.0, gt=0, description="Sampling: divides the logits; below 1 favours likely tokens."
    )
    top_k: int = Field(default=0, ge=0, description="Sampling: only so many likeliest tokens can be drawn; 0: all.")
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sampling: only the fewest likeliest tokens with this share of the probability can be drawn.",
    )
    batch_sentences: int = Field(default=64, ge=1, description="Sentences translated at once.")
    max_target_ratio: float = Field(
        default=2.0,
        ge=0,
        description="A translation ends after max_target_ratio * source tokens + max_target_extra tokens, "
        "at the latest.",
    )
    max_target_extra: int = Field(default=10, ge=1, description="Tokens; see max_target_ratio.")

    @property
    def kind(self) -> Literal["greedy", "beam", "sampling"]:
        """What the search is called."""
        return "greedy" if self.search == "beam" and self.beam_size == 1 else self.search

    @model_validator(mode="after")
    def _of_one_search(self) -> Self:
        if self.search == "sampling":
            return self
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best ({self.n_best}) can be at most beam_size ({self.beam_size})")
        fields = type(self).model_fields
        idle = [key for key in ("temperature", "top_k", "top_p") if getattr(self, key) != fields[key].default]
        if idle:
            raise ValueError(
                f"{' and '.join(idle)}: without effect in beam search; expected search: sampling beside it"
            )
        return self
