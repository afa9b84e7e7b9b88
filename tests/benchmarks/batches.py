"""Times what training does with encoded text: checking, choosing, planning an epoch, and making its batches.

    python -m tests.benchmarks.batches [--pairs 1000000] [--batch_tokens 3072]
    python -m tests.benchmarks.batches --padding runs/demo ...

The text is drawn at random, with lengths as sentences have them, and is mapped from disk. `--padding` prints the
padding of packed batches of the text of runs instead, and of drawn text of long sentences.
"""

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

from qkv.text.batch import make_batch
from qkv.text.batch_plan import EpochPlan
from qkv.text.tokens.encoding import EncodedPairs, EncodedSentences
from qkv.text.tokens.special_tokens import PAD
from tests.benchmarks.contest import machine

VOCABULARY = 8000
MOST_BATCHES = 3000


def main() -> None:
    """Prints seconds of processor time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000, help="(default: 1000000)")
    parser.add_argument("--batch_tokens", type=int, default=3072, help="(default: 3072)")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train")
        EncodedPairs(*(draw_sentences(options.pairs, random) for _ in range(2))).save(path)
        clock = Clock()
        pairs = EncodedPairs.load(path)
        clock.say("mapped and checked")
        pairs.select(random.permutation(options.pairs), random.integers(options.pairs, size=(options.pairs // 10, 2)))
        clock.say("chosen in another order, a tenth joined")
        plan = EpochPlan(pairs, batch_tokens=options.batch_tokens, length_multiple=1, seed=1, epoch=0)
        planned = plan.batches()
        first = next(planned)
        clock.say("the first window of an epoch planned")
        rows = [first, *islice(planned, MOST_BATCHES - 1)]
        batches = [make_batch(pairs, one) for one in rows]
        seconds = clock.say(f"{len(batches):,} batches made")
        count = plan.count
        clock.say(f"all {count:,} batches counted")
    tokens = sum(int((ids != PAD).sum()) for batch in batches for ids in (batch.source, batch.target_output))
    print(f"{tokens / seconds:,.0f} tokens/s, source and target\n{machine()}; {options.pairs:,} pairs")


def draw_sentences(count: int, random: np.random.Generator) -> EncodedSentences:
    """Draws sentences of 1 to 100 tokens, 13 on average."""
    lengths = np.clip(random.gamma(4, 3.5, count).astype(int), 1, 100)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return EncodedSentences(random.integers(4, VOCABULARY, starts[-1], dtype=np.int32), starts)


class Clock:
    """Processor time since the last line that it said."""

    def __init__(self) -> None:
        self._started = time.process_time()

    def say(self, what: str) -> float:
        """Prints how long it took, and returns that."""
        seconds = time.process_time() - self._started
        print(f"{seconds:8.3f} s  {what}")
        self._started = time.process_time()
        return seconds


if __name__ == "__main__":
    main()
