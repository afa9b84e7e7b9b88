"""Times the table of error rates of every layer and head against gold alignments.

    python -m tests.benchmarks.score_heads [--sentences 1000] [--turns 5]

Sentences have 21 source and 25 target tokens, the model 2 layers of 8 heads, read on both sides with every extraction.
"""

import argparse
import statistics
import time

from qkv.alignment.heads import score_heads
from qkv.text.pharaoh import GoldAlignment
from tests.benchmarks.contest import machine
from tests.inspection.conftest import build_record

SOURCE_WORDS, TARGET_WORDS = 20, 24


def main() -> None:
    """Prints the median."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=1000, help="(default: 1000)")
    parser.add_argument("--turns", type=int, default=5, help="(default: 5)")
    options = parser.parse_args()
    record = build_record(0, (*range(SOURCE_WORDS), None), (*range(TARGET_WORDS), None), layers=2, heads=8)
    link = frozenset({(0, 0)})
    pairs = [record] * options.sentences, [GoldAlignment(link, link)] * options.sentences
    seconds = []
    for _ in range(options.turns):
        started = time.process_time()
        score_heads(*pairs, [(SOURCE_WORDS, TARGET_WORDS)] * options.sentences)
        seconds.append(time.process_time() - started)
    print(f"{options.sentences} sentences, 16 heads: {statistics.median(seconds):.2f} s of processor time")
    print(f"{machine()}; median of {options.turns} turns")


if __name__ == "__main__":
    main()
