"""How often 95 % intervals hold the true value, and how often p is small where nothing differs, of each measure.

    python -m tests.benchmarks.interval_cover            # 1,000 synthetic test sets of each; minutes
    python -m tests.benchmarks.interval_cover --sets 200

The sentences are those of `tests/support/populations.py`. For BLEU and chrF it also says what the paired bootstrap of
sacreBLEU gives, whose p is that of one side.
"""

import argparse

import numpy as np
from sacrebleu.significance import _compute_p_value, estimate_ci

from qkv.statistics.resampling import interval, sentence_counts
from tests.support.populations import (
    FAMILIES,
    SENTENCES,
    corpus_populations,
    cover,
    distance_from_uniform,
    draw_corpora,
    p_values,
)


def show(name, sentences, inside, p):
    shares = "  ".join(f"{np.mean(p <= level):6.1%}" for level in (0.01, 0.05, 0.1, 0.5))
    held = "" if inside is None else f"{inside:.1%}"
    print(f"{name:28}{sentences:5}{held:>8}   {shares}   {distance_from_uniform(p):.3f}", flush=True)


def scores(name, sets, samples):
    """Prints a line for our tests and intervals of a score, and one for sacreBLEU's."""
    one, other = corpus_populations(name)
    true = one.metric._compute_score_from_stats(np.rint((one.counts + other.counts).sum(0))).score
    inside, within, ours, theirs = 0, 0, [], []
    for number in range(sets):
        first, second = draw_corpora(name, number)
        counts = sentence_counts(len(first.counts), samples=samples, seed=number)
        drawn, drawn_second = first.of_samples(counts), second.of_samples(counts)
        low, high = interval(drawn)
        inside += low <= true <= high
        within += abs(first.value - true) <= estimate_ci(drawn)[1]
        ours.append(second.p_against(first, samples))
        differences = np.abs(drawn - drawn_second)
        found = abs(first.value - second.value)
        theirs.append(_compute_p_value(differences - differences.mean(), found))
    show(name, len(first.counts), inside / sets, np.array(ours))
    show(f"{name}, by sacreBLEU", len(first.counts), within / sets, np.array(theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1000, help="number of synthetic test sets (of scores)")
    parser.add_argument("--samples", type=int, default=199, help="number of samples for each (of scores)")
    options = parser.parse_args()
    print("measure                 sentences    held   p <= .01    .05     .1     .5   distance from uniform")
    for family in FAMILIES:
        show(family, SENTENCES, cover(family), p_values(family))
    for name in ("BLEU", "chrF"):
        scores(name, options.sets, options.samples)


if __name__ == "__main__":
    main()
