"""All sentence types of the demo corpus with their frequencies."""

from collections.abc import Callable

from data.demo import clauses, joined_sentences, simple_sentences
from data.demo.phrase import Phrase, SentencePair, realise
from data.demo.sampling import Sampler

# How often each type is drawn, in parts; short types repeat themselves and end up rarer, since all pairs are distinct.
FREQUENCIES: dict[Callable[[Sampler], Phrase], int] = {
    simple_sentences.transitive: 22,
    simple_sentences.about_people: 10,
    simple_sentences.intransitive: 8,
    simple_sentences.residence: 7,
    simple_sentences.quality: 6,
    simple_sentences.state: 7,
    simple_sentences.giving: 8,
    simple_sentences.existence: 5,
    simple_sentences.politics: 12,
    simple_sentences.passive: 12,
    simple_sentences.question: 8,
    joined_sentences.seen_and_eaten: 12,
    joined_sentences.described_subject: 5,
    joined_sentences.described_object: 5,
    joined_sentences.reason: 7,
    joined_sentences.report: 7,
    joined_sentences.two_clauses: 6,
}
_TYPES = [sentence_type for sentence_type, parts in FREQUENCIES.items() for _ in range(parts)]


def random_pair(draw: Sampler) -> SentencePair:
    """One sentence of a random type with its translation and links."""
    sentence_type = draw.pick(_TYPES)
    # "!" or "." has no other reason than itself, so a translator has to look at it to translate it.
    mark = "?" if sentence_type is simple_sentences.question else draw.pick("..!")
    return realise(clauses.sentence(sentence_type(draw), mark))
