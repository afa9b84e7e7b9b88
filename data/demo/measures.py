"""Figures of the generated corpus: sizes, lengths, word counts and alignment error rates."""

from collections import Counter
from collections.abc import Callable, Iterable

from data.demo.phrase import SentencePair

Links = set[tuple[int, int]]


def alignment_error_rate(pairs: Iterable[SentencePair], align: Callable[[SentencePair], Links]) -> float:
    """AER pooled over the pairs, 1 - (|A and S| + |A and P|) / (|A| + |S|), P including S (Och & Ney 2003, eq. 26)."""
    agreed = total = 0
    for pair in pairs:
        links = align(pair)
        agreed += len(links & pair.sure) + len(links & (pair.sure | pair.possible))
        total += len(links) + len(pair.sure)
    return 1 - agreed / total


def link_by_gold(pair: SentencePair) -> Links:
    """One gold link for every French word, a sure one where possible: the best that attention's argmax can do."""
    best = {j: i for i, j in sorted(pair.possible)} | {j: i for i, j in sorted(pair.sure)}
    return {(i, j) for j, i in best.items()}


def link_by_diagonal(pair: SentencePair) -> Links:
    """Links every French word to the English word at the same relative position."""
    source, target = len(pair.source), len(pair.target)
    return {(round((j + 0.5) / target * source - 0.5), j) for j in range(target)}


def make_table(splits: dict[str, list[SentencePair]]) -> str:
    """A table of sizes, lengths, word types and AER, with a column for each split."""
    rows: dict[str, Callable[[list[SentencePair]], str]] = {
        "pairs": lambda pairs: str(len(pairs)),
        "English words a sentence": lambda pairs: _mean(len(pair.source) for pair in pairs),
        "French words a sentence": lambda pairs: _mean(len(pair.target) for pair in pairs),
        "longest English, French": lambda pairs: _longest(pairs),
        "equal lengths": lambda pairs: _percent(sum(len(p.source) == len(p.target) for p in pairs) / len(pairs)),
        "English word types": lambda pairs: str(len(count_words(pair.source for pair in pairs))),
        "French word types": lambda pairs: str(len(count_words(pair.target for pair in pairs))),
        "rarest type, times": lambda pairs: str(min((_all_words(pairs)).values())),
        "with the economic area": lambda pairs: _percent(sum("area" in pair.source for pair in pairs) / len(pairs)),
        "sure, possible links": lambda pairs: (
            f"{sum(len(p.sure) for p in pairs)}, {sum(len(p.possible) for p in pairs)}"
        ),
        "oracle AER": lambda pairs: _percent(alignment_error_rate(pairs, link_by_gold)),
        "diagonal AER": lambda pairs: _percent(alignment_error_rate(pairs, link_by_diagonal)),
    }
    lines = [["", *splits], *([name, *(measure(pairs) for pairs in splits.values())] for name, measure in rows.items())]
    return "\n".join(f"{row[0]:<26}" + "".join(f"{cell:>16}" for cell in row[1:]) for row in lines)


def count_words(sentences: Iterable[Iterable[str]]) -> Counter[str]:
    """How often each word occurs."""
    return Counter(word for sentence in sentences for word in sentence)


def _all_words(pairs: list[SentencePair]) -> Counter[tuple[str, str]]:
    english = Counter(("en", word) for pair in pairs for word in pair.source)
    return english + Counter(("fr", word) for pair in pairs for word in pair.target)


def _mean(lengths: Iterable[int]) -> str:
    values = list(lengths)
    return f"{sum(values) / len(values):.1f}"


def _longest(pairs: list[SentencePair]) -> str:
    return f"{max(len(pair.source) for pair in pairs)}, {max(len(pair.target) for pair in pairs)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
