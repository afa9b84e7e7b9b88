"""The tokens of an evaluated set, made once for the translator, the likelihood, alignments and the archive."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..decoding.translator import Translation
from ..inspection.recorder import ForcedPair, pair_references, pair_translations
from ..text.tokens.encoding import EncodedSentences, encode_sentences
from ..text.tokens.tokenizer import Tokenizer
from .request import EvaluationSet


@dataclass(frozen=True)
class TokenisedSet:
    """A set with its tokens.

    Args:
        data: the set.
        source: the tokens of its sources.
        reference: the tokens of its references, where there are references.
    """

    data: EvaluationSet
    source: EncodedSentences
    reference: EncodedSentences | None

    @classmethod
    def of(cls, data: EvaluationSet, tokenizer: Tokenizer) -> "TokenisedSet":
        """Tokenises a set."""
        reference = encode_sentences(data.reference, tokenizer.of_target) if data.reference is not None else None
        return cls(data, encode_sentences(data.source, tokenizer), reference)

    def pair_references(self, max_positions: int) -> Iterator[ForcedPair]:
        """Pairs each source with its reference."""
        assert self.data.reference is not None and self.reference is not None
        source_ids, reference_ids = ([row.tolist() for row in side] for side in (self.source, self.reference))
        return pair_references(self.data.source, self.data.reference, source_ids, reference_ids, max_positions)

    def pair_translations(self, translations: Sequence[Translation], mode: str) -> Iterator[ForcedPair]:
        """Pairs each source with its translation."""
        return pair_translations(self.data.source, self.data.reference, translations, mode)
